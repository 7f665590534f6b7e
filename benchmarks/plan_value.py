"""What allocations are worth: Advisor's, equal shares, shares of work and linear-rate autoscalers, judged by execution.

    python benchmarks/plan_value.py [--networks 30] [--cores 16 32 64 128] [--jobs 2]

Random networks of all operators whose boxes have saturating, contended and rising curves (`random_networks`), each on
machines of several sizes. Advisor learns from a noisy stream of 400 runs a box; the others are told the truth
(`autoscalers`). Two questions:

1. The most throughput on all cores. Judged by the simulator on the true curves: a source that always has a next record,
   streams holding 64 records. The autoscaler counts with the setting at which it stays, and apart with the best of all
   settings on its way. `possible` is the optimum on the true curves, by exhaustion.
2. The fewest cores for a load of 70 % of the possible throughput: cores used, and whether the setting carries the load,
   by the rate of its slowest box on the true curves.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from autoscalers import Cores, Steps, autoscaled, best_possible, equal_shares, shares_of_work
from execution import simulate
from plan_prediction import STREAM_RECORDS, Learned, routing
from random_networks import Case, Floats, random_case, sketch

from advisor.errors import AdvisorError

RECORDS = 20_000
LOAD = 0.7
TIE = 0.01  # throughputs this near count as equal: the simulator's half widths are about that
LEVEL = 0.9
ADVISOR, POSSIBLE = "Advisor", "possible"
CAUTIOUS = f"Advisor, for the upper bound at level {LEVEL}"
AUTOSCALERS = {
    "autoscaler (DS2)": {"observed": False, "utilization": 1.0},
    "autoscaler, scaling observed (Flink)": {"observed": True, "utilization": 1.0},
}
BEST_STEP = ", best step"
BEFORE = ("equal shares", "shares of work", "autoscaler (DS2)")
FIRST_STEP = "autoscaler (DS2), first step"


@dataclass(frozen=True, slots=True)
class Value:
    """What one network brought.

    Attributes
    ----------
    throughput_per_s, rates_per_s, cores, changes : mappings
        By strategy: records per second in the simulator, the rate of the slowest box on the true curves, cores used,
        changes of cores until there.
    sized : mapping
        By strategy, for the load: (cores, changes, share of the load that is carried, settled).
    """

    seed: int
    machine: int
    throughput_per_s: dict[str, float]
    rates_per_s: dict[str, float]
    cores: dict[str, int]
    changes: dict[str, int]
    sized: dict[str, tuple[int, int, float, bool]]


def judge(seed: int, machine: int, records: int) -> Value:
    """Return the value of one network on a machine of so many cores; without records, by the slowest box's rate only."""
    case = random_case(seed, cores=machine)
    learned = Learned(case, seed)
    answer = learned.allocate(cores=case.cores, turns="never", **routing(case))
    settings: dict[str, Cores] = {
        ADVISOR: dict(answer.cores),
        POSSIBLE: best_possible(case),
        "equal shares": equal_shares(case),
        "shares of work": shares_of_work(case),
    }
    changes = dict.fromkeys(settings, 1)
    for name, options in AUTOSCALERS.items():
        steps = autoscaled(case, None, **options)
        settings[name] = _final(case, steps)
        if name == BEFORE[-1]:
            settings[FIRST_STEP] = steps.settings[min(1, steps.changes)]
            changes[FIRST_STEP] = min(1, steps.changes)
        settings[name + BEST_STEP] = max(steps.settings, key=lambda cores: _capacity(case, cores))
        changes[name] = steps.changes
        changes[name + BEST_STEP] = steps.settings.index(settings[name + BEST_STEP])
    found: dict[tuple[int, ...], float] = {}
    rates: dict[str, float] = {}
    for name, cores in settings.items():
        setting = tuple(cores[key] for key in case.network.keys)
        if setting not in found and not records:
            found[setting] = _capacity(case, cores)
        elif setting not in found:
            boxes = case.boxes(cores)
            found[setting] = simulate(
                case.network, boxes, case.flow, stream_records=STREAM_RECORDS, records=records, seed=seed
            ).throughput_per_s.mean
        rates[name] = found[setting]
    used = {name: sum(cores.values()) for name, cores in settings.items()}
    exact = {name: _capacity(case, cores) for name, cores in settings.items()}
    return Value(
        seed, machine, rates, exact, used, changes, _sized(case, learned, _capacity(case, settings[POSSIBLE]) * LOAD)
    )


def _final(case: Case, steps: Steps) -> Cores:
    """Return where an autoscaler stays; where it goes round, the best of the round's last two."""
    return steps.settings[-1] if steps.settled else max(steps.settings[-2:], key=lambda cores: _capacity(case, cores))


def _capacity(case: Case, cores: Cores) -> float:
    return case.capacity_per_s(case.boxes(cores))


def _sized(case: Case, learned: Learned, rate_per_s: float) -> dict[str, tuple[int, int, float, bool]]:
    """Return cores, changes, whether the load is carried, and whether it settled, by strategy."""
    found: dict[str, tuple[int, int, float, bool]] = {}

    def note(name: str, cores: Cores, changes: int, *, settled: bool) -> None:
        carried = _capacity(case, cores) / rate_per_s
        found[name] = (sum(cores.values()), changes, carried, settled)

    for name, options in {ADVISOR: {}, CAUTIOUS: {"level": LEVEL}}.items():
        try:
            target = {"throughput_per_s": rate_per_s}
            asked = {"objective": "fewest_cores", "target": target, "cores": case.cores} | options | routing(case)
            note(name, dict(learned.allocate(turns="never", **asked).cores), 1, settled=True)
        except AdvisorError:
            found[name] = (0, 0, 0.0, False)
    for name, options in AUTOSCALERS.items():
        steps = autoscaled(case, rate_per_s, **options)
        note(name, steps.settings[-1], steps.changes, settled=steps.settled)
    steps = autoscaled(case, rate_per_s, utilization=0.7)
    note("autoscaler at Flink's 70 % utilization", steps.settings[-1], steps.changes, settled=steps.settled)
    return found


def ratios(values: Sequence[Value], names: Sequence[str], *, exact: bool = False) -> Floats:
    """Return Advisor's throughput over the best of the named ones, by value."""
    rates = [value.rates_per_s if exact else value.throughput_per_s for value in values]
    return np.array([rate[ADVISOR] / max(rate[name] for name in names) for rate in rates])


def report(values: Sequence[Value]) -> None:
    """Print the tables."""
    machines = sorted({value.machine for value in values})
    sizes = {f"{machine} cores": [v for v in values if v.machine == machine] for machine in machines}
    head = [f"Advisor's throughput over that of | {' | '.join(sizes)} | least | by true rates: least"]
    head.append("better / equal / worse (1 %) | its cores | its changes")
    print(f"| {' | '.join(head)} |\n{'|---' * (len(sizes) + 6)}|")
    rows: dict[str, Sequence[str]] = {name: [name] for name in values[0].throughput_per_s if name != ADVISOR}
    rows |= {"the best of equal, work and DS2": BEFORE}
    for label, names in rows.items():
        cells = [f"{np.median(ratios(some, names)):.2f} x" for some in sizes.values()]
        least, exact = ratios(values, names).min(), ratios(values, names, exact=True)
        counts = [(exact > 1 + TIE).sum(), (np.abs(exact - 1) <= TIE).sum(), (exact < 1 - TIE).sum()]
        cells += [f"{least:.2f} x", f"{exact.min():.2f} x", " / ".join(map(str, counts))]
        if len(names) == 1:
            changes = [value.changes[names[0]] for value in values]
            cells.append(f"{np.mean([value.cores[names[0]] / value.machine for value in values]):.0%}")
            cells.append(f"{np.median(changes):.0f} (most {max(changes)})")
        else:
            cells += ["", ""]
        print(f"| {label} | {' | '.join(cells)} |")
    possible = [
        np.median([v.throughput_per_s[POSSIBLE] / max(v.throughput_per_s[n] for n in BEFORE) for v in some])
        for some in sizes.values()
    ]
    print(f"| (the possible over the best of the three) | {' | '.join(f'{x:.2f} x' for x in possible)} | | | | | |")
    mean = np.mean([value.cores[ADVISOR] / value.machine for value in values])
    print(f"\nMedians by machine. Advisor changes once and uses {mean:.0%} of the cores.\n")
    report_sizes(values)
    for value in sorted(values, key=lambda v: v.rates_per_s[ADVISOR] / v.rates_per_s[POSSIBLE])[:8]:
        rates = value.rates_per_s
        print(f"{value.seed:>4} on {value.machine}: {rates[ADVISOR] / rates[POSSIBLE]:.3f} of the possible, "
              f"{rates[ADVISOR] / max(rates[n] for n in BEFORE):.3f} of the best of three  "
              f"{sketch(random_case(value.seed).network)}")  # fmt: skip


def report_sizes(values: Sequence[Value]) -> None:
    """Print what a load takes."""
    reference = "autoscaler (DS2)"
    head = f"load of {LOAD:.0%} of the possible | load carried | least share of it | cores, of {reference}'s, median"
    print(f"| {head} | changes, median (most) | not settled |\n{'|---' * 6}|")
    for name in values[0].sized:
        sized = [value.sized[name] for value in values]
        cores = [s[0] / v.sized[reference][0] for s, v in zip(sized, values, strict=True) if s[0]]
        changes = [s[1] for s in sized]
        print(f"| {name} | {sum(s[2] >= 1 - TIE for s in sized)} of {len(sized)} | {min(s[2] for s in sized):.2f}"
              f" | {np.median(cores):.2f} x | {np.median(changes):.0f} ({max(changes)})"
              f" | {sum(not s[3] for s in sized)} |")  # fmt: skip
    print()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--networks", type=int, default=30)
    arguments.add_argument("--first", type=int, default=1000, help="seed of the first network")
    arguments.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments.add_argument("--cores", type=int, nargs="+", default=[16, 32, 64, 128])
    arguments.add_argument("--records", type=int, default=RECORDS, help="of each simulation; 0: judge by rates only")
    given = arguments.parse_args()
    start = time.perf_counter()
    with ProcessPoolExecutor(given.jobs) as pool:
        seeds = range(given.first, given.first + given.networks)
        work = [pool.submit(judge, seed, machine, given.records) for machine in given.cores for seed in seeds]
        values = [done.result() for done in work]
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
          f"{time.perf_counter() - start:.0f} s; {given.networks} networks\n")  # fmt: skip
    report(values)


if __name__ == "__main__":
    main()
