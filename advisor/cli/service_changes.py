"""What changes a running service: `forget`, `pin`, `set-allowed`, `observe-run`, `shards`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

from advisor.cli import options, show_status
from advisor.cli.asking import COMPONENT, PROGRAM
from advisor.cli.declared import Given, asks
from advisor.cli.tables import Printed, several
from advisor.domain.allowed_cores import parse_allowed
from advisor.protocol import verbs as v

MOVE_S = 3600.0  # that moving may take before the command gives up waiting: the service goes on

NO_OPTIONS = ("component", *v.NUMBERING)


def _forgotten(client: Any, request: Given, given: Given) -> Any:
    what = given["component"] or f"the program {given['program']}"
    if not given["yes"] and not sys.stdin.isatty():
        raise click.UsageError(f"--yes is needed, for nobody can be asked: it would forget {what}")
    if not given["yes"]:
        click.confirm(f"forget {what}?", abort=True, err=True)
    return request | dict(client.forget(**request) or {})


@asks(
    v.Forget, click.argument("component", required=False),
    click.option("--yes", is_flag=True, help="Do not ask; needed where nobody can be asked."),
    leave=NO_OPTIONS, answer=_forgotten,
    program={"help": "Forget this whole program instead: its runs and what was learned of them."},
)  # fmt: skip
def forget_command(found: Given) -> Iterator[Printed]:
    """Discard what a service has learned of COMPONENT, or of a program. Counts of rows stay.

    This cannot be undone: on a terminal the command asks first, elsewhere it needs --yes.
    """
    if "component" in found:
        yield f"forgot what was learned of {found['component']}"
    else:
        runs = f": {several(found['runs'], 'run')}" if "runs" in found else ""  # an answer that was lost has no count
        yield f"forgot the program {found['program']}{runs}"


def _or_clear(key: str, form: str) -> Callable[[Given], Given]:
    """Return what takes the value of a key, or --clear, for None."""

    def one_of_both(given: Given) -> Given:
        if given["clear"] == (given[key] is not None):
            raise click.UsageError(f"give {form}, or --clear")
        return {}

    return one_of_both


@asks(
    v.Pin, COMPONENT, click.argument("model", required=False),
    click.option("--clear", is_flag=True, help="Let the evidence choose the model again."),
    leave=(*NO_OPTIONS, "model"), keys=_or_clear("model", "a MODEL"), echo=("component", "model"),
)  # fmt: skip
def pin_command(found: Given) -> Iterator[Printed]:
    """Pin COMPONENT of a service to MODEL; a wrong name lists the models. --clear lets the evidence choose again."""
    held = f"held to {found['model']}" if found["model"] else "answered by what the evidence supports"
    yield f"{found['component']} is {held}"


@asks(
    v.SetAllowed, COMPONENT, click.argument("allowed", required=False, type=options.ALLOWED, metavar="[COUNTS]"),
    click.option("--clear", is_flag=True, help="Allow every count."),
    leave=(*NO_OPTIONS, "allowed"), keys=_or_clear("allowed", "counts"), echo=("component", "allowed"),
)  # fmt: skip
def set_allowed_command(found: Given) -> Iterator[Printed]:
    """Set the core counts that COMPONENT of a service allows: 1,2,4, or 8..64:8, or power_of=2,max=64; --clear ends that."""
    allowed = found["allowed"]
    yield f"{found['component']} allows {'every core count' if allowed is None else parse_allowed('allowed', allowed)}"


@asks(
    v.ObserveRun, PROGRAM,
    click.option("--profile", "producer", help="Take what is not given from the profile of this producer's newest run."),
    leave=("program", "profile", *v.NUMBERING), echo=("program",),
    keys=lambda given: {"profile": {"producer": given["producer"]} if given["producer"] else None},
    forms={key: {"name": key.replace("_", "-")} for key in v.ObserveRun.verb.keys},  # with their units
    size={"type": float, "help": "Size of the run's input."},
    workers={"type": float, "help": "Workers that ran it."},
)  # fmt: skip
def observe_run_command(found: Given) -> Iterator[Printed]:
    """Teach a service a run of PROGRAM: by hand, or from a profile that it has."""
    known = f", {several(int(found['runs']), 'run')} learned of it now" if "runs" in found else ""
    yield f"{found['program']}: 1 run sent{known}"


@asks(
    v.Shards, click.argument("shards", type=click.IntRange(1), required=False), leave=("shards",),
    answer=lambda client, request, _: client.shards(**request, timeout_s=MOVE_S),
)  # fmt: skip
def shards_command(found: Given) -> Iterator[Printed]:
    """Show the shards of a service on Ray, or let it have SHARDS of them, while rows come and go."""
    if moved := found.get("moved"):
        yield f"{several(moved['shards'], 'shard')} now: {several(moved['moves'], 'move')}"
    yield from show_status.shards(found["shards"], found["moves"])
