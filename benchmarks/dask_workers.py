"""How many workers `AdvisedAdaptive` asks for, against the fewest of hindsight, on planted work; no real time.

    python benchmarks/dask_workers.py [--seeds 0 20]

Batches, bursts and streams of tasks of one to four prefixes, whose seconds grow with their sizes; 20 % noise, 2 % stragglers
of three times; workers of one to four threads that start after 1 to 4 s; a machine that becomes twice as fast or slow at the
second burst. The plugin learns from a real Advisor while tasks end, and is asked each second. Hindsight is the fewest
workers, started when a burst comes, by which 99 % of its tasks end within the target. Judged are the looks of the first two
fifths of a target; of a stream, which a constant number serves, those of its middle. A flap is a rise within a target after a
fall, without a burst.
"""

from __future__ import annotations

import argparse
import heapq
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from advisor import Advisor
from advisor.adapters.dask import plugin as module

LASTS = 5  # times its own length, that a stream goes on for hindsight: at its end less would do
LATE = 0.01  # of a burst's tasks, that hindsight allows: the last stragglers, which nobody foresees
Burst = tuple[float, list[tuple[str, float, float]]]  # when, and prefix, size and seconds of each task


@dataclass
class World:
    """One case; all is drawn from its seed."""

    kind: str
    seed: int
    bursts: list[Burst] = field(default_factory=list[Burst])
    warm: list[tuple[str, float, float]] = field(default_factory=list[tuple[str, float, float]])

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng([self.seed, sum(map(ord, self.kind))])
        self.target_s, self.threads = self.rng.uniform(20, 60), int(self.rng.choice([1, 1, 2, 4]))
        self.start_s = self.rng.uniform(1, 4)
        self.laws = {
            f"p{i}": (self.rng.uniform(0.02, 0.2), self.rng.uniform(0.5, 1.2), self.rng.uniform(0.5, 3.0))
            for i in range(self.rng.integers(1, 5))
        }
        self.warm = self.tasks(60 * len(self.laws), 1.0)
        speed = {"twice as fast": 0.5, "twice as slow": 2.0}.get(self.kind, 1.0)
        count = {"batch": 1, "stream": 0}.get(self.kind, 4)
        for i in range(count):
            # Work for 3 to 25 workers.
            work = self.rng.uniform(3, 25) * self.target_s * self.threads
            each = np.mean([seconds for *_, seconds in self.warm])
            self.bursts.append((1.3 * i * self.target_s, self.tasks(int(work / each), speed if i else 1.0)))
        if not count:
            a_second = self.rng.uniform(3, 15) * self.threads / np.mean([seconds for *_, seconds in self.warm])
            for t in range(int(4 * self.target_s)):
                self.bursts.append((float(t), self.tasks(int(self.rng.poisson(a_second)), 1.0)))

    def tasks(self, n: int, speed: float) -> list[tuple[str, float, float]]:
        """Sizes of two decades; the largest takes `most` of some seconds."""
        found: list[tuple[str, float, float]] = []
        for _ in range(n):
            name = str(self.rng.choice(list(self.laws)))
            least, power, most = self.laws[name]
            size = float(10 ** self.rng.uniform(4, 6))
            seconds = (least + most * (size / 1e6) ** power) * math.exp(0.2 * self.rng.standard_normal())
            found.append((name, size, speed * seconds * (3.0 if self.rng.random() < 0.02 else 1.0)))
        return found

    def hindsight(self, burst: Burst) -> int:
        """The fewest workers that end a burst in time, which start when it comes."""
        within = self.target_s - self.start_s

        def late(n: int) -> bool:
            ends, late = [0.0] * (n * self.threads), 0
            for *_, seconds in burst[1]:
                late += ends[0] + seconds > within
                heapq.heapreplace(ends, ends[0] + seconds)
            return late > LATE * len(burst[1])

        return next((n for n in range(1, 400) if not late(n)), 400)


class Run:
    """A plugin in a scheduler of attributes, whose clock is the run's."""

    def __init__(self, world: World, plugin: Any) -> None:
        self.world, self.plugin, self.now = world, plugin, 0.0
        clock: Any = SimpleNamespace(monotonic=lambda: self.now, time=lambda: self.now)
        module.time = clock
        self.queued: dict[str, Any] = {}
        self.prefixes = {
            name: SimpleNamespace(name=name, duration_average=-1.0, states=dict.fromkeys(module.WAITING, 0))
            for name in world.laws
        }
        self.scheduler: Any = SimpleNamespace(
            tasks={}, workers={}, queued=self, unrunnable=[], task_prefixes=self.prefixes
        )
        self.advisor = Advisor()
        self.plugin._scheduler, self.plugin._client = self.scheduler, self
        self.targets: list[tuple[float, int]] = []
        self.late: list[float] = []

    def __iter__(self) -> Iterator[Any]:
        return iter(self.queued.values())

    def observe(self, name: str, size: float, cores: int, seconds: float, ok: bool) -> None:
        self.advisor.observe(name, predictor=size, cores=cores, elapsed_s=seconds, ok=ok)

    def predict(self, name: str, sizes: list[float], cores: int) -> Any:
        return self.advisor.predict(name, predictor=sizes, cores=cores)

    def come(self, key: str, task: tuple[str, float, float]) -> None:
        name, size, _ = task
        needs = [SimpleNamespace(nbytes=size, key="d")]
        ts = SimpleNamespace(key=key, prefix=self.prefixes[name], dependencies=needs, dependents=(), annotations=None)
        self.scheduler.tasks[key] = self.queued[key] = ts
        self.prefixes[name].states["queued"] += 1
        self.plugin.transition(key, "released", "waiting")

    def begin(self, key: str) -> None:
        ts = self.queued.pop(key)
        ts.prefix.states["queued"] -= 1
        self.plugin.transition(key, "queued", "processing")

    def end(self, key: str, seconds: float) -> None:
        told = [{"action": "compute", "start": self.now - seconds, "stop": self.now}]
        self.plugin.transition(key, "processing", "memory", startstops=told, worker="w", thread=1)
        del self.scheduler.tasks[key]

    def tick(self) -> None:
        self.plugin._gathered()
        for known in self.plugin._prefixes.values():
            if known.due:
                sizes = known.question()
                known.learn(sizes, self.plugin._ask(known.name, sizes))

    def ask(self) -> int:
        """Drive the coroutine, which waits for nothing."""
        try:
            self.plugin.advised_target(self.world.target_s).send(None)
        except StopIteration as done:
            return int(done.value)
        raise AssertionError

    def workers(self, n: int) -> None:
        each = SimpleNamespace(nthreads=self.world.threads, memory_limit=0, nbytes=0)
        self.scheduler.workers = dict.fromkeys(map(str, range(n)), each)

    def run(self) -> None:
        world = self.world
        self.workers(1)
        self.ask()
        self.workers(0)
        for i, task in enumerate(world.warm):
            self.come(f"w{i}", task)
            self.begin(f"w{i}")
            self.end(f"w{i}", task[2])
            if not i % 5:
                self.tick()
        bursts, i = deque(world.bursts), 0
        true: dict[str, tuple[float, float]] = {}
        busy: list[tuple[float, str]] = []
        starting: list[float] = []
        have, told, look = 0, 0, 0.0
        while bursts or busy or self.queued:
            self.now = min([look, *([bursts[0][0]] if bursts else []), *([busy[0][0]] if busy else []), *starting[:1]])
            while bursts and bursts[0][0] <= self.now:
                for task in bursts.popleft()[1]:
                    true[f"t{i}"] = task[2], self.now
                    self.come(f"t{i}", task)
                    i += 1
            while busy and busy[0][0] <= self.now:
                _, key = heapq.heappop(busy)
                seconds, came = true.pop(key)
                self.end(key, seconds)
                self.late.append((self.now - came) / world.target_s - 1.0)
            while starting and starting[0] <= self.now:
                starting.pop(0)
                have += 1
            if look <= self.now:
                if not round(2 * look) % 2:
                    told = self.ask()
                    self.targets.append((self.now, told))
                    starting += [self.now + world.start_s] * (told - have - len(starting))
                    del starting[max(told - have, 0) :]
                    have = min(have, told)
                self.tick()
                look += 0.5
            self.workers(have)
            while self.queued and len(busy) < have * world.threads:
                key = next(iter(self.queued))
                self.begin(key)
                heapq.heappush(busy, (self.now + true[key][0], key))

    def judged(self) -> dict[str, float]:
        world = self.world
        if world.kind == "stream":  # a constant number, that serves all that comes
            middle = [n for at, n in self.targets if world.target_s < at < 3.5 * world.target_s]
            best = fewest_constant(world)
            off = [n - best for n in middle]
        else:
            off = []
            for when, tasks in world.bursts:
                best = world.hindsight((when, tasks))
                off += [n - best for at, n in self.targets if when <= at < when + 0.4 * world.target_s]
        flaps, fell = 0, -math.inf
        arrivals = {math.ceil(when) for when, _ in world.bursts} if world.kind != "stream" else set()
        for (_, before), (at, after) in zip(self.targets, self.targets[1:], strict=False):
            if after < before:
                fell = at
            elif after > before and at - fell < world.target_s and not any(fell <= when <= at for when in arrivals):
                flaps += 1
        return {
            "within 1": float(np.mean(np.abs(off) <= 1)), "off": float(np.mean(np.abs(off))),
            "over": max(off), "under": min(off), "flaps": flaps,
            "late": float(np.mean([each > 0 for each in self.late])), "latest": max(self.late),
        }  # fmt: skip


def fewest_constant(world: World) -> int:
    """The fewest workers, there from the start, by which tasks of a stream that lasts end within the target of their coming."""
    lasts = world.bursts[-1][0] + 1.0
    again = [(when + k * lasts, tasks) for k in range(LASTS) for when, tasks in world.bursts]

    def late(n: int) -> bool:
        ends, late = [0.0] * (n * world.threads), 0
        for when, tasks in again:
            for *_, seconds in tasks:
                end = max(ends[0], when) + seconds
                heapq.heapreplace(ends, end)
                late += end > when + world.target_s
        return late > LATE * LASTS * sum(len(tasks) for _, tasks in world.bursts)

    return next((n for n in range(1, 400) if not late(n)), 400)


KINDS = ("batch", "bursts", "stream", "twice as fast", "twice as slow")
RULES: dict[str, Any] = {"advised": module.AdvisorPlugin}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 20))
    parser.add_argument("--rules", nargs="*", default=list(RULES))
    asked = parser.parse_args()
    for kind in KINDS:
        for name in asked.rules:
            found: list[dict[str, float]] = []
            for seed in range(*asked.seeds):
                run = Run(World(kind, seed), RULES[name]("/nowhere"))
                run.run()
                found.append(run.judged())
            of = {key: np.array([each[key] for each in found]) for key in found[0]}
            print(
                f"{kind:14s} {name:10s} within 1: {of['within 1'].mean():.0%}, off by {of['off'].mean():.2f}, "
                f"{of['under'].min():+.0f} to {of['over'].max():+.0f}; flaps {of['flaps'].mean():.1f}; "
                f"late {of['late'].mean():.1%} of tasks, the last by {np.median(of['latest']):.0%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
