"""Tables and sentences on standard output: what does not fit loses columns or wraps at words, never within a number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import fill
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

PIPE_COLUMNS = 10_000  # of a file or a pipe, which has no width: nothing is left out
BETWEEN = 2  # spaces between columns
FEWEST = 2  # columns that stay, however narrow it is
NAME_LEAST = 24  # wide is a column of names at least, where it has a word so long


class FittedTable(Table):
    """A table that fits: headings are broken at words, then columns are left out, then names are folded, at words too.

    `least`: headings of columns that may be left out, the first of them first. `words`: headings of columns that may wrap at
    words; so may one without heading.
    """

    def __init__(self, headings: Sequence[str], text_columns: int, least: Sequence[str], words: Sequence[str]) -> None:
        super().__init__(box=None, pad_edge=False, header_style="bold")
        for place, heading in enumerate(headings):
            self.add_column(heading, justify="right" if place >= text_columns and heading not in words else "left")
        self._least = least
        self._words = {"", *words}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table that fits, and what is not in it."""
        width, shown = options.max_width, list(self.columns)
        whole = sum(_width(each, whole=True) for each in shown) + BETWEEN * (len(shown) - 1) <= width
        left_out: list[str] = []
        for heading in self._least:
            if sum(map(self._tight, shown)) + BETWEEN * (len(shown) - 1) <= width:
                break
            left_out += [heading for each in shown if each.header == heading]
            shown = [each for each in shown if each.header != heading]
        while len(shown) > FEWEST and sum(map(self._folded, shown)) + BETWEEN * (len(shown) - 1) > width:
            left_out.append(str(shown.pop().header))
        yield self._of(shown, width, whole=whole)
        if left_out:
            yield Text(f"too narrow for {', '.join(filter(None, left_out))}: --json has all", style="dim")

    def _tight(self, column: Column) -> int:
        """Return the least width that cuts nothing."""
        return _width(column, whole=False, wraps=str(column.header) in self._words)

    def _folded(self, column: Column) -> int:
        """Return the least width of a column, of the first one where its names are folded."""
        words = min(_width(column, whole=False, wraps=True), NAME_LEAST)
        return words if column is self.columns[0] else self._tight(column)

    def _of(self, shown: Sequence[Column], width: int, *, whole: bool) -> Table:
        made = Table(box=None, pad_edge=False, header_style=self.header_style)
        for place, column in enumerate(shown):
            heading, wraps = str(column.header), str(column.header) in self._words
            least = self._tight(column)
            title = heading if whole else fill(heading, max(least, 1))
            if place == 0 and not wraps:  # it has names: they are folded where all else was of no use
                others = sum(map(self._tight, shown[1:])) + BETWEEN * (len(shown) - 1)
                least = min(_width(column, whole=whole), max(self._folded(column), width - others))
            made.add_column(
                escape(title), justify=column.justify,
                no_wrap=place > 0 and not wraps, min_width=least, overflow="fold",
            )  # fmt: skip
        for name, *cells in zip(*(column.cells for column in shown), strict=True):
            text = str(name)
            inside = text.lstrip(" ")  # a name further in is folded there
            made.add_row(Padding(Text.from_markup(inside), (0, 0, 0, len(text) - len(inside))), *cells)
        return made


def _width(column: Column, *, whole: bool, wraps: bool = False) -> int:
    """Return the cells of a screen that a column takes; not `whole`: with its heading, or all that wraps, broken at words."""
    texts = [Text.from_markup(str(cell)).plain for cell in column.cells]
    heading = str(column.header)
    parts = [part for text in texts for part in (text.split() if wraps else [text])]
    parts += [heading] if whole else heading.split()
    return max(map(cell_len, parts), default=0)


def table(*headings: str, text_columns: int = 1, least: Sequence[str] = (), words: Sequence[str] = ()) -> FittedTable:
    """Return an empty table whose first columns are text and whose others are numbers."""
    return FittedTable(headings, text_columns, least, words)


def screen() -> Console:
    """Return standard output; a file or a pipe has no width, so that a row stays one line."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPE_COLUMNS)


def put(rows: FittedTable) -> None:
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
