"""What a loop of questions and runs loses that may explore, and one that may not: regret on planted machines and on tables.

    python benchmarks/exploring.py [--tables ../data] [--seeds 2] [--runs 100]

A component begins unknown. Each run draws an input, asks `choose_cores` with its defaults and a budget, runs (a table: one of
the times measured at the nearest measured count) and reports the row. Regret is the mean time at the count taken over the
least, less 1: over all runs, exploring ones among them, and over the last 30. Budgets are in mean least times of the component;
`charged` is what rows charged of them, `lost` what exploring runs truly took longer on the mean than the count that was chosen
otherwise; `median` is of the last 30.
Planted machines have T = x (a + (1 - a)(1/p + p/b^2)), b the best count, and runs with 10 % noise.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from accuracy_decisions import Case, cases, nearest
from accuracy_protocol import read_table

from advisor import Advisor

BUDGETS = (0.0, 5.0, 20.0)
MACHINES = 30
Draw = Callable[[Case, int], float]  # a case and a place among its counts -> the time of one run


def planted(seed: int) -> Iterator[tuple[list[Case], Draw]]:
    """Yield machines: their inputs, and how to run one."""
    rng = np.random.default_rng(seed)
    for _ in range(MACHINES):
        best, share, most = int(rng.choice([3, 4, 6, 8, 12, 24])), rng.uniform(0, 0.1), int(rng.choice([16, 32, 64]))
        counts = np.arange(1.0, most + 1.0)
        shape = share + (1.0 - share) * (1.0 / counts + counts / best**2)
        inputs = [Case(float(x), counts, 1e-2 * x * shape) for x in rng.uniform(100, 1000, 50)]
        yield inputs, lambda case, place, rng=rng: float(case.times[place] * rng.lognormal(0, 0.1))


def recorded(path: Path, seed: int) -> Iterator[tuple[list[Case], Draw]]:
    """Yield the components of a table that have something to decide."""
    table, rng = read_table(path), np.random.default_rng(seed)
    if isinstance(table, str):
        raise SystemExit(table)
    for number in range(len(table.names)):
        own = np.flatnonzero(table.component == number)

        def draw(case: Case, place: int, own: np.ndarray = own) -> float:
            there = own[(table.x[own] == case.x) & (table.p[own] == case.counts[place])]
            return float(table.t[rng.choice(there)])

        if inputs := cases(table, number):
            yield inputs, draw


def loop(inputs: list[Case], draw: Draw, budget: float, runs: int, seed: int) -> tuple[float, float, float, float]:
    """Return the regret of all runs, of the last 30, and what was charged and lost in mean least times."""
    rng, advisor, regret = np.random.default_rng(seed), Advisor(), np.empty(runs)
    scale, charged, lost = float(np.mean([case.times.min() for case in inputs])), 0.0, 0.0
    for i in range(runs):
        case = inputs[rng.integers(len(inputs))]
        asked = {"predictor": case.x, "cores_max": int(case.counts[-1]), "prior": True}
        choice = advisor.choose_cores("c", explore=budget * scale, **asked)
        place = nearest(case, choice.cores)
        if choice.exploring:
            charged += choice.at_risk_s / scale
            lost += (
                float(case.times[place] - case.times[nearest(case, advisor.choose_cores("c", **asked).cores)]) / scale
            )
        elapsed_s, cores = draw(case, place), float(case.counts[place])
        advisor.observe("c", predictor=case.x, cores=cores, elapsed_s=elapsed_s, at_risk_s=choice.at_risk_s)
        regret[i] = case.times[place] / case.times.min() - 1.0
    return float(regret.mean()), float(regret[-30:].mean()), charged, lost


def main() -> None:
    """Print one line a set and budget: means over components."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--runs", type=int, default=100)
    options = parser.parse_args()
    files = sorted(options.tables.glob("*.csv")) if options.tables else []
    print(f"{'':14}{'budget':>8}{'regret %':>10}{'last 30':>9}{'median':>8}{'charged':>9}{'lost':>7}{'components':>12}")
    for name, source in [
        ("planted", planted),
        *((file.stem, lambda seed, file=file: recorded(file, seed)) for file in files),
    ]:
        for budget in BUDGETS:
            found = np.array([
                loop(inputs, draw, budget, options.runs, seed)
                for seed in range(1, options.seeds + 1) for inputs, draw in source(seed)
            ])  # fmt: skip
            if len(found):
                mean, last, charged, lost = found.mean(axis=0)
                median = 100 * float(np.median(found[:, 1]))
                told = f"{100 * mean:10.1f}{100 * last:9.1f}{median:8.1f}{charged:9.2f}{lost:7.2f}{len(found):12d}"
                print(f"{name:14}{budget:8.0f}{told}", flush=True)


if __name__ == "__main__":
    main()
