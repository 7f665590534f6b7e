"""The commands `watch` and `explain`: advice of a service as it comes, and why an answer was as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from advisor.cli import options, show, show_plans
from advisor.cli.allocating import asked_for, hinted, network_text, planned
from advisor.cli.source import connected


@click.command("watch", cls=options.Command)
@click.argument("network", type=click.Path(path_type=Path, allow_dash=True))
@planned
@click.option(
    "--current", type=options.KeyNumbers(), multiple=True, help="Cores that a box has now; every box, or none."
)
@click.option(
    "--weight", type=options.KeyNumbers(), multiple=True, help="Of cost: core_s=N, latency_s=N, record=N (its worth)."
)
@click.option("--change-cost", "change_cost_s", type=float, help="Seconds that the network stands still for a change.")
@click.option("--horizon", "horizon_s", type=float, help="Seconds within which a change must be repaid.")
@click.option("--gain-min", type=float, help="Gains below this share are not told.")
@click.option("--shadow", is_flag=True, help="Tell nothing; show what is lost against the best.")
@click.option("--count", type=int, help="End after so many advices.")
@click.option("--within", "within_s", type=float, help="End after so many seconds without one.")
@options.service
@options.as_json
def watch_command(network: Path, count: int | None, within_s: float | None, **given: Any) -> None:
    """Watch NETWORK, a file of S-Net text: print the allocation, and each better one that is worth the change.

    Ends with Ctrl-C, or as --count and --within say. With --json each advice is a line.
    """
    text = network_text(network)
    request = asked_for(given)
    request.pop("deadline_s", None)
    current = {box: numbers[0] for box, numbers in given["current"]} or None
    told = {key: given[key] for key in ("change_cost_s", "horizon_s", "gain_min") if given[key] is not None}
    with hinted(text), connected(given) as client:
        watch = client.watch(text, given["cores"], current=current, shadow=bool(given["shadow"]), **told, **request)
        if watch.state.get("verdict") != "worth":  # otherwise it is the first advice
            show.watched(watch.state, watch.allocation, given["cores"], as_json=given["as_json"])
        told = (
            "what is lost against the best is counted"
            if given["shadow"]
            else "a better allocation that is worth its change is told here"
        )
        click.echo(f"watching {network}: {told}; Ctrl-C ends it", err=True)
        left = count
        while left is None or left > 0:
            advice = watch.next(within_s)
            if advice is None:
                break
            show.advice(advice, given["cores"], as_json=given["as_json"])
            left = None if left is None else left - 1
        if given["shadow"]:
            show.watched(watch.status(), None, given["cores"], as_json=given["as_json"])
        watch.close()


@click.command("explain", cls=options.Command)
@click.argument("answer_id", metavar="ID")
@click.option(
    "--replay", is_flag=True, help="Work it out again from what was kept of it, and say whether it is the same."
)
@options.service
@options.as_json
def explain_command(answer_id: str, *, replay: bool, **given: Any) -> None:
    """Explain the answer ID of a service: an `allocate`, of one network or several, or an advice, as long as it is kept."""
    with connected(given) as client:
        found = client.explain(answer_id, replay=replay)
    if given["as_json"]:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
    elif "networks" in found["allocation"]:
        show_plans.explained(found)
    else:
        show.explained(found)
