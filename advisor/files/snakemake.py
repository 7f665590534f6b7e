"""Snakemake's benchmark files, ordinary and extended (`--benchmark-extended`): a line a run, a table with tabs or JSON lines.

Of an extended file a component is a rule. Its predictor are the bytes of the input files, its cores the threads that it was
given. An ordinary file names none of them: a component is the file's name without its endings, all runs have one size, and
the cores are the whole ones that were kept busy (`mean_load`, a percentage, or in later versions `cpu_time` by `s`), one
where the run ended before it was measured. Longer rows without a load are passed over.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, cast

from advisor.files.lines import BadCell, Lines, number_of
from advisor.files.run_files import KIB, Passed, Ran, RunEntry

HINT = "run snakemake with --benchmark-extended"
NEEDED = ("s", "rule_name", "threads", "input_size_mb")
ORDINARY = ("s", "h:m:s")
RENAMED = {"rule": "rule_name", "running_time": "s"}  # by version, and in JSON
ENDINGS = (".tsv", ".jsonl", ".txt", ".benchmark", ".bench")
ABSENT = ("-", "", "NA")
FIRST_LOOK_S = 1.0  # Snakemake measures first after half a second
ROUNDED = 0.01  # tables have two decimals
MIB = KIB * KIB


def runs(lines: Lines) -> Iterator[RunEntry]:
    """Yield what a benchmark file tells; raises InvalidValue where it is none, or has no rules."""
    first, name = lines.first(), lines.path.name
    while name.endswith(ENDINGS):
        name = name[: name.rindex(".")]
    if first.startswith("{"):
        yield from (_of_json(number, line, name) for number, line in lines if line.strip())
        return
    ordinary = "h:m:s" in first.split("\t") and not {"rule", "rule_name"} & set(first.split("\t"))
    for row in lines.by_column("\t", ORDINARY if ordinary else NEEDED, HINT, RENAMED):
        if isinstance(row, BadCell):
            yield row
        else:
            yield _ordinary(*row, name) if ordinary else _entry_of_row(*row)


def _of_json(number: int, line: str, name: str) -> RunEntry:
    try:
        entry = json.loads(line)
    except ValueError:
        return BadCell(number, "all", line[:80], "a JSON object")
    found = cast("dict[str, Any]", entry if isinstance(entry, dict) else {})
    row = {RENAMED.get(key, key): "-" if value is None else str(value) for key, value in found.items()}
    if "s" in row and "rule_name" not in row:
        return _ordinary(number, row, name)
    missing = next((key for key in NEEDED if key not in row), None)
    return BadCell(number, missing, line[:80], f"there: {HINT}") if missing else _entry_of_row(number, row)


def _ordinary(number: int, row: Mapping[str, str], name: str) -> RunEntry:
    """Return the run of a row without rule, threads and inputs."""
    load, seconds = row.get("mean_load", "-").strip(), number_of(row["s"])
    if load in ABSENT and not seconds <= FIRST_LOOK_S:  # Snakemake found no psutil
        return Passed(number, "without a load: its cores are not known")
    percent = 0.0 if load in ABSENT else number_of(load)
    if abs(percent * seconds - number_of(row.get("cpu_time", ""))) <= ROUNDED * (seconds + 1.0):
        percent *= 100.0  # it is cpu_time by s
    cores = max(1.0, math.ceil(percent / 100.0)) if math.isfinite(percent) else percent
    peak_bytes = _peak_bytes(row)
    cells = {
        "elapsed_s": ("s", row["s"]),
        "cores": ("mean_load", load),
        "peak_bytes": ("max_rss", row.get("max_rss", "")),
    }
    return Ran(number, name, 1.0, cores, seconds, cells, peak_bytes)


def _peak_bytes(row: Mapping[str, str]) -> float | None:
    peak = row.get("max_rss", "-").strip()
    return None if peak in ABSENT or number_of(peak) == 0.0 else number_of(peak) * MIB


def _entry_of_row(number: int, row: Mapping[str, str]) -> RunEntry:
    cells = {
        "component": ("rule_name", row["rule_name"]), "elapsed_s": ("s", row["s"]), "cores": ("threads", row["threads"]),
        "predictor": ("input_size_mb", row["input_size_mb"]), "peak_bytes": ("max_rss", row.get("max_rss", "")),
    }  # fmt: skip
    predictor = _input_bytes(row["input_size_mb"])
    return Ran(
        number, row["rule_name"], predictor, number_of(row["threads"]), number_of(row["s"]), cells, _peak_bytes(row)
    )


def _input_bytes(text: str) -> float:
    """Return the bytes of all input files: MiB by file, or their number alone."""
    if text.strip() in ABSENT:
        return 0.0
    try:
        sizes: Any = ast.literal_eval(text)
        return sum(map(float, sizes.values())) * MIB if isinstance(sizes, dict) else float(sizes) * MIB  # pyright: ignore[reportUnknownArgumentType]
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return float("nan")
