"""Tables and sentences on standard output, as rich prints them: what does not fit is folded, nothing is cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

PIPE_COLUMNS = 10_000  # of a file or a pipe, which has no width: a row stays one line


def table(*headings: str, text_columns: int = 1, words: Sequence[str] = ()) -> Table:
    """Return an empty table: its first columns, those of `words` and those without a heading are text, the others numbers."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for place, heading in enumerate(headings):
        number = place >= text_columns and heading not in ("", *words)
        made.add_column(heading, justify="right" if number else "left", overflow="fold")
    return made


def screen() -> Console:
    """Return standard output; a file or a pipe has no width, so that a row stays one line."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPE_COLUMNS)


def put(rows: Table) -> None:
    """Print a table."""
    screen().print(rows)


def say(text: str | Text, style: str | None = None) -> None:
    """Print a sentence: wrapped at words on a terminal, one line elsewhere."""
    console = Console(highlight=False)
    console.print(text, style=style, markup=False, soft_wrap=not console.is_terminal)


def notes(found: Iterable[Any]) -> None:
    """Print remarks, less loudly."""
    console = screen()
    for note in found:
        if console.is_terminal:
            console.print(Padding(Text(str(note), style="dim"), (0, 0, 0, 2)))
        else:
            say(f"  {note}")
