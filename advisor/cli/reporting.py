"""`advisor report`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli import options, show
from advisor.cli.source import learned, learned_from, whom, written
from advisor.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from advisor import Advisor
    from advisor.domain.observations import Columns
    from advisor.pictures.trend import Trend

ROWS_FIRST = 128  # of a table between two samples of how predictions fare; later a 32nd of the rows seen
SAMPLES_SHARE = 32


@click.command("report", cls=options.Command)
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="HTML file to write.")
@click.option("--cores", type=click.IntRange(min=1), help="Plan the networks that are known for so many cores.")
@options.learned
@options.as_json
def report_command(out: Path, cores: int | None, as_json: bool, **source: Any) -> None:
    """Write what was learned to OUT, one HTML file: curves with what was observed, residuals, coverage, advice.

    It needs no network and no library, and is drawn as the live page of a service is. Of a table the error is drawn over its
    rows: each is predicted before it is learned.
    """
    from advisor import __version__
    from advisor.pictures.report import report

    if out.suffix.lower() not in (".html", ".htm"):
        raise InvalidValue("out", out.name, "a name that ends in .html")
    key, value = whom(source, "state", "table")
    trend = None
    if key == "table":
        advisor, trend = _watched(value, source["columns"])
    else:
        advisor = learned(source)
    made = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    foot = f"Advisor {__version__} · made of {Path(value).name} · {made}"
    html = report(advisor, Path(value).name, foot, trend=trend, cores=cores).encode()
    written(out, html)
    show.moved(str(out), advisor.status(components=False), len(html), as_json=as_json)


def _watched(table: str, columns: Mapping[str, str] | None) -> tuple[Advisor, Trend | None]:
    """Return an advisor that has learned a table, and how its predictions fared meanwhile."""
    from advisor.pictures.trend import Trend

    trends: list[Trend] = []
    rows = sampled = 0

    def fold(advisor: Advisor, chunk: Columns) -> None:
        nonlocal rows, sampled
        trend = trends[0] if trends else Trend(advisor)
        trends[:] = [trend]
        start = 0
        while start < len(chunk):
            part = chunk.take(slice(start, start + max(ROWS_FIRST, rows // SAMPLES_SHARE)))
            advisor.fold(part)
            start += len(part)
            rows += len(part)
            if rows - sampled >= max(ROWS_FIRST, sampled // SAMPLES_SHARE):
                sampled = rows
                for _ in trend.sample(float(rows)):
                    pass

    return learned_from(table, fold, columns), trends[0] if trends else None
