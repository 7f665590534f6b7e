"""What changes a running service: `forget`, `pin`, `set-allowed`, `shards`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from advisor.cli import options, show_status
from advisor.cli.options import Output, command
from advisor.cli.source import connected
from advisor.cli.tables import several
from advisor.domain.allowed_cores import parse_allowed

MOVE_S = 3600.0  # that moving may take before the command gives up waiting: the service goes on


@command(
    click.argument("component", required=False),
    click.option("--keep", default=0.0, show_default=True, help="Share of what was learned that stays, below 1."),
    click.option("--program", help="Forget this whole program instead: its runs and what was learned of them."),
    click.option("--yes", is_flag=True, help="Do not ask; needed where nobody can be asked."),
    options.service,
)  # fmt: skip
def forget_command(
    component: str | None, keep: float, program: str | None, *, yes: bool, **source: Any,
) -> Output:  # fmt: skip
    """Weaken, or drop, what a service has learned of COMPONENT, or of a program; exact counts never go back.

    What is forgotten does not come back: on a terminal the command asks before, elsewhere it wants --yes.
    """
    if (component is None) == (program is None):
        raise click.UsageError("give a COMPONENT or --program, and only one of them")
    if keep and component is None:
        raise click.UsageError("--keep goes with a COMPONENT: programs are forgotten as a whole")
    what = component or f"the program {program}"
    share = f"{1.0 - keep:.0%} of " if keep else ""
    with connected(source) as client:
        if not yes and not sys.stdin.isatty():
            raise click.UsageError(f"--yes is needed, for nobody can be asked: it would forget {share}{what}")
        if not yes:
            click.confirm(f"forget {share}{what}?", abort=True, err=True)
        if component is not None:
            found = _map(client.forget(component, keep=keep)) or {"component": component, "keep": keep}
            return Output(found, [f"kept {keep:.0%} of what was learned of {component}"])
        reply = client.forget(program=program)
        runs = f": {several(reply['runs'], 'run')}" if "runs" in reply else ""  # an answer that was lost has no count
        return Output(dict(reply), [f"forgot the program {program}{runs}"])


@command(
    click.argument("component"),
    click.argument("model", required=False),
    click.option("--clear", is_flag=True, help="Let the evidence choose the model again."),
    options.service,
)
def pin_command(component: str, model: str | None, clear: bool, **source: Any) -> Output:
    """Hold COMPONENT of a service to MODEL, whatever the evidence says; --clear ends that."""
    if clear == (model is not None):
        raise click.UsageError("give a MODEL, or --clear")
    with connected(source) as client:
        found = _map(client.pin(component, model)) or {"component": component, "model": model}
    held = f"held to {model}" if model else "answered by what the evidence supports"
    return Output(found, [f"{component} is {held}"])


@command(
    click.argument("component"),
    click.argument("allowed", required=False, type=options.ALLOWED),
    click.option("--clear", is_flag=True, help="Allow every count."),
    options.service,
)
def set_allowed_command(component: str, allowed: Any, clear: bool, **source: Any) -> Output:
    """Set the core counts that COMPONENT of a service allows: 1,2,4, or 8..64:8, or power_of=2,max=64; --clear ends that."""
    if clear == (allowed is not None):
        raise click.UsageError("give counts, or --clear")
    with connected(source) as client:
        found = client.set_allowed(component, allowed)
    now = found.get("allowed")
    return Output(found, [f"{component} allows {'every core count' if now is None else parse_allowed('allowed', now)}"])


@command(click.argument("shards", type=click.IntRange(1), required=False), options.service)
def shards_command(shards: int | None, **source: Any) -> Output:
    """Show the shards of a service on Ray, or let it have SHARDS of them, while rows come and go."""
    with connected(source) as client:
        found = client.shards(shards, timeout_s=MOVE_S)
    moved = found.get("moved")
    now = (
        moved
        and f"{several(moved['shards'], 'shard')} now: {several(moved['moves'], 'move')}, {moved['bytes']:,} bytes"
    )
    return Output(found, [*filter(None, [now]), *show_status.shards(found["shards"], found["moves"])])


def _map(answer: Any) -> dict[str, Any]:
    """Return an answer's map; empty where it was lost."""
    return {**answer} if isinstance(answer, Mapping) else {}
