"""What a scheduler gains by asking: replays of measured tables, and jobs that share one pool, against rules and other models.

    python benchmarks/pays.py FOLDER [--jobs 60] [--streams 4] [--seed 1] [--loads .3,.5,.7,.9] [--picture pays.png]

FOLDER holds tables `NAME.csv` with the columns component, x, p and t (seconds). Only measured times are used. An input takes
part that ran on two counts or more.

Replay: each component runs `--jobs` jobs, one after the other, on inputs drawn from its own. A policy chooses among the counts
measured for that input; the run takes one of the times measured there, and is learned. A job's loss is the mean time at its
count over the least mean time. `cold` begins with no rows, `after 10` with 10 rows at random counts. Figures are geometric
means over jobs, components and tables; core-seconds are over those of the largest count. `best fixed count` is the one share
of the largest count that would have been best for the table.

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
from typing import Any, Protocol

import numpy as np
from accuracy_peers import Ernest, LogForm, NearestCell
from accuracy_protocol import Table, read_table

from advisor import Advisor
from advisor.domain.allowed_cores import parse_allowed
from advisor.planning.job_pool import JobCurve, PoolJob, share_pool

TOLERANCE = 0.05
ROWS, COMPONENTS, POOL_JOBS, WORK_S = 10, 12, 300, 100.0
FIXED = tuple(2.0**-k for k in range(7))  # shares of the largest count
MODELS: Mapping[str, Callable[[], Any]] = {
    "log-quadratic": lambda: LogForm(quadratic=True), "nearest neighbour": NearestCell,
    "Ernest's features": lambda: Ernest(relative=True),
}  # fmt: skip


@dataclass(frozen=True)
class Input:
    """An input of a component: by count, the measured times, and their means."""

    component: str
    x: float
    times: Mapping[int, np.ndarray]
    means: Mapping[int, float]

    @property
    def counts(self) -> list[int]:
        return list(self.means)


def inputs_of(table: Table) -> dict[str, list[Input]]:
    """Return the inputs of each component that were measured on two counts or more."""
    found: dict[str, list[Input]] = {}
    for number, name in enumerate(table.names):
        rows = np.flatnonzero(table.component == number)
        for x in np.unique(table.x[rows]):
            at = rows[table.x[rows] == x]
            times = {int(p): table.t[at[table.p[at] == p]] for p in np.unique(table.p[at])}
            if len(times) > 1:
                means = {p: float(np.mean(each)) for p, each in times.items()}
                found.setdefault(str(name), []).append(Input(str(name), float(x), times, means))
    return found


# -- who chooses --------------------------------------------------------------------------------------------------------------


class Policy(Protocol):
    """Chooses a count for one job, or for the jobs of a pool, and learns what ran."""

    def count(self, job: Input) -> int: ...

    def learn(self, job: Input, count: int, elapsed_s: float) -> None: ...

    def start(self, waiting: Sequence[Input], running: Sequence[tuple[Input, int]], cores: int) -> list[int]: ...


class Share:
    """The largest allowed count within a share of the largest, or in a pool within `cap(cores, waiting)`; first come first."""

    def __init__(self, share: float, cap: Callable[[int, int], float] | None = None) -> None:
        self.share, self.cap = share, cap

    def count(self, job: Input) -> int:
        return self._within(job, self.share * max(job.counts))

    def learn(self, job: Input, count: int, elapsed_s: float) -> None:
        """Learns nothing."""

    def start(self, waiting: Sequence[Input], running: Sequence[tuple[Input, int]], cores: int) -> list[int]:
        free, given = cores - sum(count for _, count in running), [0] * len(waiting)
        for i, job in enumerate(waiting):
            left = len(waiting) - sum(map(bool, given))
            count = self._within(job, self.cap(cores, left)) if self.cap else self.count(job)
            if count <= free:
                given[i], free = count, free - count
            elif self.cap is None:
                break
        return given

    def _within(self, job: Input, most: float) -> int:
        return max((p for p in job.counts if p <= most), default=min(job.counts))


class Modelled:
    """Times from a model of each component, or where there is none, the true means; the rules are ours."""

    def __init__(self, make: Callable[[], Any] | None) -> None:
        self.make, self.known = make, dict[str, Any]()

    def learn(self, job: Input, count: int, elapsed_s: float) -> None:
        if self.make is not None:
            self.known.setdefault(job.component, self.make()).learn(job.x, count, elapsed_s)

    def times(self, job: Input) -> dict[int, float] | None:
        """Return predicted seconds by count; None where nothing was learned."""
        if self.make is None:
            return dict(job.means)
        model = self.known.get(job.component)
        return None if model is None else {p: max(float(model.predict(job.x, p)), 1e-9) for p in job.counts}

    def count(self, job: Input) -> int:
        times = self.times(job)
        if times is None:
            return first_count(job.counts)
        return min(p for p, t in times.items() if t <= min(times.values()) * (1.0 + TOLERANCE))

    def start(self, waiting: Sequence[Input], running: Sequence[tuple[Input, int]], cores: int) -> list[int]:
        jobs = [PoolJob(lambda: JobCurve(*[np.zeros(0)] * 3), count, cores_now=count) for _, count in running]
        for job in waiting:
            times = self.times(job) or {p: p**-0.5 for p in job.counts if p <= first_count(job.counts)}
            curve = JobCurve(np.array(list(times)), np.array(list(times.values())), np.array(list(times.values())))
            jobs.append(PoolJob(lambda curve=curve: curve, min(times)))
        return [each.cores for each in share_pool(jobs, cores)][len(running) :]


class Asking:
    """Advisor itself."""

    def __init__(self) -> None:
        self.advisor, self.known = Advisor(), set[str]()

    def learn(self, job: Input, count: int, elapsed_s: float) -> None:
        self.known.add(job.component)
        self.advisor.observe(job.component, predictor=job.x, cores=count, elapsed_s=elapsed_s)

    def count(self, job: Input) -> int:
        if job.component not in self.known:
            return first_count(job.counts)
        chosen = self.advisor.choose_cores(job.component, predictor=job.x, cores_max=max(job.counts)).cores
        return parse_allowed("counts", job.counts).nearest(chosen)

    def start(self, waiting: Sequence[Input], running: Sequence[tuple[Input, int]], cores: int) -> list[int]:
        jobs = [{"id": i, "component": job.component, "cores_now": count} for i, (job, count) in enumerate(running)]
        jobs += [
            {"id": len(running) + i, "component": job.component, "predictor": job.x, "allowed": job.counts}
            for i, job in enumerate(waiting)
        ]
        return [each.cores for each in self.advisor.choose_together(jobs, cores).jobs][len(running) :]


def first_count(counts: Sequence[int]) -> int:
    """Return where Advisor begins: the count nearest the least times (most / least)^(3/4)."""
    least, most = min(counts), max(counts)
    return parse_allowed("counts", list(counts)).nearest(least * (most / least) ** 0.75)


POLICIES: Mapping[str, Callable[[], Policy]] = {
    "always the largest": lambda: Share(1.0), "one core": lambda: Share(0.0),
    "P // waiting": lambda: Share(1.0, lambda cores, waiting: cores // waiting),
    **{name: (lambda make=make: Modelled(make)) for name, make in MODELS.items()},
    "Advisor": Asking, "true curves": lambda: Modelled(None),
}  # fmt: skip
HINDSIGHT = "best fixed count"


# -- replay -------------------------------------------------------------------------------------------------------------------


def taught(policy: Policy, inputs: Sequence[Input], rng: np.random.Generator) -> None:
    """Teach `ROWS` runs at random inputs and counts."""
    for _ in range(ROWS):
        job = inputs[rng.integers(len(inputs))]
        count = job.counts[rng.integers(len(job.counts))]
        policy.learn(job, count, float(rng.choice(job.times[count])))


def replayed(policy: Policy, inputs: Sequence[Input], jobs: int, seed: int, *, warm: bool) -> tuple[float, float]:
    """Return the mean log of time over the least, and of core-seconds over those of the largest count."""
    rng, found = np.random.default_rng(seed), np.empty((jobs, 2))
    if warm:
        taught(policy, inputs, rng)
    for i in range(jobs):
        job, luck = inputs[rng.integers(len(inputs))], rng.random()
        count, most = policy.count(job), max(job.counts)
        times = job.times[count]
        policy.learn(job, count, float(times[int(luck * len(times))]))
        spent = count * job.means[count] / (most * job.means[most])
        found[i] = math.log(job.means[count] / min(job.means.values())), math.log(spent)
    return tuple(found.mean(axis=0).tolist())


def replay_table(
    inputs: Mapping[str, list[Input]], jobs: int, seed: int, *, warm: bool
) -> dict[str, tuple[float, ...]]:
    """Return the mean logs of a table by policy; `P // waiting` has no meaning for one job at a time."""

    def over_components(make: Callable[[], Policy]) -> tuple[float, ...]:
        each = [replayed(make(), own, jobs, seed + i, warm=warm) for i, own in enumerate(inputs.values())]
        return tuple(np.mean(each, axis=0).tolist())

    found = {name: over_components(make) for name, make in POLICIES.items() if name != "P // waiting"}
    return found | {HINDSIGHT: min(over_components(lambda share=share: Share(share)) for share in FIXED)}


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


def measured(
    tables: Sequence[Mapping[str, list[Input]]], loads: Sequence[float], jobs: int, streams: int, seed: int
) -> dict[str, dict[str, float]]:
    """Return figures by policy and column: geometric means."""
    logs: dict[str, dict[str, list[float]]] = {name: {} for name in (*POLICIES, HINDSIGHT)}
    for inputs in tables:
        for start, warm in (("cold", False), ("after 10", True)):
            for name, (loss, spent) in replay_table(inputs, jobs, seed, warm=warm).items():
                logs[name].setdefault(f"time {start}", []).append(loss)
                logs[name].setdefault(f"core-s {start}", []).append(spent)
        for load in loads:
            for found in pool_table(inputs, load, streams, seed):
                for name, value in found.items():
                    logs[name].setdefault(f"pool {load:g}", []).append(value)
    return {name: {key: math.exp(np.mean(each)) for key, each in columns.items()} for name, columns in logs.items()}


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
    shown = {name: each for name, each in found.items() if "time cold" in each}
    for offset, start in enumerate(("cold", "after 10")):
        lengths = [each[f"time {start}"] for each in shown.values()]
        left.barh(np.arange(len(shown)) + 0.4 * offset, lengths, 0.38, label=start)
    left.set_yticks(np.arange(len(shown)) + 0.2, list(shown))
    left.invert_yaxis()
    left.set(xlabel="time over the best count's", xscale="log")
    left.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    left.xaxis.set_minor_formatter(StrMethodFormatter("{x:g}"))
    left.legend(fontsize="small")
    for name, each in found.items():
        loads = [key for key in each if key.startswith("pool ")]
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
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--loads", default=".3,.5,.7,.9")
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    read = {path.stem: read_table(path) for path in sorted(given.folder.glob("*.csv"))}
    tables = {name: inputs_of(table) for name, table in read.items() if not isinstance(table, str)}
    tables = {name: each for name, each in tables.items() if each and (not given.tables or name in given.tables)}
    if not tables:
        raise SystemExit(f"{given.folder} has no table with an input that ran on two counts")
    print(f"tables: {', '.join(tables)}")
    loads = [float(load) for load in given.loads.split(",")]
    found = measured(list(tables.values()), loads, given.jobs, given.streams, given.seed)
    print(as_table(found))
    if given.picture:
        draw(found, given.picture)


if __name__ == "__main__":
    main()
