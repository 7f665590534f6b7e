"""`advisor top`: a live table of what a service learns."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from advisor.cli import options
from advisor.cli.advising import known_components
from advisor.cli.options import command
from advisor.cli.source import connected

if TYPE_CHECKING:
    from rich.console import RenderableType

    from advisor.client import SyncClient

LOOKED_AT_MAX = 100_000  # components, of which the busiest are shown: a look at more would take the service ten seconds
ROOM = 8  # lines that the sentences and headings take
LEAST_SHOWN = 3


@command(
    click.option("--every", default=2.0, show_default=True, type=click.FloatRange(0.1, 3600), help="Seconds between looks."),
    click.option("--count", type=click.IntRange(1), help="End after so many looks."),
    options.service,
)  # fmt: skip
def top_command(every: float, count: int | None, **source: Any) -> None:
    """Show the busiest components of a service again and again until Ctrl-C.

    Where standard output is no terminal each look is printed below the one before; with --json it is a line.
    """
    from rich.live import Live

    from advisor.cli.tables import put_json_line, screen

    console, before, as_json = screen(), None, options.wants_json()
    with connected(source) as client, Live(console=console, auto_refresh=False, screen=False) as live:
        live.stop() if as_json or not console.is_terminal else None
        looks = 0
        while True:
            found, now = _asked(client), time.monotonic()
            rates = _rates(found, before, now)
            if as_json:
                put_json_line(found)
            elif console.is_terminal:
                live.update(_frame(found, rates, console.height), refresh=True)
            else:
                console.print(_frame(found, rates, 1000))
            before = now, _counts(found)
            looks += 1
            if looks == count:
                return
            time.sleep(every)


def _asked(client: SyncClient) -> dict[str, Any]:
    """Return the status of a service with its components, page by page."""
    found: Any = client.status(components=False)
    return found | {"components": list(islice(known_components(client, True), LOOKED_AT_MAX))}


def _counts(found: Mapping[str, Any]) -> dict[str, int]:
    return {str(each["component"]): each["rows"] for each in found["components"]}


def _rates(found: Mapping[str, Any], before: tuple[float, dict[str, int]] | None, now: float) -> dict[str, float]:
    """Return the rows of each component since the look before, per second."""
    counts = _counts(found)
    since, old = before or (now - 1.0, counts)
    return {name: max(0, count - old.get(name, count)) / max(now - since, 1e-3) for name, count in counts.items()}


def _frame(found: Mapping[str, Any], rates: Mapping[str, float], height: int) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from advisor.cli.show_status import components, lines
    from advisor.cli.tables import dim

    page = sorted(found["components"], key=lambda each: (-rates[each["component"]], -each["rows"]))
    known, looked = found["components_known"], len(found["components"])
    more = [dim(f"the busiest of the first {looked:,} of {known:,} components")] if known > looked else []
    return Group(*map(Text, lines(found)), *more, components(page[: max(LEAST_SHOWN, height - ROOM)], rates))
