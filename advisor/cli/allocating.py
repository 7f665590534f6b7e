"""Plans: `allocate`, once or swept over numbers of cores, `allocate-together`, and `watch`."""

from __future__ import annotations

import math
import shlex
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from advisor.cli import options, show_plans
from advisor.cli.asking import FILE, list_in
from advisor.cli.declared import Given, asks, by_name
from advisor.cli.known_networks import NamedNetwork, named_network
from advisor.cli.tables import Printed
from advisor.domain.allocations import Allocation
from advisor.domain.limits import ALLOCATE_CORES_MAX
from advisor.errors import InvalidValue, MissingShares
from advisor.protocol import verbs as v

if TYPE_CHECKING:
    from advisor import Advisor
    from advisor.client import SyncClient

SWEPT = ("throughput", "latency", "fewest_cores")
SWEEP_POINTS = 128  # a table has no more to show

# What options of a plan have otherwise than their keys. BOX=N is a map by name.
LIST = {"type": options.NUMBERS, "multiple": True}
BY_BOX = {"type": options.key_numbers(), "multiple": True}
WHOLE_BY_BOX: dict[str, Any] = {"type": options.key_numbers(int), "multiple": True}
CURRENT = "What is in use: BOX=N for every box, or a file that --json wrote. It stays unless a change gains 5 %."
TURNS = (
    "Whether components share cores in turns. never; scarce: only with fewer cores than components; better: wherever "
    "the plan gains."
)
FORMS: dict[str, dict[str, Any]] = {
    "shares": LIST,
    "depths": LIST,
    "fan_outs": LIST,
    "returns": {"type": float, "multiple": True},
    "pinned": {"name": "pin", "into": "pin", "help": "Cores that a box has, whatever else."} | WHOLE_BY_BOX,
    "allowed": {
        "type": options.ALLOWED,
        "help": "Cores that an instance may have; what a component itself allows holds, too.",
    },
    "turns": {"help": TURNS},
    "current": {"type": options.CURRENT, "multiple": True, "help": CURRENT},
    "scale": {"name": "speed", "into": "speed", "help": "What if: BOX=2 is twice as fast as it is."} | BY_BOX,
    "components": {"name": "component", "into": "component", "type": options.KEY_TEXT, "multiple": True},
    "target": {"name": "throughput or --latency"},
}
NETWORK = click.argument("network", type=options.PATH)
TARGETS = tuple(
    click.option(name, key, type=float, help=f"Target of fewest_cores: {about}.")
    for name, key, about in (("--throughput", "throughput_per_s", "records per second"),
                             ("--latency", "latency_s", "seconds a record spends inside"))
)  # fmt: skip


def _swept_counts(text: str) -> list[int]:
    """Return the counts of cores=LOW..HIGH, in steps with :STEP, and of cores=N,N…"""
    what, _, numbers = text.partition("=")
    counts = options.counts_of(numbers, ALLOCATE_CORES_MAX) if what == "cores" else []
    if not 0 < len(counts) <= SWEEP_POINTS:
        raise ValueError(text)
    return counts


RANGE = options.ValueForm(
    "cores=low..high[:step]", _swept_counts, f"cores=LOW..HIGH[:STEP], or cores=N,N,…, with at most {SWEEP_POINTS} counts"
)  # fmt: skip


def _keys_of(given: Given) -> Given:
    """Return the keys of a plan that are not an option's value as it is; raises InvalidValue."""
    targets = {name: given[name] for name in ("throughput_per_s", "latency_s") if given[name] is not None}
    if given["objective"] == "fewest_cores" and not targets:
        raise click.UsageError("--objective fewest_cores takes --throughput or --latency, the target")
    scale = {box: 1.0 / speed for box, speed in (by_name("speed", given["speed"]) or {}).items() if speed > 0}
    if len(scale) < len(given["speed"]):
        raise InvalidValue("speed", 0, "BOX=N with N above 0")
    return {
        "network": named_network(given["network"]), "target": targets or None, "shares": list(given["shares"]) or None,
        "depths": _means(given["depths"]), "fan_outs": _means(given["fan_outs"]), "returns": list(given["returns"]) or None,
        "components": dict(given["component"]) or None, "pinned": by_name("pin", given["pin"]), "scale": scale or None,
        "current": _current_of(given["current"]),
    }  # fmt: skip


def _current_of(pairs: Sequence[tuple[str, Any]]) -> Any:
    """Return the allocation in use, from a file or by box; None where none is given."""
    answers = [answer for name, answer in pairs if not name]
    if not answers:
        return by_name("current", pairs)
    if len(pairs) > 1:
        raise InvalidValue("current", len(pairs), "one file, or BOX=N for every box")
    return answers[0]


def _allocated(asker: Advisor | SyncClient, request: Given, given: Given) -> Given:
    """Return one plan, one as arguments of a runtime, or one for each number of cores."""
    form, sweep, objective = given["form"], given["sweep"], given["objective"]
    named, cores = request.pop("network"), request.pop("cores", None)
    with _hinted():
        known = named.known_as(asker)
        if form:
            return _arguments(
                form, asker, named, asker.allocate(known, cores=cores, **_one_core_each(form, cores, request))
            )
        if sweep is None:
            return {"objective": objective} | _planned(asker, known, cores, request).as_dict()
        found = [(count, _planned(asker, known, count, request)) for count in sweep]
    return {"objective": objective, "sweep": [show_plans.point_of(count, plan) for count, plan in found]}


def _together(asker: Advisor | SyncClient, request: Given, _: Given) -> Given:
    return {"cores": request["cores"]} | asker.allocate_together(**request).as_dict()


def _checked(given: Given) -> Given:
    """Return the keys of `allocate`; raises UsageError, InvalidValue where options do not go together."""
    objective, form, sweep = given["objective"], given["form"], given["sweep"]
    for wrong, words in (
        (sweep is not None and given["cores"] is not None, "give --cores or --sweep"),
        (form is not None and sweep is not None, "--as prints one allocation"),
        (given["evidence"] and (form is not None or sweep is not None), "--evidence is of one allocation"),
    ):
        if wrong:
            raise click.UsageError(words)
    if sweep is not None and objective not in SWEPT:
        hint = "--cores N gives the best of all numbers of cores up to N"
        raise InvalidValue("sweep", objective, f"of {', '.join(SWEPT)}", hint)
    return _keys_of(given)


@asks(
    v.Allocate, NETWORK,
    click.option("--sweep", type=RANGE, help="Plan for each number of cores, e.g. cores=1..64: nothing is changed by it."),
    click.option("--as", "form", type=click.Choice(["snet", "lpel"]), help="snet: print -w and -c of S-Net's runtime, whose "
                 "boxes run on one core; --instances-max is then --cores. lpel: -w, -dloc and the network with its placement."),
    *TARGETS, leave=("network", "target"), keys=_checked, answer=_allocated, forms=FORMS,
)  # fmt: skip
def allocate_command(found: Given) -> Iterator[Printed]:
    """Allocate cores to the components of NETWORK, a file of S-Net text; - is standard input.

    What was learned of the network's flow is used. Its id is the file's name without ending. If there is no such file,
    NETWORK is the id itself.

    Options that name a box are written BOX=N and may be given several times.

    `advisor allocate-together` is for several networks on one machine.
    """
    if "arguments" in found:
        yield shlex.join(found["arguments"])
        if "network" in found:
            yield found["network"].rstrip()
    elif "sweep" in found:
        yield show_plans.sweep(found["sweep"])
    else:
        yield from show_plans.allocation(found)


@asks(
    v.AllocateTogether, FILE, leave=("networks",), answer=_together,
    keys=list_in("networks", 'networks, [{"network": "read .. blur", "weight": 2}, ...]'),
)  # fmt: skip
def allocate_together_command(found: Given) -> Iterator[Printed]:
    """Allocate the cores of one machine to the networks in FILE, a JSON list of maps; - reads standard input.

    Each map has a network, S-Net text or an id, and may have name, weight (2: twice the throughput of others),
    and keys of `allocate` for one network: shares, minimum, pinned and others.
    """
    return show_plans.together(found)


def _planned(asker: Advisor | SyncClient, network: str, cores: int | None, request: dict[str, Any]) -> Allocation:
    """Return a plan. Boxes that run on one core get more instances instead, unless the command line states how many."""
    found = asker.allocate(network, cores=cores, **request)
    source = click.get_current_context().get_parameter_source("instances_max")
    one_core = any(reason.code == "workers" for reason in found.why)
    if cores is None or not one_core or source is not ParameterSource.DEFAULT:
        return found
    several: dict[str, Any] = {**request, "instances_max": cores}
    return asker.allocate(network, cores=cores, **several)


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


def _arguments(form: str, asker: Advisor | SyncClient, named: NamedNetwork, found: Allocation) -> Given:
    """Return an allocation as arguments of one of S-Net's runtimes, and for LPEL the network with its placement."""
    from advisor.files.snet_arguments import arguments_of, placed_on_workers
    from advisor.network import write

    structure = named.structure(asker)
    if form == "snet":
        return {"arguments": list(arguments_of(structure, found))} | found.as_dict()
    words, placed = placed_on_workers(structure, found)
    return {"arguments": list(words), "network": write(placed)} | found.as_dict()


# Field of a request that a network needs -> how an option of the command gives it.
WAYS = {"shares": "--shares S,S", "depths": "--depths N", "fan_outs": "--fan-outs N", "returns": "--returns P"}


@contextmanager
def _hinted() -> Generator[None]:
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


ADVICE = ("watch", "kind", "gain", "probability", "cost_s", "break_even_s", "figures", "why")


def _advices(client: SyncClient, request: Given, given: Given) -> Iterator[Given]:
    """Yield the state of a new watch, then each advice as it comes."""
    left = given["count"]
    with _hinted():
        watch = client.watch(**request | {"network": request["network"].known_as(client)})
        if watch.state.get("verdict") != "worth":  # otherwise it is the first advice
            yield watch.state
        words = (
            f"watching {given['network']}: a better allocation that is worth its change appears here; Ctrl-C ends it"
        )
        click.echo(words, err=True)
        while (left is None or left > 0) and (advice := watch.next(given["within_s"])) is not None:
            allocation = None if advice.allocation is None else advice.allocation.as_dict()
            own = {key: getattr(advice, key) for key in ADVICE}
            yield own | {"changed": list(advice.changed), "allocation": allocation}
            left = None if left is None else left - 1
        watch.close()


@asks(
    v.Watch, NETWORK,
    click.option("--count", type=int, help="End after this many changes are printed."),
    click.option("--within", "within_s", type=float, help="End after so many seconds without one."),
    *TARGETS, served=True, leave=("network", "target", "evidence", "watch"), keys=_keys_of, answer=_advices,
    forms=FORMS | {"change_cost_s": {"type": float, "help": "Seconds that the network stands still for a change."}},
)  # fmt: skip
def watch_command(found: Given) -> Iterator[Printed]:
    """Watch NETWORK, a file of S-Net text: print the allocation, and each better one that is worth the change.

    If there is no such file, NETWORK is the id of one.
    Ends with Ctrl-C, or as --count and --within say. With --json each change is a line.
    """
    return show_plans.watched(found)
