"""The command `allocate`: cores for the components of a network, once or swept over numbers of cores."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from advisor.cli import options, sharing, show_plans
from advisor.cli.declared import asked_by, by_name, declared
from advisor.cli.known_networks import is_id, known_as, structure_of
from advisor.cli.source import asked
from advisor.domain.allocations import Allocation
from advisor.domain.limits import ALLOCATE_CORES_MAX, NETWORK_TEXT_BYTES_MAX
from advisor.errors import InvalidValue, MissingShares, TooLarge
from advisor.protocol import verbs as v

SWEPT = ("throughput", "latency", "fewest_cores")  # the others have all numbers of cores in one answer
SWEEP_POINTS = 128  # of a longer range, so many counts a constant factor apart: a line has no more to show
KNEE = 0.99  # of the best of a sweep is what the knee still reaches

# What options of a plan have otherwise than their keys. BOX=N is a map by name.
LIST = {"type": options.Numbers(), "multiple": True}
BY_BOX = {"type": options.KeyNumbers(), "multiple": True}
KEYLESS: dict[str, Any] = {"type": options.KeyNumbers(keyless=True), "multiple": True}
FORMS: dict[str, dict[str, Any]] = {
    "shares": LIST,
    "depths": LIST,
    "fan_outs": LIST,
    "returns": {"type": float, "multiple": True},
    "pinned": {
        "name": "pin",
        "into": "pin",
        "type": options.KeyNumbers(int),
        "multiple": True,
        "help": "Cores that a box has, whatever else.",
    },
    "allowed": {"type": options.AllowedCounts()},
    "scale": {"name": "speed", "into": "speed", "help": "What if: BOX=2 is twice as fast as it is."} | BY_BOX,
    "components": {"name": "component", "into": "component", "type": options.KeyText(), "multiple": True},
    "arrival_per_s": KEYLESS,
    "weights": BY_BOX
    | {
        "name": "weight",
        "into": "weight",
        "help": "Of cost: core_s=N, latency_s=N, record=N (its worth). Of several networks: NETWORK=N.",
    },
}


PRIORITY = "Of several networks: higher ones first."


class Range(click.ParamType[list[int]]):
    """cores=LOW..HIGH, in steps with :STEP, and cores=N,N…"""

    name = "cores=low..high[:step]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """Return the counts, thinned out where there are many."""
        if isinstance(value, list):
            return value  # pyright: ignore[reportUnknownVariableType] - converted already
        what, _, numbers = str(value).partition("=")
        try:
            parts = [options.range_of(part) for part in numbers.split(",")] if what == "cores" else []
            counts = sorted({count for part in parts for count in _thinned(part)})
        except ValueError:
            counts = []
        if not counts or not 1 <= counts[0] <= counts[-1] <= ALLOCATE_CORES_MAX or len(counts) > SWEEP_POINTS:
            self.fail(
                f"{value!r} is not cores=LOW..HIGH[:STEP], or cores=N,N,… with at most {SWEEP_POINTS} counts",
                param,
                ctx,
            )
        return counts


def _thinned(counts: range) -> Sequence[int]:
    if len(counts) <= SWEEP_POINTS or counts[0] < 1:
        return counts[:SWEEP_POINTS]
    low, high = counts[0], counts[-1]
    factor: float = (high / low) ** (1.0 / (SWEEP_POINTS - 1))
    return [counts[round((low * factor**step - low) / counts.step)] for step in range(SWEEP_POINTS)]


def planned(verb: type[v.Allocate], *leave: str, **forms: Any) -> Any:
    """Return a decorator that adds the options of a plan, shared by `allocate` and `watch`."""

    def add(function: Any) -> Any:
        for name, key, about in (
            ("--latency", "latency_s", "seconds a record spends inside"),
            ("--throughput", "throughput_per_s", "records per second"),
        ):
            function = click.option(name, key, help=f"Target of fewest_cores: {about}.", **KEYLESS)(function)
        ranks = click.option("--priority", type=options.KeyNumbers(int), multiple=True, help=PRIORITY)
        function = ranks(function)
        return declared(verb, leave=("network", "target", *leave), **FORMS | forms)(function)

    return add


def asked_for(given: dict[str, Any], verb: type[v.Allocate] = v.Allocate, **instead: Any) -> dict[str, Any]:
    """Return the options of a plan as `allocate` of an advisor or a client takes them."""
    if given["priority"]:
        raise InvalidValue("priority", given["priority"][0][0], "absent for one network", "it ranks several")
    targets = {name: _of_one(name, given[name]) for name in ("throughput_per_s", "latency_s")}
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
        arrival_per_s=_of_one("arrival_per_s", given["arrival_per_s"]), **instead,
    )  # fmt: skip


@click.command("allocate", cls=options.Command)
@click.argument(
    "networks", metavar="NETWORK…", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True)
)
@planned(v.Allocate)
@click.option(
    "--sweep", type=Range(), help="Plan for each number of cores, e.g. cores=1..64: nothing is changed by it."
)
@click.option(
    "--plot", type=click.Path(path_type=Path), help="Draw the sweep, or the front of pareto, to this PNG or SVG file."
)
@click.option(
    "--as",
    "form",
    type=click.Choice(["snet"]),
    help="snet: print -w and -c of S-Net's runtime, whose boxes run on one core; --instances-max is then --cores.",
)
@options.learned
@options.as_json
def allocate_command(
    networks: tuple[Path, ...], cores: int | None, sweep: list[int] | None, plot: Path | None, **given: Any
) -> None:
    """Allocate cores to the components of NETWORK, a file of S-Net text; - is standard input.

    What was learned of a network's flow is used: of the one with the file's name, without ending, as its id. One NETWORK that
    is no file is such an id itself.

    Options that name a box are written BOX=N and may be given several times. Objective pareto shows the front of cores,
    throughput and latency up to --cores; cost takes a --weight for each thing that costs.

    Several files share one machine; each is called as its file, without ending. --weight A=2 gives A twice the throughput
    of others, --priority A=1 plans it before them, --throughput A=5 or --latency A=1 is its target of fewest_cores. BOX=N
    is of every network with that box, A:BOX=N of one; options with a value a choice, star, split or feedback are taken in
    the order of the files.
    """
    if plot is not None and sweep is None and given["objective"] != "pareto":
        raise click.UsageError("--plot draws a --sweep, or --objective pareto")
    if plot is not None:
        from advisor.pictures import form_of

        form_of(plot)  # what could not be drawn is refused before anything is worked out
    if sweep is not None and cores is not None:
        raise click.UsageError("give --cores or --sweep")
    if given["deadline_s"] is not None and (given["state"] or given["table"]):
        raise InvalidValue("deadline", given["deadline_s"], "absent with --state and --table", "a service has a clock")
    if given["form"] is not None and (len(networks) > 1 or sweep is not None or given["objective"] == "pareto"):
        raise click.UsageError("--as prints one allocation of one network")
    if len(networks) == 1:
        _allocate_one(networks[0], cores, sweep, plot, given)
        return
    if plot is not None and sweep is not None:
        raise click.UsageError("--plot draws the sweep of one network")
    _allocate_together(networks, cores, sweep, plot, given)


def _allocate_one(
    network: Path, cores: int | None, sweep: list[int] | None, plot: Path | None, given: dict[str, Any]
) -> None:
    request, objective = asked_for(given), given["objective"]
    if given["form"] is not None:
        _print_arguments(network, cores, request, given)
        return
    if sweep is not None:
        _swept(objective)
    text = None if is_id(network) else network_text(network)
    with hinted(text), asked(given) as advisor:
        known = known_as(network, text, advisor)
        if sweep is None:
            allocation = advisor.allocate(known, cores=cores, **request)
            if plot is not None:
                from advisor.pictures.swept import draw_front

                draw_front(plot, f"{network.name}: the front of cores, throughput and latency", allocation.front)
            if objective == "pareto" and not given["as_json"]:
                show_plans.front(allocation, request, plot)
                return
            show_plans.allocation(objective, cores, allocation, as_json=given["as_json"])
            if not given["as_json"]:
                show_plans.cost(allocation)
            return
        found = [(count, advisor.allocate(known, cores=count, **request)) for count in sweep]
    knee = knee_of(found, objective)
    if plot is not None:
        from advisor.pictures.swept import draw_sweep

        draw_sweep(plot, f"{network.name}: {objective} by cores", found, knee)
    show_plans.sweep(objective, found, knee, plot, as_json=given["as_json"])


def _print_arguments(network: Path, cores: int | None, request: dict[str, Any], given: dict[str, Any]) -> None:
    """Print an allocation as arguments of S-Net's runtime."""
    from advisor.files.snet_arguments import ONE, arguments_of

    text = None if is_id(network) else network_text(network)
    if given["instances_max"] == 1 and cores is not None:
        request["instances_max"] = cores
    with hinted(text), asked(given) as advisor:
        structure = structure_of(network, text, advisor)
        allocation = advisor.allocate(known_as(network, text, advisor), cores=cores, **{**ONE, **request})
    show_plans.arguments(arguments_of(structure, allocation), allocation, as_json=given["as_json"])


def _allocate_together(
    files: Sequence[Path], cores: int | None, sweep: list[int] | None, plot: Path | None, given: dict[str, Any]
) -> None:
    counts = sweep or ([] if cores is None else [cores])
    if not counts:
        raise InvalidValue("cores", None, "given: several networks share a number of cores")
    if sweep is not None:
        _swept(given["objective"])
    asks, machine = asked_together(files, given)
    with asked(given) as advisor:
        found = [(count, advisor.allocate_together(asks, cores=count, **machine)) for count in counts]
    if sweep is not None:
        show_plans.swept(found, as_json=given["as_json"])
        return
    if plot is not None:
        from advisor.pictures.swept import draw_front

        title = f"{', '.join(one['name'] for one in asks)}: the front of cores, throughput and latency"
        draw_front(plot, title, found[0][1].front)
    if given["objective"] == "pareto" and not given["as_json"]:
        show_plans.front(found[0][1], machine, plot)
    else:
        show_plans.together(found[0][1], found[0][0], as_json=given["as_json"])


def asked_together(files: Sequence[Path], given: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return what is asked about each of several networks, and what of the machine: its objective, but not its cores."""
    asks: list[dict[str, Any]] = []
    machine: dict[str, Any] = {}
    for one in sharing.spread(sharing.names_of(files), [network_text(file) for file in files], given):
        request = asked_for({**one, "weight": one["costs"], "priority": ()})
        machine = {key: request.pop(key) for key in sharing.MACHINE if key in request}
        request.pop("cores", None)
        ranks = {key: one[key][0][1][0] for key in ("weight", "priority") if one[key]}
        asks.append({"network": one["text"], "name": one["name"], **ranks, **request})
    return asks, machine


def _swept(objective: str) -> None:
    if objective not in SWEPT:
        hint = "--cores N gives the best of all numbers of cores up to N"
        raise InvalidValue("sweep", objective, f"of {', '.join(SWEPT)}", hint)


def knee_of(found: Sequence[tuple[int, Allocation]], objective: str) -> int | None:
    """Return the fewest cores of a sweep that reach `KNEE` of its best; None where only the most of them do."""
    if objective == "latency":
        best = min(each.latency_s for _, each in found)
        knee = min(cores for cores, each in found if each.latency_s * KNEE <= best)
    else:
        best = max(each.throughput_per_s for _, each in found)
        knee = min(cores for cores, each in found if each.throughput_per_s >= KNEE * best)
    return knee if knee < found[-1][0] else None


# Field of a request that a network needs -> the option of the command.
WAYS = {"shares": "--shares", "depths": "--depths", "fan_outs": "--fan-outs", "returns": "--returns"}


@contextmanager
def hinted(text: str | None) -> Generator[None]:
    """Let an error about the way of records name options of the command, with what the types of records decide."""
    try:
        yield
    except MissingShares as error:
        field = str(error.field).partition("[")[0]
        if field in WAYS and text is not None:
            error.hint = _ways(field, text)
        raise


def _ways(field: str, text: str) -> str:
    """Return how a command line gives the routes of records."""
    from advisor.network import parse_any, routes

    network = parse_any(text)
    counts = {"shares": network.choices, "depths": network.replications, "fan_outs": network.splits}
    known = routes(network).shares if field == "shares" else [None] * len(counts.get(field, network.feedbacks))
    form = "S,S" if field == "shares" else "P" if field == "returns" else "N"
    given = " ".join(f"{WAYS[field]} {form if each is None else ','.join(f'{s:.3g}' for s in each)}" for each in known)
    why = "; the numbers are what the types of its records decide, see `advisor network`" if any(known) else ""
    return f"give {given}, in text order{why}; or --visits BOX=N"


def network_text(path: Path) -> str:
    """Return the text of a network's file; raises InvalidValue, TooLarge."""
    try:
        with click.open_file(str(path), "rb") as file:
            data = file.read(NETWORK_TEXT_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidValue("network", str(path), "a file that can be read", error.strerror or "") from error
    if len(data) > NETWORK_TEXT_BYTES_MAX:
        raise TooLarge("network", len(data), NETWORK_TEXT_BYTES_MAX)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidValue("network", str(path), "UTF-8 text") from error


def _means(lists: Sequence[list[float]]) -> list[Any] | None:
    """Return one number or list of numbers each."""
    return [_whole(each[0]) if len(each) == 1 else each for each in lists] or None


def _whole(value: float) -> float | int:
    return int(value) if math.isfinite(value) and value == int(value) else value


def _weights(objective: str, pairs: Sequence[tuple[str, list[Any]]]) -> dict[str, Any] | None:
    """Return the weights of a cost."""
    wanted = f"some of {', '.join(sharing.COST_WEIGHTS)}"
    weights = by_name("weight", pairs)
    if objective != "cost":
        if weights:
            hint = "weights go with --objective cost, or NETWORK=N with several networks"
            raise InvalidValue("weight", next(iter(weights)), f"absent for {objective} of one network", hint)
        return None
    if not weights:
        raise InvalidValue("weight", None, f"given for cost: {wanted}", "e.g. --weight core_s=1 --weight record=5")
    for name in weights:
        if name not in sharing.COST_WEIGHTS:
            raise InvalidValue("weight", name, wanted, "written NAME=N")
    return weights


def _of_one(name: str, pairs: Sequence[tuple[str, list[Any]]]) -> float | None:
    """Return the number of an option that several networks have one each of."""
    if not pairs:
        return None
    if len(pairs) > 1 or pairs[0][0] or len(pairs[0][1]) != 1:
        option = name.removesuffix("_s").removesuffix("_per")
        raise InvalidValue(option, pairs[-1][0] or len(pairs), "one number for one network", "NETWORK=N is of several")
    return pairs[0][1][0]
