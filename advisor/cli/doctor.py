"""`advisor doctor`: what a service needs, looked at one by one, each with what to do where it is not so."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

from advisor.cli import options
from advisor.cli.options import Output, command
from advisor.cli.source import connected
from advisor.cli.tables import Note, Printed, Text
from advisor.errors import AdvisorError

FULL = 0.9  # of a bound: from here on it is reported


class Examined(NamedTuple):
    """One thing that was looked at: `verdict` is ok, note or wrong, `do` what to do about it."""

    of: str
    verdict: str
    text: str
    do: str = ""


STYLES = {"ok": "", "note": "yellow", "wrong": "bold red"}


@command(
    click.option("--state", type=options.PATH, help="Look at this state file too; else at the service's."),
    options.service,
)
def doctor_command(state: Path | None, **source: Any) -> Output:
    """Look whether a service answers, whether its state is sound, and what holds it back; say what to do.

    Only reads. The exit status is 1 where something is wrong, else 0.
    """
    found = list(_looked(state, source))
    wrong = any(each.verdict == "wrong" for each in found)
    printed: list[Printed] = []
    for each in found:
        printed.append(Text(f"{each.verdict:5} {each.of}: {each.text}", style=STYLES[each.verdict]))
        printed += [Note(each.do)] if each.do else []
    plain = {"healthy": not wrong, "findings": [each._asdict() for each in found]}
    return Output(plain, printed, options.EXIT_FAILED if wrong else 0)


def _looked(state: Path | None, source: Mapping[str, Any]) -> Generator[Examined]:
    service: Mapping[str, Any] | None = None
    try:
        with connected(source) as client:
            status = client.status()
        service = status["service"]
        yield Examined("service", "ok", f"advisor {status['service']['version']} answers")
        yield from _service(status["service"], status)
    except click.UsageError:
        from advisor.client.address import default_socket

        do = "start one with `advisor serve`, or say where it is: --socket PATH, --tcp HOST:PORT, ADVISOR_SOCKET"
        yield Examined("service", "wrong", f"none listens on {default_socket()}", do)
    except AdvisorError as error:
        yield Examined("service", "wrong", str(error), "is it running, and may you open its socket? see its log")
    served = service["state"] if service is not None else None
    path = state or (Path(served) if served else None)
    if path is not None:
        yield from _state(path)


def _service(service: Mapping[str, Any], status: Mapping[str, Any]) -> Generator[Examined]:
    storage = service["storage"]
    if storage == "ok":
        yield Examined("storage", "ok", f"{service['commits']:,} commits, {1e3 * service['commit_mean_s']:.3g} ms each")
    elif storage == "none":
        yield Examined("storage", "note", "no state file: nothing survives the service", "advisor serve --state FILE")
    else:
        do = "make room or mend the disk: the service goes on by itself, clients send again what is not acknowledged"
        yield Examined("storage", "wrong", f"commits fail: {service['storage_failure']}", do)
    slow = [name for name, state in service["kernels"].items() if state != "compiled"]
    why = next((service["kernels"][name] for name in slow), "")
    if slow:
        do = "answers are the same, loops 10 to 100 times slower; `python -m advisor.kernels` makes what is missing"
        yield Examined("kernels", "note", f"{len(slow)} of {len(service['kernels'])} {why}", do)
    else:
        yield Examined("kernels", "ok", "all compiled")
    for of, used, most, do in (
        ("components", status["components_known"], status["components_max"], "raise components_max"),
        ("peers' memory", service["peer_memory"]["bytes"], service["peer_memory"]["bytes_max"], "close connections"),
    ):
        if used >= FULL * most:
            yield Examined(of, "note", f"{used:,} of {most:,}: further ones are refused", do)


def _state(path: Path) -> Generator[Examined]:
    """Look at a state file: every bit of it, its marker, and who else may write there."""
    from advisor.storage import read_state

    try:
        log = read_state(path).log
        known = f"{log.commit.number:,} commits, {len(log.entries):,} of them in the log, all checksums right"
    except AdvisorError as error:
        yield Examined(
            "state", "wrong", str(error), "docs/operations.md says what to do about each: nothing was changed"
        )
        return
    size = path.stat().st_size
    yield Examined("state", "ok", f"{path}: {size:,} bytes, {known}")
    yield Examined("marker", "ok", "the state has every acknowledged commit")
    folder = path.absolute().parent
    if folder.stat().st_mode & 0o022:
        yield Examined(
            "folder", "note", f"others may write in {folder}, and so replace the state", f"chmod go-w {folder}"
        )
