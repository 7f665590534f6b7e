"""The loop on S-Net's public runtimes: run, learn, allocate, obey, compare with all placements; and 16 simulated cores.

`python -m benchmarks.snet_loop SOURCES`, a folder with ``snet/build.sh``, with `--records 400`, `--seed 5` and `--rounds 7`.
Let nothing else run: a box that is interrupted looks slow. Or give it the share of a session of its own, as root:

    setsid -w sh -c 'echo -20 > /proc/self/autogroup; exec python -m benchmarks.snet_loop SOURCES'

Not a real-time priority: LPEL's workers then keep the thread that reads records from its processor, so that other placements
win. Prints, for the three programs there and two of ours, which no rule was made from, on two cores of the machine, the
throughput of what Advisor says over that of the best of all placements (LPEL) or of all numbers of workers and instances
(Front), beside the runtime's default and equal shares; and the same on 16 cores by a simulation of the measured runs.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any

from advisor.files.snet_runs import run_in

PROGRAMS = ("film", "pair", "tag")
OWN = ("relay", "route")
OURS = Path(__file__).parents[1] / "tests" / "support" / "snet"
NEAR = 6  # placements of the first round that are measured again, beside the advised and the usual ones
CORES = 2
SIMULATED = 16
PLACED_ON = r"""
#include <stdlib.h>
#include <string.h>
static int placed_on(const char *box, int location) { /* the worker of `box @ n`, as the text of the network has it */
  const char *all = getenv("PLACES");
  size_t length = strlen(box);
  for (const char *at = all; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : "")
    if (!strncmp(at, box, length) && at[length] == '=') return atoi(at + length + 1);
  return location;
}
enum {"""

Places = Mapping[str, int]
Job = Sequence[tuple[str, int | None, float]]  # of a record: each box that runs, its replica, and the seconds


@dataclass(frozen=True)
class Built:
    """The programs, and what they read."""

    sources: Path
    out: Path
    state: Path
    under: tuple[str, ...] = ()  # a command in front of the programs

    def snet(self, name: str) -> Path:
        """Return a file of a program's."""
        return (OURS if name.split(".", maxsplit=1)[0] in OWN else self.sources / "snet") / name

    def start(self, program: str, *arguments: str, places: Places | None = None, folder: Path | None = None) -> float:
        """Run a program; return its seconds."""
        environment = os.environ | {"PLACES": ",".join(f"{box}={worker}" for box, worker in (places or {}).items())}
        command = [*self.under, self.out / program, *arguments, "-i", self.out / "input.xml", "-o", os.devnull]
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, env=environment, cwd=folder)
        return time.perf_counter() - began

    def record(self, program: str, name: str, places: Places | None = None) -> Path:
        """Run a program on LPEL's workers with monitoring; return the folder of its logs."""
        logs = self.out / f"{program}-{name}"
        logs.mkdir()
        flags = ["-w", str(CORES), "-m", "A", *(["-dloc"] if places else [])]
        self.start(f"{program}-placed", *flags, places=places, folder=logs)
        return logs


def build(sources: Path, out: Path, records: int, seed: int, under: Sequence[str] = ()) -> Built:
    """Build the runtimes and the programs: for Front, and for LPEL with the placement that a run is given."""
    subprocess.run(["bash", sources / "snet" / "build.sh", sources, out], check=True, capture_output=True)
    built = Built(sources, out, out / "state", tuple(under))
    runtime, objects = out / "work" / "snet-rts", out / "work" / "objects"
    stream = runtime / "src" / "runtime" / "stream"
    folders = [OURS, *(stream / name for name in ("utils", "shared", "observer", "netif"))]
    folders += [runtime / "include", runtime / "src/distrib/common", runtime / "src/interfaces/c4snet"]
    defined = ["-D_GNU_SOURCE", "-DHAVE_SYNC_ATOMIC_BUILTINS=1", "-DHAVE___THREAD=1", "-DTLSSPEC=__thread"]
    flags = ["gcc", "-std=gnu99", "-O1", "-w", "-fcommon", *defined, *(f"-I{folder}" for folder in folders)]
    links = ["-Wl,-z,noexecstack", "-lpthread", "-lm", "-lrt"]

    def link(source: Path, target: str, *parts: str) -> None:
        found = [part for name in parts for part in sorted((objects / name).glob("*.o"))]
        subprocess.run([*flags, source, *found, "-o", out / target, *links], check=True, capture_output=True)

    for program in (*PROGRAMS, *OWN):
        text = built.snet(f"{program}.c").read_text()
        if program in OWN:
            link(built.snet(f"{program}.c"), f"{program}-front", "common-front", "front", "resource")
            text = text.replace('#include "boxes.h"', (OURS / "boxes.h").read_text())
        text = re.sub(
            r"SNetBox\((\w+), ?info, ?(\w+), ?(#?\w+|\"\w+\"),", r"SNetBox(\1, info, placed_on(\3, \2), \3,", text
        )
        (out / f"{program}.c").write_text(text.replace("enum {", PLACED_ON, 1))
        link(out / f"{program}.c", f"{program}-placed", "common-stream", "stream", "lpel")
    made = [sys.executable, sources / "snet" / "make_input.py", str(records), str(seed), "0.3"]
    (out / "input.xml").write_bytes(subprocess.run(made, check=True, capture_output=True).stdout)
    return built


def advisor(built: Built, *words: str | Path) -> dict[str, Any]:
    """Return what a command of Advisor's answers."""
    command = [sys.executable, "-m", "advisor.cli", *map(str, words), "--state", str(built.state), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def learn(built: Built, program: str) -> None:
    """Run a program with monitoring, and teach its logs under its name."""
    definition = ["--network", program, "--definition", built.snet(f"{program}.snet")]
    advisor(built, "learn", "--from", "snet", built.record(program, "learned"), *definition)


def jobs_of(built: Built, program: str, logs: Path) -> list[Job]:
    """Return the runs of each record of a recorded run, in the network's order."""
    numbers = {"": range(2**40)}  # the predictor of a run is the number of the record that entered
    run, order = run_in(logs, program, numbers)[0], advisor(built, "network", program)["keys"]
    jobs: dict[Any, list[tuple[str, int | None, float]]] = defaultdict(list)
    for row in run.rows(ended=True):
        jobs[row.predictor].append((row.component, row.more.get("replica"), row.elapsed_s))
    return [sorted(job, key=lambda run: order.index(run[0])) for job in jobs.values()]


def busiest_share(jobs: Sequence[Job], places: Places) -> float:
    """Return the work of the busiest worker in the best of all placements over that in this one."""
    work: dict[str, float] = defaultdict(float)
    for box, _, seconds in (run for job in jobs for run in job):
        work[box] += seconds

    def busiest(workers: Sequence[int]) -> float:
        return max(sum(s for s, on in zip(work.values(), workers, strict=True) if on == core) for core in range(CORES))

    return min(map(busiest, product(range(CORES), repeat=len(work)))) / busiest([places[box] for box in work])


def advised_places(built: Built, program: str) -> Places:
    """Return the worker of each box that Advisor's text for LPEL has."""
    text = advisor(built, "allocate", program, "--as", "lpel", "--cores", str(CORES))["network"]
    return {box: int(worker) for box, worker in re.findall(r"(\w+) @ (\d+)", text)}


def best_of(times: Mapping[Any, list[float]], ours: Any) -> float:
    """Return the throughput of ours over that of the best, by the least times: others of the machine only add."""
    least = {key: min(each) for key, each in times.items()}
    return min(least.values()) / least[ours]


def placements(built: Built, program: str, boxes: Sequence[str], rounds: int) -> dict[str, float]:
    """Return throughputs of LPEL on two workers over that of the best placement of boxes: ours, the default, equal shares."""
    ours, equal = advised_places(built, program), {box: place % CORES for place, box in enumerate(boxes)}
    every = [dict(zip(boxes, workers, strict=True)) for workers in product(range(CORES), repeat=len(boxes))]
    times: dict[str, list[float]] = defaultdict(list)

    def measure(places: Places | None) -> None:
        flags = ["-w", str(CORES), *(["-dloc"] if places else [])]
        times[json.dumps(places, sort_keys=True)].append(built.start(f"{program}-placed", *flags, places=places))

    for places in every:
        measure(places)
    near = sorted(times, key=lambda key: times[key][0])[:NEAR]
    again = [None, *[json.loads(key) for key in {*near, *(json.dumps(each, sort_keys=True) for each in (ours, equal))}]]
    for _ in range(rounds):
        for places in again:
            measure(places)
    measured = {key: each for key, each in times.items() if len(each) >= rounds}
    keys = {"advised": ours, "default": None, "equal": equal}
    return {name: best_of(measured, json.dumps(each, sort_keys=True)) for name, each in keys.items()}


def workers(built: Built, program: str, boxes: Sequence[str], rounds: int) -> dict[str, float]:
    """Return throughputs of Front over that of the best of its numbers of workers and instances."""
    ours = tuple(advisor(built, "allocate", program, "--as", "snet", "--cores", str(CORES))["arguments"])
    equal, default = ("-w", str(len(boxes)), "-c", "1"), ()
    many = [
        ("-w", str(count), "-c", each)
        for count in (1, 2, 3, 4)
        for each in ("1", "2", *(f"1 2:{box}" for box in boxes))
    ]
    times: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for arguments in {*many, ours, equal, default}:
        times[arguments].append(built.start(f"{program}-front", *arguments))
    near = {*sorted(times, key=lambda key: times[key][0])[:NEAR], ours, equal, default}
    for _ in range(rounds):
        for arguments in near:
            times[arguments].append(built.start(f"{program}-front", *arguments))
    measured = {key: times[key] for key in near}
    return {name: best_of(measured, key) for name, key in (("advised", ours), ("default", default), ("equal", equal))}


# -- 16 simulated cores


def simulate(jobs: Sequence[Job], instances: Mapping[str, int], pool: Mapping[str, int], cores: Sequence[int]) -> float:
    """Return the seconds of all records, which come at once: first come, first served; a replica serves one at a time.

    `pool`: which of the `cores` a box runs on; `instances`: how many of its runs go on at a time.
    """
    free, open_ = list(cores), dict(instances)
    queues: dict[tuple[str, int | None], deque[tuple[float, int]]] = defaultdict(deque)
    busy: set[tuple[str, int | None]] = set()  # replicas
    running: list[tuple[float, int, int]] = []  # end, job, stage
    now = 0.0
    for number in range(len(jobs)):
        queues[jobs[number][0][:2]].append((now, number))
    at = [0] * len(jobs)
    while True:
        ready = sorted((queue[0], key) for key, queue in queues.items() if queue)
        for _, key in ready:
            box, replica = key
            queue = queues[key]
            while queue and free[pool[box]] and open_[box] and key not in busy:
                _, number = queue.popleft()
                free[pool[box]] -= 1
                open_[box] -= 1
                if replica is not None:
                    busy.add(key)
                heapq.heappush(running, (now + jobs[number][at[number]][2], number, at[number]))
        if not running:
            return now
        now, number, stage = heapq.heappop(running)
        box, replica, _ = jobs[number][stage]
        free[pool[box]] += 1
        open_[box] += 1
        busy.discard((box, replica))
        at[number] += 1
        if at[number] < len(jobs[number]):
            queues[jobs[number][at[number]][:2]].append((now, number))


def on_16(built: Built, program: str, jobs: Sequence[Job], boxes: Sequence[str]) -> dict[str, float]:
    """Return simulated throughputs over that of the best of all numbers of instances, on cores of their own or shared."""
    work = {box: sum(run[2] for job in jobs for run in job if run[0] == box) for box in boxes}

    def alone(counts: Sequence[int]) -> float:
        return simulate(jobs, dict(zip(boxes, counts, strict=True)), {box: n for n, box in enumerate(boxes)}, counts)

    def bound(counts: Sequence[int]) -> float:
        return max(work[box] / count for box, count in zip(boxes, counts, strict=True))

    cuts = product(range(1, SIMULATED), repeat=len(boxes) - 1)
    splits = (pairwise((0, *cut, SIMULATED)) for cut in cuts if all(a < b for a, b in pairwise(cut)))
    shared = dict.fromkeys(boxes, 0)
    best = simulate(jobs, dict.fromkeys(boxes, SIMULATED), shared, [SIMULATED])
    for counts in sorted(([b - a for a, b in split] for split in splits), key=bound):
        if bound(counts) >= best:
            break
        best = min(best, alone(counts))
    found = advisor(built, "allocate", program, "--cores", str(SIMULATED))
    pools = {key: number for number, group in enumerate(found["groups"]) for key in group["components"]}
    for box in boxes:
        pools.setdefault(box, len(set(pools.values())))
    sizes = [group["cores"] for group in found["groups"]]
    sizes += [found["instances"][box] * found["cores"][box] for box in boxes if pools[box] >= len(found["groups"])]
    ours = simulate(jobs, found["instances"], pools, sizes)
    replicas = {box: len({run[1] for job in jobs for run in job if run[0] == box}) for box in boxes}
    depth = {box: max(sum(run[0] == box for run in job) for job in jobs) for box in boxes}
    default = simulate(jobs, {box: max(replicas[box], depth[box]) for box in boxes}, shared, [SIMULATED])
    equal = [SIMULATED // len(boxes) + (place < SIMULATED % len(boxes)) for place in range(len(boxes))]
    best = min(best, ours)
    return {"advised": best / ours, "default": best / default, "equal": best / alone(equal)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", type=Path)
    parser.add_argument("--records", type=int, default=400)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="*", default=[*PROGRAMS, *OWN])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        built = build(given.sources.resolve(), Path(folder), given.records, given.seed)
        for program in given.only:
            learn(built, program)
            boxes, places = advisor(built, "network", program)["keys"], advised_places(built, program)
            jobs = jobs_of(built, program, built.record(program, "obeyed", places))
            print(program, "places", places, f"{busiest_share(jobs, places):.3f} of the best work", flush=True)
            front = advisor(built, "allocate", program, "--as", "snet", "--cores", str(CORES))["arguments"]
            print(program, "arguments", shlex.join(front), flush=True)
            for what, found in (
                ("16 simulated", on_16(built, program, jobs, boxes)),
                ("lpel", placements(built, program, boxes, given.rounds)),
                ("front", workers(built, program, boxes, given.rounds)),
            ):
                print(program, what, " ".join(f"{name} {value:.3f}" for name, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
