"""The best grouping for a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from advisor.errors import ImpossibleTarget, Unsupported
from advisor.planning.asked.demand import TIE
from advisor.planning.closed_forms.reasons import plural
from advisor.planning.closed_forms.sharing import best_grouping, fewest_grouping, fewest_one_group, one_group
from advisor.planning.closed_forms.tables import gap_of
from advisor.planning.closed_forms.turns import Grouping, period_bound
from advisor.planning.in_turns.asking import Asked


@dataclass(frozen=True, slots=True)
class Solved:
    """A grouping, and how far from the best it can be: 0 where it is proved, None where nothing is known."""

    found: Grouping
    gap: float | None


def solved(asked: Asked) -> Solved:
    """Return the best grouping.

    Raises
    ------
    ImpossibleTarget
        When no grouping reaches the target: proved.
    Unsupported
        When a target for many components was neither reached nor proved impossible.
    """
    return SOLVERS[asked.request.objective, asked.target[0]](asked)


def _throughput(asked: Asked) -> Solved:
    found = best_grouping(asked.demand, asked.cores)
    if found.exact:
        return Solved(found, 0.0)
    return Solved(found, gap_of(found.period_s, period_bound(asked.demand, asked.cores), of_throughput=True))


def _latency(asked: Asked) -> Solved:
    return Solved(one_group(asked.demand, asked.cores), 0.0)


def _cores_for_throughput(asked: Asked) -> Solved:
    demand, (name, period) = asked.demand, asked.target
    bound = period_bound(demand, asked.cores)
    found, reached = fewest_grouping(demand, asked.cores, period)
    if reached:
        return Solved(found, 0.0 if found.exact else None)
    row, best = int(found.slowest_members()[0]), 1 / found.period_s
    if found.exact or bound > period * (1 + TIE):
        most = best if found.exact else 1 / bound
        raise _impossible(
            asked, row, most,
            f"{len(demand)} components in turn on {plural(asked.cores, 'core')} reach at most {most:.6g}"
            f" records/s; {asked.network.keys[row]} is in the slowest group",
        )  # fmt: skip
    raise Unsupported(
        f"target {name} {1 / period:.6g} is not decided: the best sharing found reaches {best:.6g}"
        f" records/s, the bound is {1 / bound:.6g}", field="target", value=1 / period, bound=best,
        hint="give more cores, or a target that is reached",
    )  # fmt: skip


def _cores_for_latency(asked: Asked) -> Solved:
    found, reached = fewest_one_group(asked.demand, asked.cores, asked.target[1])
    if reached:
        return Solved(found, 0.0)
    row = int(found.stay_s.argmax())
    raise _impossible(
        asked, row, found.latency_s,
        f"all components in turn on {plural(asked.cores, 'core')} take {found.latency_s:.6g} s in sum;"
        f" {asked.network.keys[row]} takes most",
    )  # fmt: skip


def _impossible(asked: Asked, row: int, best: float, because: str) -> ImpossibleTarget:
    """Return the error: the component that forbids the target, and the best that can be reached."""
    name, seconds = asked.target
    value = 1 / seconds if name == "throughput_per_s" else seconds
    return ImpossibleTarget(
        f"target {name} {value:.6g} is impossible: {because}",
        field=asked.network.keys[row], value=value, bound=best, hint="raise cores or maximum, or ask for less",
    )  # fmt: skip


# (objective, target) -> how it is solved.
SOLVERS: Mapping[tuple[str, str], Callable[[Asked], Solved]] = {
    ("throughput", ""): _throughput,
    ("latency", ""): _latency,
    ("fewest_cores", "throughput_per_s"): _cores_for_throughput,
    ("fewest_cores", "latency_s"): _cores_for_latency,
}
