"""The commands `watch` and `explain`: advice of a service as it comes, and why an answer is as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from advisor.cli import options, show, show_plans
from advisor.cli.allocating import BY_BOX, asked_for, asked_together, hinted, network_text, planned
from advisor.cli.declared import asked_by
from advisor.cli.source import connected
from advisor.errors import InvalidValue
from advisor.protocol import verbs as v
from advisor.service.explaining import sentences


@click.command("watch", cls=options.Command)
@click.argument(
    "networks", metavar="NETWORK…", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True)
)
@planned(
    v.Watch, "deadline_s", "watch", "networks", change_cost_s={"type": float},
    current=BY_BOX | {"help": "Cores that a box has now; every box, or none."},
)  # fmt: skip
@click.option("--count", type=int, help="End after so many advices.")
@click.option("--within", "within_s", type=float, help="End after so many seconds without one.")
@options.service
@options.as_json
def watch_command(networks: tuple[Path, ...], count: int | None, within_s: float | None, **given: Any) -> None:
    """Watch NETWORK, a file of S-Net text: print the allocation, and each better one that is worth the change.

    Several files share one machine, with the options of `advisor allocate`; their boxes are then written NETWORK:BOX.
    Ends with Ctrl-C, or as --count and --within say. With --json each advice is a line.
    """
    current = {box: cores[0] for box, cores in given["current"]} or None
    request: dict[str, Any]
    text = network_text(networks[0]) if len(networks) == 1 else ""
    if len(networks) == 1:
        request = {"network": text, **asked_for(given, v.Watch, current=current)}
    else:
        asks, machine = asked_together(networks, given)
        own = {key: given[key] for key in v.Watch.verb.keys.keys() & given.keys() - v.Allocate.verb.keys.keys()}
        request = {"networks": asks, **machine, **asked_by(v.Watch, own, cores=given["cores"], current=current)}
    with hinted(text), connected(given) as client:
        watch = client.watch(**request)
        if watch.state.get("verdict") != "worth":  # otherwise it is the first advice
            show_plans.watched(watch.state, watch.allocation, given["cores"], as_json=given["as_json"])
        where = ", ".join(map(str, networks))
        click.echo(
            f"watching {where}: a better allocation that is worth its change appears here; Ctrl-C ends it", err=True
        )
        left = count
        while left is None or left > 0:
            advice = watch.next(within_s)
            if advice is None:
                break
            show_plans.advice(advice, given["cores"], as_json=given["as_json"])
            left = None if left is None else left - 1
        watch.close()


@click.command("explain", cls=options.Command)
@click.argument("file", metavar="ANSWER.json", type=click.File("rb"))
@options.as_json
def explain_command(file: Any, *, as_json: bool) -> None:
    """Explain ANSWER.json, what `advisor allocate --json` printed, in sentences. "-" reads standard input."""
    try:
        answer = json.load(file)
        said = list(sentences(answer, {}))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidValue("file", file.name, "what `advisor allocate --json` prints") from error
    if as_json:
        show.put_json({"sentences": said})
    else:
        show_plans.explained(said, answer)
