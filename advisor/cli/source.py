"""Whom a command asks: a running service, a state at rest, or a table learned on the spot. All have the same verbs."""

from __future__ import annotations

import os
import socket
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import Progress

from advisor.errors import ConnectionFailed, InvalidValue, NotAnswered

if TYPE_CHECKING:
    from advisor import Advisor, SyncClient
    from advisor.engine import Engine
    from advisor.engine.state_bytes import Stored
    from advisor.files import TableReader
    from advisor.files.run_files import RunFile

SOON_S = 1.0  # until a service that took the connection is said to be silent
CONNECT_S = 10.0  # for its greeting, on a machine that is very busy
QUESTION_S = 60.0  # twice what the service gives its heaviest requests
SLICE_ROWS = 1_000  # learned between moves of a progress bar: half a second where kernels are interpreted
errors_console = Console(stderr=True)


def whom(options: Mapping[str, Any], *others: str) -> tuple[str, Any]:
    """Return which option names whom to ask, and its value: --socket, --tcp or one of `others`.

    Without one ADVISOR_SOCKET or ADVISOR_TCP says it, else a service is asked that listens where `serve` does by default.
    Raises UsageError.
    """
    from advisor.client.address import default_socket

    keys = ("socket", "tcp", *others)
    given = [(key, options[key]) for key in keys if options.get(key)]
    if not given:
        known: dict[str, Any] = {key: os.environ.get(f"ADVISOR_{key.upper()}") for key in ("socket", "tcp")}
        known["socket"] = known["socket"] or (
            None if known["tcp"] or not default_socket().is_socket() else default_socket()
        )
        given = [(key, value) for key, value in known.items() if value][:1]
    if len(given) == 1:
        if given[0][0] == "tcp" and ":" not in given[0][1]:
            raise InvalidValue("tcp", given[0][1], "HOST:PORT", "a path is a --socket")
        if given[0][0] == "tcp" and (port := given[0][1].rpartition(":")[2]).isdecimal() and not 0 < int(port) < 2**16:
            raise InvalidValue("tcp", given[0][1], "HOST:PORT with a port from 1 to 65535")
        return given[0]
    forms = {"socket": "--socket PATH", "tcp": "--tcp HOST:PORT", "state": "--state FILE", "table": "--table TABLE.csv"}
    *first, last = (forms[key] for key in keys)
    nobody = "" if given else f" (no service listens on {default_socket()})"
    raise click.UsageError(f"give one of {', '.join(first)} and {last}{nobody}")


@contextmanager
def connected(options: Mapping[str, Any], at: Any = None) -> Generator[SyncClient]:
    """Yield a client of the service `at` an address, else of the one that `whom` finds; a wrong address is reported at once."""
    from advisor.client import SyncClient

    address = str(at or whom(options)[1])
    given = credentials(options)
    knock(address)
    with SyncClient(address, timeout_s=QUESTION_S, **given) as client:
        try:
            client.hello(timeout_s=SOON_S)
        except NotAnswered:
            errors_console.print(f"{address} does not answer yet: waiting {CONNECT_S:g} s for it", markup=False)
            client.hello(timeout_s=CONNECT_S)
        yield client


def knock(at: str) -> None:
    """Raise ConnectionFailed where nobody listens, or a machine does not answer within a second: a command does not wait."""
    from advisor.client.address import UnixAddress, parse_address

    address = parse_address(at)
    unix = isinstance(address, UnixAddress)
    try:
        if unix:
            with socket.socket(socket.AF_UNIX) as door:
                door.settimeout(SOON_S)
                door.connect(address.path)
        else:
            socket.create_connection((address.host, address.port), SOON_S).close()
    except OSError as error:
        if unix and isinstance(error, (BlockingIOError, TimeoutError)):
            return  # many wait to be let in: a client that tries again finds out
        why = error.strerror or str(error)
        raise ConnectionFailed(
            f"no connection to {address}: {why}", field="address", value=at, hint="is the service running?"
        ) from error


@contextmanager
def asked(options: Mapping[str, Any]) -> Generator[Advisor | SyncClient]:
    """Yield whom the options name: a service, or what --state or --table holds."""
    key, value = whom(options, "state", "table")
    if key in ("state", "table") and options.get("fresh"):
        raise InvalidValue(
            "fresh", True, "of a service", f"a {key} is answered with all that it holds: leave --fresh out"
        )
    if key == "state":
        yield stored(value)
    elif key == "table":
        yield learned_from(value, columns=options.get("columns"))
    else:
        with connected(options, value) as client:
            yield client


def learned(options: Mapping[str, Any]) -> Advisor:
    """Return what whom the options name has learned: a service tells it page by page."""
    from advisor import Advisor

    with asked(options) as found:
        return found if isinstance(found, Advisor) else exported(found)


def exported(client: SyncClient) -> Advisor:
    """Return all that a service has learned, asked page by page."""
    from advisor import Advisor

    page = client.export()
    advisor = Advisor.from_bytes(page["state"])
    while page["next"] is not None:
        page = client.export(page["next"])
        advisor.merge(Advisor.from_bytes(page["state"]))
    return advisor


def stored(path: Path, field: str = "state") -> Advisor:
    """Return what a state file or an exported file holds; the file is only read, a service may be using it."""
    from advisor import Advisor
    from advisor.engine.frames import read_frames
    from advisor.engine.state_bytes import HEAD

    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidValue(field, str(path), "a file that can be read", error.strerror or "") from error
    if (first := next(read_frames(data), None)) is not None and first.label == HEAD:
        return Advisor.from_bytes(data)
    from advisor.storage import read_state

    engine = restored(read_state(path).stored())
    if engine is None:
        raise InvalidValue(field, str(path), "a state file that something was committed to")
    return engine.advisor


def restored(stored: Stored | None) -> Engine | None:
    """Return what a state file holds, whatever number of components that is; None where nothing was committed."""
    from advisor.engine import Engine

    return None if stored is None else Engine.restore(stored, components_max=None, model_memory_bytes=None)


def written(out: Path, data: bytes, field: str = "out", *, folder: bool = False) -> None:
    """Write what a command was asked for, its folder too where that is made; raises InvalidValue."""
    try:
        if folder:
            out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(data)
    except OSError as error:
        raise InvalidValue(field, str(out), "a file that can be written", error.strerror or "") from error


def learned_from(table: str, columns: Mapping[str, str] | None = None) -> Advisor:
    """Return an advisor that has learned a table. Raises InvalidValue: of a file that cannot be read it names the option."""
    from advisor import Advisor

    advisor = Advisor()
    try:
        learn_table(advisor, table, columns)
    except InvalidValue as error:
        if error.field != "file":
            raise
        raise InvalidValue("table", error.value, str(error.bound), error.hint) from error
    return advisor


def learn_table(
    advisor: Advisor, table: str, columns: Mapping[str, str] | None, words: str = "learning"
) -> TableReader:  # fmt: skip
    """Let an advisor learn a table, with a progress bar and what was refused on standard error; return its reader."""
    from advisor.files import TableReader

    reader = TableReader(table, columns)
    with progress() as bar:
        task = bar.add_task(f"{words} 0 rows", total=reader.lines.total or None)
        for chunk in reader.chunks(SLICE_ROWS):
            advisor.learn_batch(chunk)
            bar.update(task, completed=reader.lines.read, description=f"{words} {reader.rows:,} rows")
    tell_refused(reader)
    return reader


def progress() -> Progress:
    """Return a progress bar on standard error; silent where it is no terminal."""
    return Progress(console=errors_console, transient=True, disable=not errors_console.is_terminal)


def tell_refused(reader: TableReader | RunFile) -> None:
    """Say on standard error which rows of a file were refused."""
    for cell in reader.first_refused:
        errors_console.print(f"{reader.name}, {cell}", markup=False, highlight=False, soft_wrap=True)
    if more := reader.refused - len(reader.first_refused):
        errors_console.print(f"{reader.name}: {more:,} more rows refused", markup=False, soft_wrap=True)


def credentials(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return token and TLS of a client as the options of a command say; the environment gives what they leave out."""
    from advisor.client.address import tls_by, token_in

    token, authority, certificate = (options.get(key) for key in ("token_file", "tls_ca", "tls_certificate"))
    tls = tls_by(authority, certificate) if authority or certificate else None
    return {"token": token_in(token) if token else None, "tls": tls}
