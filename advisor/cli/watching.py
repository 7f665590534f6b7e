"""The command `watch`: advice of a service as it comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from advisor.cli import options, show_plans
from advisor.cli.allocating import asked_for, current_of, hinted, planned
from advisor.cli.known_networks import named_network
from advisor.cli.options import command
from advisor.cli.source import connected
from advisor.domain.advice import Advice
from advisor.protocol import verbs as v

ADVICE = ("watch", "kind", "gain", "probability", "cost_s", "break_even_s", "figures", "why")


@command(
    click.argument("network", type=click.Path(path_type=Path, allow_dash=True)),
    planned(v.Watch, "evidence", "watch", change_cost_s={"type": float}),
    click.option("--count", type=int, help="End after so many advices."),
    click.option("--within", "within_s", type=float, help="End after so many seconds without one."),
    options.service,
)  # fmt: skip
def watch_command(network: Path, count: int | None, within_s: float | None, **given: Any) -> None:
    """Watch NETWORK, a file of S-Net text: print the allocation, and each better one that is worth the change.

    A NETWORK that is no file is the id of one.
    Ends with Ctrl-C, or as --count and --within say. With --json each advice is a line.
    """
    current = current_of(given["current"])
    named = named_network(network)
    cores = given["cores"]
    asked = asked_for(given, v.Watch, current=current)
    with hinted(), connected(given) as client:
        watch = client.watch(network=named.known_as(client), **asked)
        if watch.state.get("verdict") != "worth":  # otherwise it is the first advice
            options.put_line(watch.state, show_plans.watched(watch.state, watch.allocation, cores))
        click.echo(
            f"watching {network}: a better allocation that is worth its change appears here; Ctrl-C ends it", err=True
        )
        left = count
        while (left is None or left > 0) and (advice := watch.next(within_s)) is not None:
            options.put_line(_plain(advice), show_plans.advice(advice, cores))
            left = None if left is None else left - 1
        watch.close()


def _plain(advice: Advice) -> dict[str, Any]:
    allocation = None if advice.allocation is None else advice.allocation.as_dict()
    return {key: getattr(advice, key) for key in ADVICE} | {"changed": list(advice.changed), "allocation": allocation}
