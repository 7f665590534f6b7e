"""What was learned as a whole: `export`, `import` and `report`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli import options
from advisor.cli.options import Output, command
from advisor.cli.source import learned, stored, whom, written
from advisor.cli.tables import several
from advisor.errors import InvalidValue

if TYPE_CHECKING:
    from advisor import Advisor


@command(click.argument("out", type=options.PATH), options.learned)
def export_command(out: Path, **source: Any) -> Output:
    """Write what was learned to OUT, as `Advisor.from_bytes` and `advisor import` read it.

    A service sends it page by page and goes on meanwhile: each component is exported as it stood when its page was made.
    """
    advisor = learned(source)
    data = advisor.to_bytes()
    written(out, data)
    return _file(out, advisor, len(data))


@command(
    click.argument("exported", type=options.PATH),
    click.option("--state", type=options.PATH, required=True, help="State file to make; there must be none."),
)
def import_command(exported: Path, state: Path) -> Output:
    """Make a state file from EXPORTED, for `advisor serve --state` to go on with."""
    from advisor.engine import Engine
    from advisor.storage import Store

    if state.exists():
        raise InvalidValue("state", str(state), "a file that is not there yet", "an import never changes a state")
    advisor = stored(exported, "exported")
    engine = Engine()
    engine.advisor = advisor
    with Store.open(state) as store:
        store.save(engine.take_image())
    return _file(state, advisor, state.stat().st_size)


def _file(out: Path, advisor: Advisor, size: int) -> Output:
    """Return what was written of an advisor."""
    status = advisor.status(components=False)
    known = status["components_known"]
    plain = {"file": str(out), "bytes": size, "components": known, "totals": status["totals"]}
    return Output(plain, [f"{out}: {several(known, 'component')}, {size:,} bytes"])


@command(
    click.option("-o", "--out", type=options.PATH, required=True, help="HTML file to write."),
    options.learned,
)
def report_command(out: Path, **source: Any) -> Output:
    """Write what was learned to OUT, one HTML file: curves with what was observed, coverage, advice.

    It needs no network and no library, and is drawn as the live page of a service is. Each run was predicted before it was
    learned: the table has each component's error and coverage.
    """
    from advisor import __version__
    from advisor.pictures.report import report

    if out.suffix.lower() not in (".html", ".htm"):
        raise InvalidValue("out", out.name, "a name that ends in .html")
    advisor, name = learned(source), Path(whom(source, "state", "table")[1]).name
    at = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    foot = f"Advisor {__version__} · made of {name} · {at}"
    html = report(advisor, name, foot).encode()
    written(out, html)
    return _file(out, advisor, len(html))
