"""The printer of all commands: tables by a description of their columns, sentences, JSON. What does not fit is folded, not cut.

What a command prints is an iterable of `Printed`: tables that `table` made, sentences, `Text` with a style, and notes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from advisor.domain.json_bytes import as_json
from advisor.domain.wording import seconds as seconds_text

PIPE_COLUMNS = 10_000  # of a file or a pipe, which has no width: a row stays one line
LEAST_SHARE = 1e-4  # that is shown in digits
SIZES = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))

Form = Callable[[Any], str]


class Note(NamedTuple):
    """A remark, printed less loudly."""

    text: str


Printed = Table | Text | str | Note


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, which value of a row it shows (a key, or a function of the row), and how a number is written."""

    heading: str
    value: str | Callable[[Any], Any]
    form: Form | None = None  # without: text, to the left


def table(columns: Iterable[Column | None], rows: Iterable[Any]) -> Table:
    """Return a table; columns that are None are left out. A row is a mapping, or an object with attributes."""
    there = [column for column in columns if column is not None]
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in there:
        made.add_column(column.heading, justify="left" if column.form is None else "right", overflow="fold")
    for row in rows:
        made.add_row(*(_cell(column, row) for column in there))
    return made


def _cell(column: Column, row: Any) -> str:
    key = column.value
    value: Any = key(row) if callable(key) else row.get(key) if isinstance(row, Mapping) else getattr(row, key)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return "–" if value is None else escape(f"{value}") if column.form is None else column.form(value)


def screen() -> Console:
    """Return standard output; a file or a pipe has no width, so that a row stays one line."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPE_COLUMNS)


def print_parts(printed: Iterable[Printed]) -> None:
    """Print tables, sentences and notes: wrapped at words on a terminal, one line each elsewhere."""
    console = screen()
    for each in printed:
        if isinstance(each, Note) and console.is_terminal:
            console.print(Padding(Text(each.text, style="dim"), (0, 0, 0, 2)))
        elif isinstance(each, Table):
            console.print(each)
        else:
            text = f"  {each.text}" if isinstance(each, Note) else each
            Console(highlight=False).print(text, markup=False, soft_wrap=not console.is_terminal)


def put_json(value: Any) -> None:
    """Print JSON; what is not finite is null."""
    print(msgspec.json.format(as_json(value), indent=2).decode())


def put_json_line(value: Any) -> None:
    """Print JSON on one line."""
    print(as_json(value).decode(), flush=True)


def dim(text: str) -> Text:
    """Return a sentence of less weight."""
    return Text(text, style="dim")


def bold(text: str) -> Text:
    """Return a sentence of more weight."""
    return Text(text, style="bold")


# -- how values are written

seconds: Form = seconds_text


def format_count(value: int) -> str:
    """Return a whole number."""
    return f"{value:,}"


def format_number(value: float) -> str:
    """Return a number with the digits that it has, at most six."""
    return f"{value:g}"


def three(value: float) -> str:
    """Return a number with three digits."""
    return f"{value:.3g}" if math.isfinite(value) else "–"


def several(value: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def size(value: float) -> str:
    """Return bytes with four digits and the unit that suits them."""
    if not math.isfinite(value):
        return "–"
    scale, unit = next((pair for pair in SIZES if abs(value) >= pair[0]), SIZES[-1])
    return f"{value / scale:.4g} {unit}"


def percent(value: float | None) -> str:
    """Return a share as a percentage."""
    return "–" if value is None or not math.isfinite(value) else f"{value:z.1%}"


def small_share(value: float) -> str:
    """Return a share that may be small as a percentage of two digits; a smaller one is shown as none."""
    return f"{100.0 * value:.2g}%" if abs(value) >= LEAST_SHARE else "none"


def rate(value: float | None) -> str:
    """Return records a second with as many digits as say something."""
    return "–" if value is None else f"{value:,.0f}" if 1e4 <= value < 1e15 else f"{value:.4g}"


def span(pair: Sequence[float]) -> str:
    """Return a range."""
    return f"{pair[0]:g}" if pair[0] == pair[1] else f"{pair[0]:g} – {pair[1]:g}"


def point(predictor: Any) -> str:
    """Return a predictor, its values with x between them."""
    if predictor is None:
        return "observed load"
    return "x".join(f"{value:g}" for value in (predictor if isinstance(predictor, (list, tuple)) else (predictor,)))  # pyright: ignore[reportUnknownVariableType]


def doublings(value: float) -> str:
    """Return how far outside of what was seen a point lies."""
    return "nothing seen" if math.isinf(value) else f"{value:.1f} doublings" if value else "no"
