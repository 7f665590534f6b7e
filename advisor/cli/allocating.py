"""The command `allocate`: cores for the components of a network, once or swept over numbers of cores."""

from __future__ import annotations

import math
import shlex
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from advisor.cli import options, show_plans
from advisor.cli.declared import asked_by, by_name, declared
from advisor.cli.known_networks import named_network
from advisor.cli.options import Output, command
from advisor.cli.source import asked
from advisor.domain.allocations import Allocation
from advisor.domain.limits import ALLOCATE_CORES_MAX
from advisor.errors import InvalidValue, MissingShares
from advisor.protocol import verbs as v

if TYPE_CHECKING:
    from advisor import Advisor
    from advisor.client import SyncClient
    from advisor.domain.networks import Network

SWEPT = ("throughput", "latency", "fewest_cores")  # the others have all numbers of cores in one answer
SWEEP_POINTS = 128  # a table has no more to show
COST_WEIGHTS = ("core_s", "latency_s", "record")

# What options of a plan have otherwise than their keys. BOX=N is a map by name.
LIST = {"type": options.NUMBERS, "multiple": True}
BY_BOX = {"type": options.key_numbers(), "multiple": True}
WHOLE_BY_BOX: dict[str, Any] = {"type": options.key_numbers(int), "multiple": True}
CURRENT = "What is in use: BOX=N for every box, or a file that --json wrote. It stays unless a change gains 5 %."
COST = "Of cost: core_s=N, latency_s=N, record=N (its worth)."
FORMS: dict[str, dict[str, Any]] = {
    "shares": LIST,
    "depths": LIST,
    "fan_outs": LIST,
    "returns": {"type": float, "multiple": True},
    "pinned": {"name": "pin", "into": "pin", "help": "Cores that a box has, whatever else."} | WHOLE_BY_BOX,
    "allowed": {"type": options.ALLOWED},
    "current": {"type": options.CURRENT, "multiple": True, "help": CURRENT},
    "scale": {"name": "speed", "into": "speed", "help": "What if: BOX=2 is twice as fast as it is."} | BY_BOX,
    "components": {"name": "component", "into": "component", "type": options.KEY_TEXT, "multiple": True},
    "target": {"name": "throughput or --latency"},
    "weights": {"name": "weight", "into": "weight", "help": COST} | BY_BOX,
}
NETWORK = click.argument("network", type=click.Path(path_type=Path, allow_dash=True))


def _swept_counts(text: str) -> list[int]:
    """Return the counts of cores=LOW..HIGH, in steps with :STEP, and of cores=N,N…"""
    what, _, numbers = text.partition("=")
    parts = [options.range_of(part) for part in numbers.split(",")] if what == "cores" else []
    counts = sorted({count for part in parts for count in part[: SWEEP_POINTS + 1]})
    if not counts or not 1 <= counts[0] <= counts[-1] <= ALLOCATE_CORES_MAX or len(counts) > SWEEP_POINTS:
        raise ValueError(text)
    return counts


RANGE = options.ValueForm(
    "cores=low..high[:step]", _swept_counts, f"cores=LOW..HIGH[:STEP], or cores=N,N,…, with at most {SWEEP_POINTS} counts"
)  # fmt: skip


def planned(verb: type[v.Allocate], *leave: str, **forms: Any) -> Any:
    """Return a decorator that adds the options of a plan, shared by `allocate` and `watch`."""

    def add(function: Any) -> Any:
        for name, key, about in (
            ("--latency", "latency_s", "seconds a record spends inside"),
            ("--throughput", "throughput_per_s", "records per second"),
        ):
            function = click.option(name, key, type=float, help=f"Target of fewest_cores: {about}.")(function)
        return declared(verb, leave=("network", "target", *leave), **FORMS | forms)(function)

    return add


def asked_for(given: dict[str, Any], verb: type[v.Allocate] = v.Allocate, **instead: Any) -> dict[str, Any]:
    """Return the options of a plan as `allocate` of an advisor or a client takes them."""
    targets = {name: given[name] for name in ("throughput_per_s", "latency_s")}
    scale = {box: 1.0 / speed for box, speed in (by_name("speed", given["speed"]) or {}).items() if speed > 0}
    if len(scale) < len(given["speed"]):
        raise InvalidValue("speed", 0, "BOX=N with N above 0")
    return asked_by(
        verb, given,
        target={key: value for key, value in targets.items() if value is not None} or None,
        shares=list(given["shares"]) or None, depths=_means(given["depths"]), fan_outs=_means(given["fan_outs"]),
        returns=list(given["returns"]) or None, components=dict(given["component"]) or None,
        pinned=by_name("pin", given["pin"]), scale=scale or None,
        weights=_weights(given["objective"], given["weight"]),
        **{"current": current_of(given["current"])} | instead,
    )  # fmt: skip


def current_of(pairs: Sequence[tuple[str, Any]]) -> Any:
    """Return the allocation in use, from a file or by box; None where none is given."""
    answers = [answer for name, answer in pairs if not name]
    if not answers:
        return by_name("current", pairs)
    if len(pairs) > 1:
        raise InvalidValue("current", len(pairs), "one file, or BOX=N for every box")
    return answers[0]


@command(
    NETWORK,
    planned(v.Allocate),
    click.option("--sweep", type=RANGE, help="Plan for each number of cores, e.g. cores=1..64: nothing is changed by it."),
    click.option("--as", "form", type=click.Choice(["snet", "lpel"]), help="snet: print -w and -c of S-Net's runtime, whose "
                 "boxes run on one core; --instances-max is then --cores. lpel: -w, -dloc and the network with its placement."),
    options.learned,
)  # fmt: skip
def allocate_command(network: Path, cores: int | None, sweep: list[int] | None, **given: Any) -> Output:
    """Allocate cores to the components of NETWORK, a file of S-Net text; - is standard input.

    What was learned of a network's flow is used: of the one with the file's name, without ending, as its id. A NETWORK that
    is no file is such an id itself.

    Options that name a box are written BOX=N and may be given several times. Objective pareto shows the front of cores,
    throughput and latency up to --cores; cost takes a --weight for each thing that costs.

    `advisor allocate-together` is for several networks on one machine.
    """
    pareto = given["objective"] == "pareto"
    if sweep is not None and cores is not None:
        raise click.UsageError("give --cores or --sweep")
    if given["form"] is not None and (sweep is not None or pareto):
        raise click.UsageError("--as prints one allocation")
    if given["evidence"] and (given["form"] is not None or sweep is not None):
        raise click.UsageError("--evidence is of one allocation")
    if sweep is not None and given["objective"] not in SWEPT:
        hint = "--cores N gives the best of all numbers of cores up to N"
        raise InvalidValue("sweep", given["objective"], f"of {', '.join(SWEPT)}", hint)
    named = named_network(network)
    request = asked_for(given)
    with hinted(), asked(given) as advisor:
        known = named.known_as(advisor)
        if given["form"]:
            structure, form = named.structure(advisor), given["form"]
            found = advisor.allocate(known, cores=cores, **_one_core_each(form, cores, request))
            return _arguments(form, structure, found)
        if sweep is None:
            return _one(_planned(advisor, known, cores, request), cores, request, given["objective"])
        found = [(count, _planned(advisor, known, count, request)) for count in sweep]
    return Output(show_plans.sweep_plain(given["objective"], found), show_plans.sweep(found))


def _planned(asker: Advisor | SyncClient, network: str, cores: int | None, request: dict[str, Any]) -> Allocation:
    """Return a plan. Boxes that run on one core get more instances instead, unless the command line states how many."""
    found = asker.allocate(network, cores=cores, **request)
    source = click.get_current_context().get_parameter_source("instances_max")
    one_core = any(reason.code == "workers" for reason in found.why)
    if cores is None or not one_core or source is not ParameterSource.DEFAULT:
        return found
    several: dict[str, Any] = {**request, "instances_max": cores}
    return asker.allocate(network, cores=cores, **several)


def _one(found: Allocation, cores: int | None, request: dict[str, Any], objective: str) -> Output:
    """Return the allocation of one network, or its front."""
    printed = show_plans.allocation(cores, found) if objective != "pareto" else show_plans.front(found, request)
    return Output({"objective": objective} | found.as_dict(), printed)


def _one_core_each(form: str, cores: int | None, request: dict[str, Any]) -> dict[str, Any]:
    """Return a request for one of S-Net's runtimes, whose boxes run on one core."""
    from advisor.files.snet_arguments import ONE

    single = request["instances_max"] == 1
    if form == "lpel":
        if not single:
            raise InvalidValue(
                "instances_max", request["instances_max"], "1 with --as lpel: it runs a box on one worker"
            )
        return {**ONE, **request, "nodes": 1}
    return {**ONE, **request, **({"instances_max": cores} if single and cores is not None else {})}


def _arguments(form: str, structure: Network, found: Allocation) -> Output:
    """Return an allocation as arguments of one of S-Net's runtimes."""
    from advisor.files.snet_arguments import arguments_of, placed_on_workers

    if form == "snet":
        words = arguments_of(structure, found)
        return Output({"arguments": list(words)} | found.as_dict(), [shlex.join(words)])
    from advisor.network import write

    words, placed = placed_on_workers(structure, found)
    text = write(placed)
    return Output({"arguments": list(words), "network": text} | found.as_dict(), [shlex.join(words), text.rstrip()])


# Field of a request that a network needs -> how an option of the command gives it.
WAYS = {"shares": "--shares S,S", "depths": "--depths N", "fan_outs": "--fan-outs N", "returns": "--returns P"}


@contextmanager
def hinted() -> Generator[None]:
    """Let an error about the way of records name options of the command."""
    try:
        yield
    except MissingShares as error:
        if way := WAYS.get(str(error.field).partition("[")[0]):
            error.hint = f"give {way}, in text order; or --visits BOX=N"
        raise


def _means(lists: Sequence[list[float]]) -> list[Any] | None:
    """Return one number or list of numbers each."""
    return [_whole(each[0]) if len(each) == 1 else each for each in lists] or None


def _whole(value: float) -> float | int:
    return int(value) if math.isfinite(value) and value == int(value) else value


def _weights(objective: str, pairs: Sequence[tuple[str, list[Any]]]) -> dict[str, Any] | None:
    """Return the weights of a cost."""
    wanted = f"some of {', '.join(COST_WEIGHTS)}"
    weights = by_name("weight", pairs)
    if objective != "cost":
        if weights:
            hint = "weights go with --objective cost"
            raise InvalidValue("weight", next(iter(weights)), f"absent for {objective}", hint)
        return None
    if not weights:
        raise InvalidValue("weight", None, f"given for cost: {wanted}", "e.g. --weight core_s=1 --weight record=5")
    return weights
