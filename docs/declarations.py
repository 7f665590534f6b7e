"""What a page shows of the declarations: keys of verbs, refusals of rows, frames, errors, limits, the verbs of a scope.

A page holds a mark where such a part stands, as ``<!--keys:predict-->``. The site replaces it, and so does
``python docs/declarations.py docs/protocol.md``, which prints the page.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from types import NoneType
from typing import Any, Literal

from msgspec import Meta

from advisor import errors
from advisor.domain import limits
from advisor.domain.fields import MAPS, UNIONS, bound_of, taken_apart
from advisor.domain.job_pools import JOB_KEYS
from advisor.domain.rows import ABSENT_U32, ABSENT_U64, BOUNDS, FIELDS, REFUSALS, bound_text
from advisor.protocol.declaring import meanings
from advisor.protocol.verbs import METHODS, NUMBERING

# The limits of what a peer sends, in the order of the page; the others are the service's own.
LIMITS = (
    "MESSAGE_BYTES_MAX", "LARGE_MESSAGES_MAX", "STRUCTURE_BYTES_MAX", "DEPTH_MAX", "ARRAY_ITEMS_MAX", "MAP_ITEMS_MAX",
    "STRING_BYTES_MAX", "POINTS_BATCH_MAX",
    "ROWS_BYTES_MAX", "ROWS_BATCH_MAX", "NAMES_BATCH_MAX", "NAME_BYTES_MAX", "NAME_IDS_MAX",
    "DIMENSIONS_MAX", "JOBS_TOGETHER_MAX", "CANDIDATES_MAX", "NETWORKS_TOGETHER_MAX", "NETWORKS_MAX",
    "NETWORKS_NAMED_MAX", "DEFINITION_BYTES_MAX", "SIMULATE_CORES_MAX", "SIMULATE_TASKS_MAX", "SIMULATE_RUNS_MAX",
    "SIMULATE_WORK_MAX", "SIMULATE_DETAILS_MAX", "STATUS_PAGE_MAX", "UNANSWERED_MAX",
)  # fmt: skip
_COLUMNS = {"<u4": "u32", "<u8": "u64", "<f8": "f64", "u1": "u8", "": "–"}
_ABSENT = {ABSENT_U32: "2^32 − 1", ABSENT_U64: "2^64 − 1"}
_MARK = re.compile(r"<!--(?:(keys|frames|verbs):)?([a-z_]+)-->")
_FRAME = re.compile(r"^(?:client|service): .*\n(?:  [0-9a-f ]+\n)+", re.MULTILINE)


def completed(page: str, frames: str) -> str:
    """Return a page with each mark replaced; `frames` is the text of docs/frames.txt. Raises KeyError: an unknown name."""

    def part(mark: re.Match[str]) -> str:
        if mark[1] == "frames":
            return frames_of(mark[2], frames)
        return {"keys": keys_of, "verbs": verbs_of}.get(mark[1], _table_of)(mark[2])

    return _MARK.sub(part, page)


def keys_of(name: str) -> str:
    """Return the table of a verb's keys; empty where it has none."""
    spec, said = METHODS[name], meanings(name)
    defaults = {each.name: each.default for each in fields(spec.into)}
    lines: list[str] = []
    for key, what in spec.keys.items():
        if key in NUMBERING and name != "hello":
            continue
        default = "required" if defaults[key] is MISSING else _word(defaults[key])
        lines.append(f"| `{key}` | {words_of(what).replace('|', '/')} | {default} | {said[key]} |")
    return "\n".join(["| key | type | default | meaning |", "|---|---|---|---|", *lines] if lines else ())


def words_of(said: Any) -> str:
    """Return what an annotation takes."""
    of, parts, notes = taken_apart(said)
    own = next((note.title or note.description for note in notes if isinstance(note, Meta)), None)
    if own:
        return own
    if of in UNIONS:
        several = [part for part in parts if part is not NoneType]
        return words_of(several[0]) if len(several) == 1 else " or ".join(dict.fromkeys(map(words_of, several)))
    if of is Literal:
        return "text: " + ", ".join(f"`{word}`" for word in parts)
    if of in (list, Sequence):
        return f"array of: {words_of(parts[0])}"
    return f"map by key of: {words_of(parts[1])}" if of in MAPS else {bool: "boolean"}.get(of) or bound_of(said)


def verbs_of(scope: str) -> str:
    """Return the verbs of a scope."""
    return ", ".join(f"`{name}`" for name, spec in METHODS.items() if spec.scope == scope)


def frames_of(section: str, frames: str) -> str:
    """Return the frames of a section of the page, each as a block."""
    found = dict(part.split("\n", 1) for part in frames.split("\n# ")[1:])[section]
    return "\n".join(f"```frame\n{frame}```" for frame in _FRAME.findall(found))


def wire_errors() -> dict[str, type[errors.AdvisorError]]:
    """Return the errors that a service may answer, by code."""
    families = (errors.CallerError, errors.ServiceError)
    return {code: cls for code, cls in errors.BY_CODE.items() if issubclass(cls, families) and code != "caller"}


def limit_reasons() -> dict[str, str]:
    """Return the reason that stands beside each limit in its module."""
    source = inspect.getsource(limits)
    return dict(re.findall(r"^(\w+) = [^#\n]+?  # (.+)$", source, re.MULTILINE))


def _table_of(what: str) -> str:
    if what == "errors":
        lines = ["| code | retry | meaning |", "|---|---|---|"]
        for code, cls in wire_errors().items():
            lines.append(f"| `{code}` | {'yes' if cls.retry else 'no'} | {(cls.__doc__ or '').splitlines()[0]} |")
        return "\n".join(lines)
    if what == "fields":
        lines = ["| field | in a row | column | absent in a column | meaning |", "|---|---|---|---|---|"]
        for name, field in FIELDS.items():
            absent = _ABSENT.get(field.absent, f"{field.absent:g}") if field.column else "–"
            column = _COLUMNS[field.column] + (", label number" if field.absent == ABSENT_U32 else "")
            lines.append(f"| `{name}` | {field.words} | {column} | {absent} | {field.meaning} |")
        return "\n".join(lines)
    if what == "jobs":
        lines = ["| key | default | meaning |", "|---|---|---|"]
        return "\n".join(
            [*lines, *(f"| `{key}` | {_word(of.default)} | {of.meaning} |" for key, of in JOB_KEYS.items())]
        )
    if what == "refusals":
        lines = ["| code | what a row must have |", "|---|---|"]
        return "\n".join([*lines, *(f"| `{code}` | {_of_row(code)} |" for code in REFUSALS)])
    if what == "limits":
        reasons = limit_reasons()
        lines = ["| limit | value | |", "|---|---|---|"]
        return "\n".join([*lines, *(f"| `{name}` | {getattr(limits, name)} | {reasons[name]} |" for name in LIMITS)])
    raise KeyError(what)


def _of_row(code: str) -> str:
    ranges: dict[str, list[tuple[str, float, float]]] = {code: [each] for code, each in BOUNDS.items()}
    ranges["invalid_measure"] = [(name, *each) for name, each in limits.MEASURES.items()]
    said = (f"`{name}` finite, {_figure(low)} to {_figure(high)}" for name, low, high in ranges.get(code, ()))
    return ", ".join(said) or bound_text(code)


def _figure(value: float) -> str:
    mantissa, power = math.frexp(value)
    return f"2^{power - 1}" if mantissa == 0.5 and abs(power) > 8 else f"{value:g}"


def _word(default: object) -> str:
    if default is None:
        return "nil"
    if isinstance(default, bool):
        return str(default).lower()
    return f"`{default}`" if isinstance(default, str) else f"{default}" if not isinstance(default, bytes) else "zeros"


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        there = path.with_name("frames.txt")
        sys.stdout.write(completed(path.read_text(encoding="utf-8"), there.read_text(encoding="utf-8")))
