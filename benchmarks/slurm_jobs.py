"""Does advice pay on a real Slurm? The same jobs arrive three times: with users' counts, with the largest, with none.

    python slurm_jobs.py --table TABLE.csv [--jobs 200] [--seed 1] [--span 200] [--load 0.7] [--policies users,maximum,advised]

TABLE has the columns component,x,p,t. A job name is a component with one of its inputs that ran on several counts. Its jobs
sleep the times measured on their count, scaled so that `span` seconds of arrivals make `load` of 64 CPUs, counted in the
fewest core-seconds of each job; they hold some megabytes of memory meanwhile. Users choose one of a name's counts at random,
once a name. With none, `advisor slurm` begins without a row, learns from sacct and advises by the plugin. Prints makespan and
mean response, and the jobs that did not complete.
"""

from __future__ import annotations

import argparse
import collections
import csv
import os
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import slurm_cluster

NAMES = 12
COUNTS = (1, 2, 4, 8, 16, 32)
SCRIPT = """#!/bin/bash
declare -A seconds=({times})
exec perl -e '$x = "a" x ({megabytes} * 1e6); select(undef, undef, undef, $ARGV[0])' ${{seconds[$SLURM_CPUS_PER_TASK]}}
"""


class Job(NamedTuple):
    """A job of a name, when it arrives, and its time by count."""

    name: str
    arrival_s: float
    seconds: dict[int, float]
    megabytes: int


def draw_jobs(path: Path, rng: np.random.Generator, jobs: int, span_s: float, load: float) -> list[Job]:
    """Return the jobs in order of arrival."""
    found: dict[tuple[str, str], dict[int, list[float]]] = collections.defaultdict(
        lambda: collections.defaultdict(list)
    )
    with path.open() as file:
        for row in csv.DictReader(file):
            if float(row["p"]) in COUNTS:
                found[row["component"], row["x"]][int(float(row["p"]))].append(float(row["t"]))
    inputs = [times for _, times in sorted(found.items()) if len(times) >= 3]
    chosen = [inputs[i] for i in rng.permutation(len(inputs))[:NAMES]]
    fewest = [min(p * float(np.mean(t)) for p, t in times.items()) for times in chosen]
    work = load * span_s * slurm_cluster.CPUS / jobs  # core-seconds of a job, in the mean
    megabytes = rng.integers(5, 60, NAMES)
    arrivals = np.sort(rng.uniform(0.0, span_s, jobs))
    made = []
    for arrival in arrivals:
        i = int(rng.integers(len(chosen)))
        seconds = {p: work / fewest[i] * float(rng.choice(t)) for p, t in chosen[i].items()}
        made.append(Job(f"name{i}", float(arrival), _on_all(seconds), int(megabytes[i])))
    return made


def _on_all(seconds: dict[int, float]) -> dict[int, float]:
    """Return times on all counts: between measured ones by a line in logarithms, beyond them as at the end."""
    known = sorted(seconds)
    logs = np.interp(np.log(COUNTS), np.log(known), np.log([seconds[p] for p in known]))
    return {p: max(float(np.exp(t)), 1.0) for p, t in zip(COUNTS, logs, strict=True)}


def submit(jobs: list[Job], environment: dict[str, str], counts: dict[str, int] | None) -> None:
    """Submit each job when it arrives; wait until none is left."""
    start = time.monotonic()
    for job in jobs:
        time.sleep(max(0.0, start + job.arrival_s - time.monotonic()))
        times = " ".join(f"[{p}]={t:.2f}" for p, t in job.seconds.items())
        script = SCRIPT.format(times=times, megabytes=job.megabytes)
        given = [] if counts is None else [f"--cpus-per-task={counts[job.name]}"]
        command = ["sbatch", "-J", job.name, "-o", "/dev/null", *given]
        subprocess.run(command, input=script.encode(), env=environment, check=True, capture_output=True)
    while subprocess.run(["squeue", "-h"], env=environment, check=True, capture_output=True).stdout.strip():
        time.sleep(1.0)


def outcome(environment: dict[str, str]) -> dict[str, float]:
    """Return makespan and mean response in seconds, and how many jobs did not complete."""
    time.sleep(5.0)  # until the database has the last end
    command = ["sacct", "-a", "-n", "-P", "-X", "--format=Submit,End,State,AllocCPUS"]
    rows = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.split()
    parts = [row.split("|") for row in rows]
    submitted, ended = ([datetime.fromisoformat(part[at]).timestamp() for part in parts] for at in (0, 1))
    return {
        "jobs": len(parts),
        "makespan": max(ended) - min(submitted),
        "response": float(np.mean(np.subtract(ended, submitted))),
        "not completed": sum(part[2] != "COMPLETED" for part in parts),
    }


def replay(policy: str, jobs: list[Job], rng: np.random.Generator) -> dict[str, float]:
    """Run the jobs on a new cluster under a policy."""
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        advised = policy == "advised"
        with slurm_cluster.cluster(at, advice=at / "advice.lua" if advised else None) as environment:
            counts = None
            if policy == "users":
                counts = {name: int(rng.choice(COUNTS)) for name in sorted({job.name for job in jobs})}
            elif policy == "maximum":
                counts = {job.name: max(COUNTS) for job in jobs}
            loop = None
            if advised:
                command = [sys.executable, "-m", "advisor", "slurm", "--advice", str(at / "advice.lua"), "--every", "2"]
                command += ["--allowed", ",".join(map(str, COUNTS)), "--state", str(at / "advisor.state")]
                with (at / "loop.out").open("wb") as out:
                    loop = subprocess.Popen(command, env=environment, stdout=out, stderr=out)
                while not (at / "advice.lua").exists():
                    if loop.poll() is not None:
                        sys.exit((at / "loop.out").read_text())
                    time.sleep(0.1)
            submit(jobs, dict(environment), counts)
            if loop is not None:
                loop.terminate()
                loop.wait()
            return outcome(dict(environment))


def main() -> None:
    """Print a line a policy."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--span", type=float, default=200.0)
    parser.add_argument("--load", type=float, default=0.7)
    parser.add_argument("--policies", default="users,maximum,advised")
    given = parser.parse_args()
    if missing := slurm_cluster.missing():
        sys.exit(f"not here: {', '.join(missing)}")
    jobs = draw_jobs(given.table, np.random.default_rng(given.seed), given.jobs, given.span, given.load)
    os.environ.setdefault("LC_ALL", "C")
    for policy in given.policies.split(","):
        found = replay(policy, jobs, np.random.default_rng([given.seed, 1]))
        print(f"{policy:10}" + ", ".join(f"{key} {value:.1f}" for key, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
