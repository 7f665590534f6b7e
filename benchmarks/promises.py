"""Promises of plans against known curves: what is stated with a probability of 0.9 or more, and how much of it holds.

    python benchmarks/promises.py [FOLDER] [--seed 1] [--networks 12] [--noise 0.05] [--only plans|reach]

Plans: pipelines of two or three components, learned from 100 noisy runs each on 1 core, on 1 and 2, or on 1, 2 and 4, are
planned on 16 cores. Each is asked for the highest throughput, for the same with no more cores than were seen, and for the
fewest cores that reach 0.5, 0.9 and 1.5 times the best throughput. Kinds of curves, in units of the time on one core:

- `amdahl`: 1 - a + a / p, half of them without any gain beyond 4 cores; `uniform`: the same with a uniform in 0 to 1;
- `contended`: 1 / p + p / f^2, fastest on f = 2 to 16 cores; `overhead`: 1 - a + a / p + b (p - 1), b from 0.002 to 0.1;
- `siblings`: a family, a within 0.05 of each other, with 24 more members that were seen on 1 to 16 cores;
- `measured`: inputs of the tables `NAME.csv` in FOLDER (component, x, p, t) that ran on 1, 2, 4 and 8 or more; their counts
  are what is allowed, and the truth is the mean.

`stated`: plans that state a probability of 0.9 or more, of those answered. `kept`: stated throughputs that the true curves
reach, to 2 %. `plan / best`: true throughput over the best of whole cores, geometric mean. `promised / true` is of the plans
within the counts seen.

Reach: the fewest cores are asked for a share of the throughput that is possible. First of any number of cores, where exact
curves of Amdahl's law were seen on 1, 2, 4 and 8; then of 16, where 10 to 100 noisy runs of each component were on 1 to 16.
`kept` are answers whose target the true curves reach, to 2 %.
"""

from __future__ import annotations

import argparse
import functools
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from accuracy_protocol import read_table
from pays_policies import inputs_of

from advisor import Advisor, Allocation
from advisor.errors import AdvisorError, ImpossibleTarget

CORES, ROWS, SIBLINGS = 16, 100, 24
SEEN = ((1,), (1, 2), (1, 2, 4))
SHARES = (0.5, 0.9, 1.5)  # of the best throughput
LEAST, SLACK = 0.9, 0.98  # of a stated probability; of a promise: what the noise of 100 rows may cost
STATED = re.compile(r"probability (?:of )?(\d+(?:\.\d+)?)")
NEEDED, MORE = (1, 2, 4), 8  # counts of a measured input


@dataclass(frozen=True)
class Curve:
    """A component's true time by cores, the times of single runs, and its counts; None: every count."""

    seconds: Callable[[int], float]
    runs: Callable[[int, np.random.Generator], float]
    counts: tuple[int, ...] | None = None

    def fastest(self, cores: int) -> float:
        """Return the shortest time on at most so many cores."""
        return min(self.seconds(p) for p in (self.counts or range(1, cores + 1)) if p <= cores)


Kinds = dict[str, Callable[[np.random.Generator, int], list[Curve]]]


def kinds_of(noise: float) -> Kinds:
    """Return what draws the curves of a network's components, by kind."""

    def curves(rng: np.random.Generator, n: int, shape: Callable[[], Callable[[int], float]]) -> list[Curve]:
        found = list[Curve]()
        for _ in range(n):
            scale, law = float(rng.uniform(0.05, 1.0)), shape()
            found.append(
                Curve(
                    lambda p, scale=scale, law=law: scale * law(p),
                    lambda p, luck, scale=scale, law=law: (
                        scale * law(p) * float(luck.lognormal(-noise * noise / 2, noise))
                    ),
                )
            )
        return found

    def amdahl(a: float, limit: int = 1 << 20) -> Callable[[int], float]:
        return lambda p: 1 - a + a / min(p, limit)

    def contended(f: float) -> Callable[[int], float]:
        return lambda p: 1 / p + p / f**2

    def overhead(a: float, b: float) -> Callable[[int], float]:
        return lambda p: 1 - a + a / p + b * (p - 1)

    def planted(rng: np.random.Generator, n: int) -> list[Curve]:
        return curves(
            rng, n, lambda: amdahl(float(rng.choice([0.0, 0.5, 0.8, 0.95, 0.99])), int(rng.choice([4, 1 << 20])))
        )

    def family(rng: np.random.Generator, n: int) -> list[Curve]:
        middle = rng.uniform(0.3, 0.95)
        return curves(rng, n + SIBLINGS, lambda: amdahl(float(np.clip(middle + rng.uniform(-0.05, 0.05), 0.0, 1.0))))

    return {
        "amdahl": planted,
        "uniform": lambda rng, n: curves(rng, n, lambda: amdahl(float(rng.uniform(0.0, 1.0)))),
        "contended": lambda rng, n: curves(rng, n, lambda: contended(2.0 * 8.0 ** float(rng.uniform()))),
        "overhead": lambda rng, n: curves(
            rng, n, lambda: overhead(float(rng.uniform(0.5, 1.0)), 0.002 * 50.0 ** float(rng.uniform()))
        ),
        "siblings": family,
    }


def measured(folder: Path) -> Kinds:
    """Return what draws inputs of a folder's tables: those that ran on all counts that are taught and on more."""
    curves = list[Curve]()
    for path in sorted(folder.glob("*.csv")):
        table = read_table(path)
        for inputs in () if isinstance(table, str) else inputs_of(table).values():
            for one in inputs:
                if set(NEEDED) <= set(one.counts) and max(one.counts) >= MORE:
                    curves.append(
                        Curve(
                            lambda p, means=one.means: means[p],
                            lambda p, luck, times=one.times: float(luck.choice(times[p])),
                            tuple(p for p in one.counts if p <= CORES),
                        )
                    )
    return {"measured": lambda rng, n: [curves[i] for i in rng.choice(len(curves), n)]} if curves else {}


class Reported(NamedTuple):
    """One plan: what it states with LEAST or more, what is true of it, the best, and whether its counts were seen."""

    stated: tuple[float, ...]
    promised: float
    true: float
    best: float
    within: bool
    free: bool  # nothing but the cores limits it


@dataclass
class Group:
    """All plans of a kind and of the counts that were seen."""

    plans: list[Reported] = field(default_factory=list[Reported])

    def row(self) -> str:
        """Return a line of the table."""
        kept = [one.true >= SLACK * value for one in self.plans for value in one.stated]
        free = np.array([one.true / one.best for one in self.plans if one.free])
        near = np.array([one.promised / one.true for one in self.plans if one.within])
        close = f"{geometric(near):.2f}" if len(near) else "–"
        stated = np.mean([bool(one.stated) for one in self.plans])
        return f"{len(self.plans)} | {stated:.2f} | {np.mean(kept or [1]):.3f} | {geometric(free):.3f} | {close}"


def geometric(values: np.ndarray) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.log(values).mean()))


def taught(curves: Sequence[Curve], n: int, seen: Sequence[int], rng: np.random.Generator) -> Advisor:
    """Return an engine that saw n components on these counts, and all others on every count."""
    advisor = Advisor()
    for i, curve in enumerate(curves):
        counts = seen if i < n else range(1, CORES + 1)
        for p in rng.choice(list(counts), ROWS):
            advisor.observe(f"c{i}", predictor=1.0, cores=int(p), elapsed_s=curve.runs(int(p), rng))
    return advisor


def best_rate(curves: Sequence[Curve]) -> float:
    """Return the highest throughput with cores of its own for each: the next core goes to the slowest."""
    cores = [1] * len(curves)
    found = 0.0
    while sum(cores) <= CORES:
        times = [curve.fastest(p) for curve, p in zip(curves, cores, strict=True)]
        found = max(found, 1 / max(times))
        cores[int(np.argmax(times))] += 1
    return found


def told_of(plan: Allocation, curves: Sequence[Curve], seen: Sequence[int], best: float, *, free: bool) -> Reported:
    """Return what a plan states and what is true of it."""
    cores = [plan.cores[key] for key in plan.instances]
    true = 1 / max(curve.seconds(p) for curve, p in zip(curves, cores, strict=True))
    stated = list[float]()
    for reason in plan.why:
        if reason.code == "level":
            chances = [float(said) ** len(cores) for said in STATED.findall(reason.text)]
            stated += [plan.throughput_per_s for chance in chances if chance >= LEAST]
    return Reported(tuple(stated), plan.throughput_per_s, true, best, max(cores) <= max(seen), free)


def plans(curves: Sequence[Curve], n: int, seen: Sequence[int], rng: np.random.Generator) -> Iterator[Reported]:
    """Give the plans of one network."""
    advisor, names, own = taught(curves, n, seen, rng), [f"c{i}" for i in range(n)], curves[:n]
    best = best_rate(own)
    allowed = {name: list(curve.counts) for name, curve in zip(names, own, strict=True) if curve.counts}
    base: dict[str, Any] = {"cores": CORES, "turns": "never"} | ({"allowed": allowed} if allowed else {})
    asked: list[dict[str, Any]] = [{}, {"maximum": dict.fromkeys(names, max(seen))}]
    asked += [{"objective": "fewest_cores", "target": {"throughput_per_s": share * best}} for share in SHARES]
    for number, question in enumerate(asked):
        try:
            plan = advisor.allocate(" .. ".join(names), **base, **question)
        except AdvisorError:
            continue
        yield told_of(plan, own, seen, best, free=number == 0)


def table_of_plans(kinds: Kinds, seed: int, networks: int) -> list[str]:
    """Return the table of stated against kept promises."""
    rows = [
        "| curves | seen on | plans | stated | kept | plan / best | promised / true |",
        "|---|---|---|---|---|---|---|",
    ]
    whole = Group()
    for place, (kind, draw) in enumerate(kinds.items()):
        for at, seen in enumerate(SEEN):
            group, rng = Group(), np.random.default_rng((seed, place, at))
            for number in range(networks):
                n = 2 + number % 2
                group.plans += plans(draw(rng, n), n, seen, rng)
            rows.append(f"| {kind} | {', '.join(map(str, seen))} | {group.row()} |")
            whole.plans += group.plans
    return [*rows, f"| all | | {whole.row()} |"]


# -- the fewest cores for a throughput ----------------------------------------------------------------------------------------

REACHES = (0.3, 0.5, 0.7, 0.9, 0.98, 1.1, 1.5, 3.0, 30.0)  # of what is possible
OUTCOMES = ("answered", "kept", "not_reached", "impossible", "reachable, but impossible")


def asked_for_fewest(seed: int, *, beyond: bool, noise: float) -> tuple[Advisor, list[Curve], float, int | None]:
    """Return a network that was learned, its curves, the highest throughput possible, and the cores that there are."""
    rng = np.random.default_rng(seed)
    n = 1 + int(rng.integers(3))
    advisor, curves, ends = Advisor(), list[Curve](), list[float]()
    for i in range(n):
        serial, work = float(rng.uniform(0.01, 0.3)), float(rng.uniform(0.05, 1.0))
        law = functools.partial(lambda p, serial, work: work * (serial + (1 - serial) / p), serial=serial, work=work)
        curves.append(Curve(law, lambda p, _, law=law: law(p)))
        ends.append(serial * work)
        counts = [1, 2, 4, 8] * 10 if beyond else rng.integers(1, CORES + 1, int(rng.integers(10, 101))).tolist()
        for p in counts:
            luck = 1.0 if beyond else float(rng.lognormal(-noise * noise / 2, noise))
            advisor.observe(f"c{i}", cores=p, elapsed_s=law(p) * luck)
    return (advisor, curves, 1 / max(ends), None) if beyond else (advisor, curves, best_rate(curves), CORES)


def outcomes(seed: int, networks: int, noise: float, *, beyond: bool) -> list[str]:
    """Return the table of what was answered, by the share of what is possible that was asked for."""
    found: defaultdict[float, defaultdict[str, float]] = defaultdict(lambda: defaultdict(int))
    for number in range(networks):
        advisor, curves, possible, cores = asked_for_fewest(seed * networks + number, beyond=beyond, noise=noise)
        names = [f"c{i}" for i in range(len(curves))]
        for share in REACHES:
            reported, target = found[share], share * possible
            asked: dict[str, Any] = {"objective": "fewest_cores", "target": {"throughput_per_s": target}}
            try:
                plan = advisor.allocate(" .. ".join(names), cores=cores, turns="never", **asked)
            except AdvisorError as error:
                reported[error.code] += 1
                reported[OUTCOMES[-1]] += isinstance(error, ImpossibleTarget) and share < 1
                continue
            true = 1 / max(curve.seconds(plan.cores[name]) for name, curve in zip(names, curves, strict=True))
            reported["answered"] += 1
            reported["kept"] += true >= SLACK * target
            reported["most"] = max(reported["most"], plan.cores_used)
    rows = [f"| target / possible | {' | '.join(OUTCOMES)} | most cores |", f"|---{'|---' * (len(OUTCOMES) + 1)}|"]
    return rows + [
        f"| {share} | {' | '.join(str(found[share][name]) for name in OUTCOMES)} | {found[share]['most']} |"
        for share in REACHES
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--networks", type=int, default=12)
    parser.add_argument("--noise", type=float, default=0.05)
    parser.add_argument("--only", choices=("plans", "reach"))
    given = parser.parse_args()
    if given.only != "reach":
        kinds = kinds_of(given.noise) | (measured(given.folder) if given.folder else {})
        print("\n".join(table_of_plans(kinds, given.seed, given.networks)), flush=True)
    if given.only != "plans":
        for beyond in (True, False):
            print("\n".join(["", *outcomes(given.seed, given.networks, given.noise, beyond=beyond)]))


if __name__ == "__main__":
    main()
