"""What a scheduler gains by asking: replays of measured tables, and jobs that share one pool, against rules and other models.

    python benchmarks/pays.py FOLDER [--planted] [--jobs 60] [--streams 4] [--seed 1] [--loads .3,.5,.7,.9] [--picture pays.png]

FOLDER holds tables `NAME.csv` with the columns component, x, p and t (seconds). Only measured times are used. An input takes
part that ran on two counts or more. `--planted`: curves that are known instead, of work that is divided among cores and a cost
of each further one, fastest on a count in the middle, with 5 % noise.

Replay: each component runs `--jobs` jobs, one after the other, on inputs drawn from its own. A policy chooses among the counts
measured for that input; the run takes one of the times measured there, and is learned. A job's loss is the mean time at its
count over the least mean time; of `Advisor, core-seconds`, which minimises these, the core-seconds over the least. `cold`
begins with no rows: jobs 1 to 5, jobs from the 11th on, the worst component of these, and the regret, the sum of all losses
less one, in best runs. `after 10` begins with 10 rows at random counts. `changes`: from job 31 on, in 100 jobs, another count
than that of the last job of this input. Figures are geometric means over jobs, components and tables, but for regret and
changes, which are means; core-seconds are over those of the largest count. `best fixed count` is the one share of the largest
count that would have been best for the table.

Pool: 300 jobs of 12 components arrive at random on a pool of twice the largest count, after 10 rows a component. Load is the
arrival rate times the fewest core-seconds of a job over the cores. Figures are mean response times over those of
`P // waiting`, geometric means over tables and streams. Other models, and the true curves, use the rule of `choose_together`.

All models choose the fewest cores within 5 % of the fastest predicted, and begin on the same first count as Advisor.
"""

from __future__ import annotations

import argparse
import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from accuracy_protocol import read_table
from pays_policies import ALONE, BY_CORE_SECONDS, FIXED, POLICIES, Input, Policy, Share, inputs_of

from advisor.domain.vectors import Floats

ROWS, COMPONENTS, POOL_JOBS, WORK_S = 10, 12, 300, 100.0
EARLY, SETTLED, STEADY = 5, 10, 30  # jobs
PLANTED = 12
HINDSIGHT = "best fixed count"


def planted(seed: int) -> dict[str, list[Input]]:
    """Return the inputs of twelve components: T = x / p + p / fastest**2, at x = 1, 2 and 4; x = 1 is fastest on `fastest`."""
    rng, found = np.random.default_rng(seed), dict[str, list[Input]]()
    for number in range(PLANTED):
        counts = (32, 64, 128, 256, 512) if number % 2 else (1, 2, 4, 8, 16, 32, 64)
        fastest, name = counts[1 + number % 3], f"planted {number}"
        for x in (1.0, 2.0, 4.0):
            times = {p: (x / p + p / fastest**2) * rng.lognormal(-0.00125, 0.05, 8) for p in counts}
            means = {p: float(np.mean(each)) for p, each in times.items()}
            found.setdefault(name, []).append(Input(name, x, times, means))
    return found


# -- replay -------------------------------------------------------------------------------------------------------------------


def taught(policy: Policy, inputs: Sequence[Input], rng: np.random.Generator) -> None:
    """Teach `ROWS` runs at random inputs and counts."""
    for _ in range(ROWS):
        job = inputs[rng.integers(len(inputs))]
        count = job.counts[rng.integers(len(job.counts))]
        policy.learn(job, count, float(rng.choice(job.times[count])))


class Replayed(NamedTuple):
    """What one component's jobs were: losses (jobs,), core-seconds over those of the largest count (jobs,), changes."""

    loss: Floats
    spent: Floats
    changes: float

    @property
    def figures(self) -> dict[str, float]:
        """By name: means of logs, but for regret and changes."""
        late = self.loss[min(SETTLED, len(self.loss) - 1) :]
        return {
            "1-5": float(np.log(self.loss[:EARLY]).mean()), "11-": float(np.log(late).mean()),
            "worst": math.log(float(late.mean())), "regret": float((self.loss - 1.0).sum()),
            "core-s": float(np.log(self.spent).mean()), "changes": self.changes, "time": float(np.log(self.loss).mean()),
        }  # fmt: skip


def replayed(
    policy: Policy, inputs: Sequence[Input], jobs: int, seed: int, *, warm: bool, of_cores: bool = False
) -> Replayed:
    """Return what a policy made of a component's jobs; `of_cores`: losses are of core-seconds."""
    rng, found, changes, last = np.random.default_rng(seed), np.empty((2, jobs)), 0, dict[float, int]()
    if warm:
        taught(policy, inputs, rng)
    for i in range(jobs):
        job, luck = inputs[rng.integers(len(inputs))], rng.random()
        count, most = policy.count(job), max(job.counts)
        times = job.times[count]
        policy.learn(job, count, float(times[int(luck * len(times))]))
        costs = {p: t * (p if of_cores else 1) for p, t in job.means.items()}
        found[:, i] = costs[count] / min(costs.values()), count * job.means[count] / (most * job.means[most])
        changes += i >= STEADY and last.get(job.x, count) != count
        last[job.x] = count
    return Replayed(found[0], found[1], 100.0 * changes / max(jobs - STEADY, 1))


def replay_table(inputs: Mapping[str, list[Input]], jobs: int, seed: int, *, warm: bool) -> dict[str, dict[str, float]]:
    """Return a table's means by policy and figure; `P // waiting` has no meaning for one job at a time."""

    def over_components(make: Callable[[], Policy], *, of_cores: bool = False) -> dict[str, float]:
        each = [
            replayed(make(), own, jobs, seed + i, warm=warm, of_cores=of_cores).figures
            for i, own in enumerate(inputs.values())
        ]
        means = {key: float(np.mean([one[key] for one in each])) for key in each[0]}
        return means | {"worst": max(one["worst"] for one in each)}

    makes = {name: make for name, make in (POLICIES | ALONE).items() if name != "P // waiting"}
    found = {name: over_components(make, of_cores=name == BY_CORE_SECONDS) for name, make in makes.items()}
    fixed = [over_components(lambda share=share: Share(share)) for share in FIXED]
    return found | {HINDSIGHT: min(fixed, key=lambda each: each["time"])}


# -- pool ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stream:
    """Jobs of one pool: when they come, and for each count how long they take."""

    cores: int
    jobs: Sequence[tuple[float, Input, Mapping[int, float]]]
    rows: Mapping[str, list[Input]]


def stream_of(inputs: Mapping[str, list[Input]], names: Sequence[str], load: float, seed: int) -> Stream:
    """Return a stream of jobs; components are scaled to equal work."""
    rng, cores = np.random.default_rng(seed), 2 * max(max(job.counts) for own in inputs.values() for job in own)
    rows: dict[str, list[Input]] = {}
    for name in names:
        scale = WORK_S / float(np.mean([min(p * t for p, t in job.means.items()) for job in inputs[name]]))
        rows[name] = [
            Input(
                name, job.x, {p: t * scale for p, t in job.times.items()}, {p: t * scale for p, t in job.means.items()}
            )
            for job in inputs[name]
        ]
    jobs, now = list[tuple[float, Input, Mapping[int, float]]](), 0.0
    for _ in range(POOL_JOBS):
        own = rows[names[rng.integers(len(names))]]
        job = own[rng.integers(len(own))]
        jobs.append((now, job, {p: float(rng.choice(t)) for p, t in job.times.items()}))
        now += float(rng.exponential(WORK_S / (load * cores)))
    return Stream(cores, jobs, rows)


def pooled(policy: Policy, stream: Stream, seed: int) -> float:
    """Return the mean response time of a stream's jobs."""
    rng = np.random.default_rng(seed)
    for own in stream.rows.values():
        taught(policy, own, rng)
    running, ends, waiting = dict[int, int](), list[tuple[float, int]](), list[int]()
    coming, response = 0, list[float]()
    while coming < len(stream.jobs) or ends:
        arrival = stream.jobs[coming][0] if coming < len(stream.jobs) else math.inf
        now = min(arrival, ends[0][0] if ends else math.inf)
        while ends and ends[0][0] <= now:
            i = heapq.heappop(ends)[1]
            count = running.pop(i)
            policy.learn(stream.jobs[i][1], count, stream.jobs[i][2][count])
        while coming < len(stream.jobs) and stream.jobs[coming][0] <= now:
            waiting.append(coming)
            coming += 1
        free = stream.cores - sum(running.values())
        if not any(min(stream.jobs[i][1].counts) <= free for i in waiting):
            continue
        going = [(stream.jobs[i][1], count) for i, count in running.items()]
        given = policy.start([stream.jobs[i][1] for i in waiting], going, stream.cores)
        for i, count in zip(list(waiting), given, strict=True):
            if count:
                end = now + stream.jobs[i][2][count]
                running[i] = count
                heapq.heappush(ends, (end, i))
                response.append(end - stream.jobs[i][0])
                waiting.remove(i)
    return float(np.mean(response))


def pool_table(inputs: Mapping[str, list[Input]], load: float, streams: int, seed: int) -> Iterator[dict[str, float]]:
    """Yield for each stream the logs of mean response over that of `P // waiting`, by policy."""
    order = [sorted(inputs)[i] for i in np.random.default_rng(seed).permutation(len(inputs))]
    for number in range(streams):
        names = [order[(number * COMPONENTS + i) % len(order)] for i in range(min(COMPONENTS, len(order)))]
        stream = stream_of(inputs, names, load, seed + number)
        found = {name: pooled(make(), stream, seed) for name, make in POLICIES.items()}
        found[HINDSIGHT] = min(pooled(Share(share), stream, seed) for share in FIXED)
        yield {name: math.log(mean / found["P // waiting"]) for name, mean in found.items()}


# -- what is shown ------------------------------------------------------------------------------------------------------------


COLD = {
    "time 1-5": "1-5", "time 11-": "11-", "worst": "worst", "regret": "regret", "core-s": "core-s", "changes": "changes",
}  # fmt: skip
MEANS = ("regret", "changes")  # of plain numbers; the others are geometric


def measured(
    tables: Sequence[Mapping[str, list[Input]]], loads: Sequence[float], jobs: int, streams: int, seed: int
) -> dict[str, dict[str, float]]:
    """Return figures by policy and column."""
    columns: dict[str, dict[str, list[float]]] = {name: {} for name in (*POLICIES, *ALONE, HINDSIGHT)}
    for inputs in tables:
        for name, figures in replay_table(inputs, jobs, seed, warm=False).items():
            for column, key in COLD.items():
                columns[name].setdefault(column, []).append(figures[key])
        for name, figures in replay_table(inputs, jobs, seed, warm=True).items():
            columns[name].setdefault("time after 10", []).append(figures["time"])
        for load in loads:
            for found in pool_table(inputs, load, streams, seed):
                for name, value in found.items():
                    columns[name].setdefault(f"pool {load:g}", []).append(value)
    over = {"worst": np.max}
    return {
        name: {
            key: float(np.mean(each)) if key in MEANS else math.exp(over.get(key, np.mean)(each))
            for key, each in own.items()
        }
        for name, own in columns.items()
    }


def as_table(found: Mapping[str, Mapping[str, float]]) -> str:
    """Return the figures as a table of Markdown."""
    columns = list(dict.fromkeys(key for each in found.values() for key in each))
    lines = [f"| policy | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    for name, each in found.items():
        cells = (f"{each[key]:.2f}" if key in each else "–" for key in columns)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(found: Mapping[str, Mapping[str, float]], path: Path) -> None:
    """Draw two panels: the loss of the replays, and the pool over its load."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    from matplotlib.ticker import StrMethodFormatter  # noqa: PLC0415

    left, right = (figure := Figure((12, 4.2), layout="constrained")).subplots(1, 2)
    shown = {name: each for name, each in found.items() if "time after 10" in each}
    for offset, (column, label) in enumerate((("time 11-", "cold, from job 11 on"), ("time after 10", "after 10"))):
        lengths = [each[column] for each in shown.values()]
        left.barh(np.arange(len(shown)) + 0.4 * offset, lengths, 0.38, label=label)
    left.set_yticks(np.arange(len(shown)) + 0.2, list(shown))
    left.invert_yaxis()
    left.set(xlabel="time over the best count's", xscale="log", xlim=(1.0, None))
    left.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    left.xaxis.set_minor_formatter(StrMethodFormatter("{x:g}"))
    left.legend(fontsize="small")
    for name, each in found.items():
        loads = [key for key in each if key.startswith("pool ")]
        if loads:
            right.plot([float(key[5:]) for key in loads], [each[key] for key in loads], marker=".", label=name)
    right.set(xlabel="load of the pool", ylabel="mean response over P // waiting", yscale="log")
    right.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    right.yaxis.set_minor_formatter(StrMethodFormatter("{x:g}"))
    right.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(path)


def main() -> None:
    """Print the table, and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--tables", nargs="*", help="names of tables; absent: all of the folder with something to decide"
    )
    parser.add_argument("--planted", action="store_true", help="known curves in place of the tables")
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--loads", default=".3,.5,.7,.9")
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    read = {path.stem: read_table(path) for path in sorted(given.folder.glob("*.csv"))}
    tables = {name: inputs_of(table) for name, table in read.items() if not isinstance(table, str)}
    tables = {name: each for name, each in tables.items() if each and (not given.tables or name in given.tables)}
    if given.planted:
        tables = {"planted": planted(given.seed)}
    if not tables:
        raise SystemExit(f"{given.folder} has no table with an input that ran on two counts")
    print(f"tables: {', '.join(tables)}")
    loads = [float(load) for load in given.loads.split(",") if load]
    found = measured(list(tables.values()), loads, given.jobs, given.streams, given.seed)
    print(as_table(found))
    if given.picture:
        draw(found, given.picture)


if __name__ == "__main__":
    main()
