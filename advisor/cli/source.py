"""Whom a command asks: a running service, a state at rest, or a table learned on the spot. All have the same verbs."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from advisor.errors import InvalidValue

if TYPE_CHECKING:
    from advisor import Advisor, SyncClient
    from advisor.files import TableReader
    from advisor.files.run_files import RunFile

CONNECT_S = 2.0  # to a service that runs, on a busy machine
QUESTION_S = 60.0  # twice what the service gives its heaviest requests
TOKEN_BYTES_MAX = 4096  # of a token file: a larger one is no token
errors_console = Console(stderr=True)


@contextmanager
def connected(options: Mapping[str, Any]) -> Generator[SyncClient]:
    """Yield a client of the service that --socket or --tcp names."""
    from advisor.client import SyncClient

    addresses = [options[key] for key in ("socket", "tcp") if options.get(key)]
    if len(addresses) != 1:
        raise click.UsageError("give --socket PATH or --tcp HOST:PORT")
    with SyncClient(str(addresses[0]), timeout_s=QUESTION_S, token=_token(options.get("token_file"))) as client:
        client.hello(timeout_s=CONNECT_S)  # so that a wrong address is told soon
        yield client


@contextmanager
def asked(options: Mapping[str, Any]) -> Generator[Advisor | SyncClient]:
    """Yield whom the options name: exactly one of --socket, --tcp, --state and --table."""
    given = [key for key in ("socket", "tcp", "state", "table") if options.get(key)]
    if len(given) != 1:
        raise click.UsageError("give one of --socket PATH, --tcp HOST:PORT, --state FILE and --table TABLE.csv")
    if given[0] == "state":
        yield stored(options["state"])
    elif given[0] == "table":
        yield learned_from(options["table"], options["timer_noise_s"])
    else:
        with connected(options) as client:
            yield client


def stored(path: Path, field: str = "state") -> Advisor:
    """Return what a state file or an exported file holds; the file is only read, a service may be using it."""
    from advisor import Advisor
    from advisor.engine.state_bytes import MAGIC

    try:
        with path.open("rb") as file:
            exported = file.read(len(MAGIC)) == MAGIC
            data = MAGIC + file.read() if exported else b""
    except OSError as error:
        raise InvalidValue(field, str(path), "a file that can be read", error.strerror or "") from error
    if exported:
        return Advisor.from_bytes(data)
    from advisor.domain.limits import COMPONENTS_MAX
    from advisor.engine import Engine
    from advisor.storage import Store

    with Store.open(path, read_only=True) as store:
        snapshot = store.load()
    if snapshot is None:
        raise InvalidValue(field, str(path), "a state file that something was committed to")
    return Engine.restore(snapshot, components_max=max(COMPONENTS_MAX, len(snapshot.names))).advisor


def learned_from(table: str, timer_noise_s: float) -> Advisor:
    """Return an advisor that has learned a table, with a progress bar on standard error."""
    from advisor import Advisor
    from advisor.files import TableReader

    advisor = Advisor(timer_noise_s=timer_noise_s)
    with TableReader(table) as reader, progress() as bar:
        task = bar.add_task("learning", total=reader.bytes_total)
        for chunk in reader.chunks():
            advisor.fold(chunk)
            bar.update(task, completed=reader.bytes_read)
    tell_refused(reader)
    return advisor


def progress() -> Progress:
    """Return a progress bar on standard error; silent where that is no terminal."""
    return Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(),
        console=errors_console, transient=True, disable=not errors_console.is_terminal,
    )  # fmt: skip


def steps() -> Progress:
    """Return a bar that counts steps, on standard error."""
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=errors_console, transient=True, disable=not errors_console.is_terminal,
    )  # fmt: skip


def tell_refused(reader: TableReader | RunFile) -> None:
    """Say on standard error which rows of a file were refused."""
    if not reader.refused:
        return
    for cell in reader.first_refused:
        errors_console.print(f"{reader.name}, {cell}", markup=False, highlight=False, soft_wrap=True)
    more = reader.refused - len(reader.first_refused)
    tail = f", {more} more than shown" if more else ""
    errors_console.print(f"{reader.name}: rows refused: {reader.refused}{tail}, learned: {reader.rows}", markup=False)


def _token(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            text = file.read(TOKEN_BYTES_MAX + 1).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue("token-file", str(path), "a text file that can be read") from error
    if not 0 < len(text) <= TOKEN_BYTES_MAX:
        raise InvalidValue("token-file", str(path), f"a file that holds 1 to {TOKEN_BYTES_MAX} bytes")
    return text
