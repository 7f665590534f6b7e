"""`advisor top`: a live table of what a service learns, and of who teaches it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from advisor.cli import options
from advisor.cli.options import command
from advisor.cli.source import connected
from advisor.domain.limits import STATUS_PAGE_MAX

if TYPE_CHECKING:
    from rich.console import RenderableType

    from advisor.client import SyncClient

LOOKED_AT_MAX = 100_000  # components, of which the busiest are shown: a look at more would take the service ten seconds
ROOM = 8  # lines that the sentences and headings take
LEAST_SHOWN = 3


@command(
    click.option("--every", default=2.0, show_default=True, type=click.FloatRange(0.1, 3600), help="Seconds between looks."),
    click.option("--count", type=click.IntRange(1), help="End after so many looks."),
    click.option("--producers", is_flag=True, help="Show the clients that send rows, instead of components."),
    options.service,
)  # fmt: skip
def top_command(every: float, count: int | None, producers: bool, **source: Any) -> None:
    """Show the busiest components of a service, or its producers, again and again until Ctrl-C.

    Where standard output is no terminal each look is printed below the one before; with --json it is a line.
    """
    from rich.live import Live

    from advisor.cli.tables import put_json_line, screen

    console, before, as_json = screen(), None, options.wants_json()
    with connected(source) as client, Live(console=console, auto_refresh=False, screen=False) as live:
        live.stop() if as_json or not console.is_terminal else None
        looks = 0
        while True:
            found = _asked(client, components=not producers)
            now = time.monotonic()
            rates = _rates(found, before, now, "producer" if producers else "component")
            if as_json:
                put_json_line(found)
            elif console.is_terminal:
                live.update(_frame(found, rates, console.height, producers=producers), refresh=True)
            else:
                console.print(_frame(found, rates, 1000, producers=producers))
            before = (now, _counts(found, "producer" if producers else "component"))
            looks += 1
            if looks == count:
                return
            time.sleep(every)


def _asked(client: SyncClient, *, components: bool) -> dict[str, Any]:
    """Return the status of a service with its components, page by page."""
    found: Any = client.status(components=components, limit=STATUS_PAGE_MAX)
    page = found["components"]
    while len(page) == STATUS_PAGE_MAX and len(found["components"]) < LOOKED_AT_MAX:
        page = client.status(components=True, offset=len(found["components"]), limit=STATUS_PAGE_MAX)["components"]
        found["components"] += page
    return found


def _counts(found: Mapping[str, Any], of: str) -> dict[str, int]:
    """Return rows by component, or batches by producer."""
    if of == "component":
        return {str(each["component"]): each["rows"] for each in found["components"]}
    return {str(each["producer"]): each["sequence"] for each in found["service"]["speaking"]}


def _rates(
    found: Mapping[str, Any], before: tuple[float, dict[str, int]] | None, now: float, of: str
) -> dict[str, float]:
    """Return the growth since the look before, per second."""
    counts = _counts(found, of)
    if before is None:
        return dict.fromkeys(counts, 0.0)
    since, old = before
    return {name: max(0, count - old.get(name, count)) / max(now - since, 1e-3) for name, count in counts.items()}


def _frame(found: Mapping[str, Any], rates: Mapping[str, float], height: int, *, producers: bool) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from advisor.cli.show_status import components, lines
    from advisor.cli.tables import Column, dim, format_count, table

    texts = [Text(line) for line in lines(found)]
    room = max(LEAST_SHOWN, height - ROOM)
    if producers:
        speaking: Sequence[Mapping[str, Any]] = found["service"]["speaking"]
        busiest = sorted(speaking, key=lambda each: -rates[each["producer"]])[:room]
        speed = Column("batches/s", lambda each: rates[each["producer"]], lambda value: f"{value:,.1f}")
        columns = [Column("producer", "producer"), Column("batches", "sequence", format_count), speed]
        return Group(*texts, table(columns, busiest))
    page = sorted(found["components"], key=lambda each: (-rates[each["component"]], -each["rows"]))
    known = found["components_known"]
    looked = len(found["components"])
    more = [dim(f"the busiest of the first {looked:,} of {known:,} components")] if known > looked else []
    return Group(*texts, *more, components(page[:room], rates))
