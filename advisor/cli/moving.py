"""`advisor export` and `advisor import`: what was learned, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from advisor.cli import options, show
from advisor.cli.source import learned, stored, written
from advisor.errors import InvalidValue


@click.command("export", cls=options.Command)
@click.argument("out", type=click.Path(path_type=Path))
@options.learned
@options.as_json
def export_command(out: Path, as_json: bool, **source: Any) -> None:
    """Write what was learned to OUT, as `Advisor.from_bytes` and `advisor import` read it.

    A service tells it page by page and goes on meanwhile: each component is exported as it stood when its page was made.
    """
    advisor = learned(source)
    data = advisor.to_bytes()
    written(out, data)
    show.moved(str(out), advisor.status(components=[]), len(data), as_json=as_json)


@click.command("import", cls=options.Command)
@click.argument("exported", type=click.Path(path_type=Path))
@click.option("--state", type=click.Path(path_type=Path), required=True, help="State file to make; there must be none.")
@options.as_json
def import_command(exported: Path, state: Path, as_json: bool) -> None:
    """Make a state file from EXPORTED, for `advisor serve --state` to go on with."""
    from advisor.engine import Engine
    from advisor.storage import Store

    if state.exists():
        raise InvalidValue("state", str(state), "a file that is not there yet", "an import never changes a state")
    advisor = stored(exported, "exported")
    engine = Engine()
    engine.state.advisor = advisor
    with Store.open(state) as store:
        store.save(engine.commits.image())
    show.moved(str(state), advisor.status(components=[]), state.stat().st_size, as_json=as_json)
