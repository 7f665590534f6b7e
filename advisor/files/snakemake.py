"""Snakemake's benchmark files (`--benchmark-extended`): a line a run, as a table with tabs or as JSON lines.

A component is a rule. Its predictor are the bytes of the input files, its cores the threads that it was given.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from advisor.files.run_files import KIB, Lines, Ran, RunEntry, number_of
from advisor.files.tables import BadCell

HINT = "run snakemake with --benchmark-extended"
NEEDED: dict[str, str] = dict.fromkeys(("s", "rule_name", "threads", "input_size_mb"), HINT)
ABSENT = ("-", "", "NA")
MIB = KIB * KIB


def runs(lines: Lines) -> Iterator[RunEntry]:
    """Yield what a benchmark file tells; raises InvalidValue where it is none, or has no rules."""
    first = next(iter(lines), (1, ""))[1]
    lines.read = 0
    if first.startswith("{"):
        yield from (_of_json(number, line) for number, line in lines if line.strip())
        return
    columns, rows = lines.header("\t", NEEDED)
    for number, row in rows:
        yield _entry_of_row(number, row) if row else BadCell(number, "all", "", f"a row of {len(columns)} columns")


def _of_json(number: int, line: str) -> RunEntry:
    try:
        entry = json.loads(line)
    except ValueError:
        return BadCell(number, "all", line[:80], "a JSON object")
    missing = [name for name in NEEDED if not isinstance(entry, dict) or name not in entry]
    if missing:
        return BadCell(number, missing[0], line[:80], f"there: {HINT}")
    row = cast("dict[str, Any]", entry)
    return _entry_of_row(number, {name: str(value) for name, value in row.items()})


def _entry_of_row(number: int, row: Mapping[str, str]) -> RunEntry:
    peak = row.get("max_rss", "-").strip()
    peak_bytes = None if peak in ABSENT or number_of(peak) == 0.0 else number_of(peak) * MIB
    cells = {
        "component": ("rule_name", row["rule_name"]), "elapsed_s": ("s", row["s"]), "cores": ("threads", row["threads"]),
        "predictor": ("input_size_mb", row["input_size_mb"]), "peak_bytes": ("max_rss", peak),
    }  # fmt: skip
    predictor = _input_bytes(row["input_size_mb"])
    return Ran(number, row["rule_name"], predictor, number_of(row["threads"]), number_of(row["s"]), cells, peak_bytes)


def _input_bytes(text: str) -> float:
    """Return the bytes of all input files: MiB by file, or their number alone."""
    if text.strip() in ABSENT:
        return 0.0
    try:
        sizes: Any = ast.literal_eval(text)
        return sum(map(float, sizes.values())) * MIB if isinstance(sizes, dict) else float(sizes) * MIB  # pyright: ignore[reportUnknownArgumentType]
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return float("nan")
