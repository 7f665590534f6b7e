"""What was learned, written to a file: `export`, `report`, and `import`, which makes a state of one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli import options, source
from advisor.cli.options import Command, Output, command
from advisor.cli.tables import several
from advisor.errors import InvalidValue

if TYPE_CHECKING:
    from advisor import Advisor


def _html_path(text: str) -> Path:
    if not text.lower().endswith((".html", ".htm")):
        raise ValueError(text)
    return Path(text)


REPORT = options.ValueForm("file.html", _html_path, "a name that ends in .html")


def writes(*parts: Callable[[Any], Any]) -> Callable[[Callable[[Advisor, Path, str], bytes]], Command]:
    """Return a decorator that makes a command which writes what was learned; the function under it gives the file's bytes.

    `parts`: a decorator for the argument or option `out`. The function takes what was learned, `out`, and where that is from.
    """

    def make(content: Callable[[Advisor, Path, str], bytes]) -> Command:
        def write(out: Path, **given: Any) -> Output:
            advisor, of = source.learned(given), Path(source.whom(given, "state", "table")[1]).name
            data = content(advisor, out, of)
            source.written(out, data)
            return _file(out, advisor, len(data))

        write.__name__, write.__doc__ = content.__name__, content.__doc__
        return command(*parts, options.learned)(write)

    return make


def _file(out: Path, advisor: Advisor, size: int) -> Output:
    """Return what was written of an advisor."""
    status = advisor.status(components=False)
    known = status["components_known"]
    plain = {"file": str(out), "bytes": size, "components": known, "totals": status["totals"]}
    return Output(plain, [f"{out}: {several(known, 'component')}, {size:,} bytes"])


@writes(click.argument("out", type=options.PATH))
def export_command(advisor: Advisor, out: Path, of: str) -> bytes:
    """Write what was learned to OUT, as `Advisor.from_bytes` and `advisor import` read it.

    A service sends it page by page and goes on meanwhile: each component is exported as it stood when its page was made.
    """
    return advisor.to_bytes()


@writes(click.option("-o", "--out", type=REPORT, required=True, help="HTML file to write."))
def report_command(advisor: Advisor, out: Path, of: str) -> bytes:
    """Write what was learned to OUT, one HTML file: curves with what was observed, coverage, advice.

    It needs no network and no library, and is drawn as the live page of a service is. Each run was predicted before it was
    learned: the table has each component's error and coverage.
    """
    from advisor import __version__
    from advisor.pictures.report import report

    at = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    return report(advisor, of, f"Advisor {__version__} · made of {of} · {at}").encode()


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
    engine = Engine()
    engine.advisor = source.stored(exported, "exported")
    with Store.open(state) as store:
        store.save(engine.take_image())
    return _file(state, engine.advisor, state.stat().st_size)
