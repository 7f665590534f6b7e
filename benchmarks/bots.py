"""Papers 3 and 4 on real runs: nine programs of the Barcelona OpenMP Tasks Suite, recorded, predicted and simulated.

    python benchmarks/bots.py SOURCES [--runs 3] [--threads 1 2] [--save RUNS.csv] [--programs fib sort …]
    python benchmarks/bots.py --load RUNS.csv

SOURCES is a checkout of the suite (github.com/bsc-pm/bots), or a folder with its archive `bots.tar.gz`; nothing of it is part
of the project. Needs clang and libomp. Each program is compiled with its cut-off, and runs at each size and number of threads,
once without the tool and once recorded, in a random order. Printed are

- the processor time of the recorded runs over that of the plain ones, and the mean work of a task;
- paper 4: the recording of the fastest run at one thread, simulated on the most threads, against the runs there;
- paper 3: |predicted - actual| / actual of the elapsed time, median over the runs held out: of one size after the other
  (`inside`), and of the largest size, learned from the smaller ones (`beyond`).

A run takes what the machine gives it: with other load beside it errs more. Two cores say nothing of many: delays, waiting for
work and crowding at 16 or 36 threads are not seen.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from programs import direct_predictions, learned, load_runs, row_of, save_runs

from advisor.adapters.openmp import tool_library
from advisor.files.events import read_events
from advisor.models.program_model import NAME
from advisor.profile import layout as at
from advisor.profile.profiler import Profiler
from advisor.profile.recorded import graph_of_events
from advisor.profile.tree import Profile
from advisor.profile.view import profile_of
from advisor.profile.whole_run import run_of
from advisor.simulation import Program, simulate

QUIET = {"OMP_STACKSIZE": "16M", "OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}
TIME = re.compile(r"Time Program\s*= ([\d.]+)")


@dataclass(frozen=True)
class Suite:
    """A program: the folder of its sources, whether it has a manual cut-off, its sizes, and the options of a size."""

    folder: str
    cut_off: bool
    transform: str
    sizes: tuple[int, ...]
    options: Callable[[Path, int], list[str]]


def health_input(sources: Path, days: int) -> list[str]:
    """Return the options of the test input with so many days."""
    words = (sources / "inputs/health/test.input").read_text().split()
    words[3] = str(days)
    path = sources / f"inputs/health/{days}.days"
    path.write_text(" ".join(words) + "\n")
    return ["-f", str(path), "-x", "2"]


def alignment_input(sources: Path, count: int) -> list[str]:
    """Return the options of the first proteins of the larger input."""
    proteins = (sources / "inputs/alignment/prot.100.aa").read_text().split("\n>")[1 : count + 1]
    path = sources / f"inputs/alignment/{count}.aa"
    path.write_text(f"Number of sequences is {count}\n" + "".join(f"\n>{each}" for each in proteins) + "\n")
    return ["-f", str(path)]


PROGRAMS: dict[str, Suite] = {
    "alignment": Suite("alignment/alignment_single", False, "n", (6, 8, 10, 12, 15, 18), alignment_input),
    "fft": Suite("fft", False, "n", tuple(2**k for k in range(14, 20)), lambda _, n: ["-n", str(n)]),
    "fib": Suite("fib", True, "2^n", tuple(range(28, 39, 2)), lambda _, n: ["-n", str(n), "-x", "12"]),
    "floorplan": Suite("floorplan", True, "n", (5, 15), lambda top, n: ["-f", f"{top}/inputs/floorplan/input.{n}", "-x", "5"]),
    "health": Suite("health", True, "n", (20, 30, 45, 65, 90, 130), health_input),
    "nqueens": Suite("nqueens", True, "2^n", tuple(range(8, 13)), lambda _, n: ["-n", str(n), "-x", "3"]),
    "sort": Suite("sort", False, "n", tuple(2**k for k in range(16, 23)), lambda _, n: ["-n", str(n)]),
    "sparselu": Suite(
        "sparselu/sparselu_single", False, "n", (10, 14, 18, 24, 30, 36), lambda _, n: ["-n", str(n), "-m", "40"]
    ),
    "strassen": Suite("strassen", True, "n", (128, 256, 512, 1024), lambda _, n: ["-n", str(n), "-x", "3"]),
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """A recorded run; `plain_s`, `plain_cpu_s` of the same without the tool. Seconds, but for the counts."""

    program: str
    size: int
    workers: int
    elapsed_s: float
    work_s: float
    delay_s: float
    no_work_s: float
    creates: float
    waits: float
    span_s: float
    cpu_s: float
    plain_s: float
    plain_cpu_s: float
    simulated_s: float


def compiled(sources: Path, name: str) -> Path:
    """Compile a program."""
    suite, target = PROGRAMS[name], sources / "bin" / name
    target.parent.mkdir(exist_ok=True)
    folder = sources / "omp-tasks" / suite.folder
    cut_off = ["-DMANUAL_CUTOFF"] if suite.cut_off else []
    files = [*map(str, (sources / "common").glob("bots_*.c")), *map(str, folder.glob("*.c"))]
    options = ["-fopenmp", "-O2", "-g", "-w", *cut_off, f"-I{sources}/common", f"-I{folder}"]
    subprocess.run(["clang", *options, *files, "-lm", "-o", str(target)], check=True)
    return target


def ran(command: list[str], threads: int, settings: dict[str, str]) -> tuple[float, float]:
    """Run a program; return the seconds that it prints, and its processor time."""
    before = os.times()
    done = subprocess.run(
        command, env={**os.environ, **QUIET, "OMP_NUM_THREADS": str(threads), **settings},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    after = os.times()
    found = TIME.search(done.stdout)
    assert found is not None, done.stdout
    return float(found[1]), after.children_user + after.children_system - before.children_user - before.children_system


def recorded(
    sources: Path, name: str, threads: Sequence[int], runs: int, rng: np.random.Generator, under: list[str]
) -> list[Run]:
    """Return the runs of a program; the fastest one of the largest size at one thread is simulated."""
    suite, program = PROGRAMS[name], compiled(sources, name)
    path, best = sources / f"{name}.events", sources / f"{name}.best.events"
    plan = [(size, p) for size in suite.sizes for p in threads] * runs
    found = list[Run]()
    for number in rng.permutation(len(plan)):
        size, p = plan[number]
        command = [*under, str(program), *suite.options(sources, size)]
        plain_s, plain_cpu_s = ran(command, p, {"OMP_TOOL": "disabled"})
        settings = {
            "OMP_TOOL": "enabled", "OMP_TOOL_LIBRARIES": str(tool_library()), "ADVISOR_OPENMP_MODE": "full",
            "ADVISOR_OPENMP_FILE": str(path), "ADVISOR_OPENMP_BUFFER": str(2**20),
        }  # fmt: skip
        _, cpu_s = ran(command, p, settings)
        profiler = Profiler()
        for batch in read_events(path):
            profiler.fold_batch(batch)
        profiler.flush()
        profile = profile_of(profiler)
        assert {*profile.notes} <= {"clock_drift_ns", "events_squeezed"}, profile.notes
        parts = region_run(profile, name)
        same = [run.elapsed_s for run in found if (run.size, run.workers) == (size, 1)]
        if p == 1 and size == suite.sizes[-1] and parts["elapsed_s"] < min(same, default=float("inf")):
            path.replace(best)
        found.append(
            Run(name, size, **parts, cpu_s=cpu_s, plain_s=plain_s, plain_cpu_s=plain_cpu_s, simulated_s=float("nan"))
        )
    simulated_s = region_seconds(best, max(threads))
    return [replace(run, simulated_s=simulated_s) for run in found]


def region_run(profile: Profile, name: str) -> dict[str, Any]:
    """Return what paper 3 needs of a run, without what its first thread does before and after its parallel region."""
    found = run_of(profile)
    alone = [
        node for node in range(len(profile))
        if profile.role[node] == at.THREAD or (profile.role[node] == at.REGION and profile.label(node) == name)
    ]  # fmt: skip
    outside_s = float(profile.exclusive_ns[alone].sum()) / 1e9
    elapsed_s = found["elapsed_s"] - outside_s
    return found | {
        "elapsed_s": elapsed_s, "work_s": found["work_s"] - outside_s,
        "span_s": min(found["span_s"] - outside_s, elapsed_s),
        "no_work_s": max(0.0, found["no_work_s"] - (found["workers"] - 1) * outside_s),
    }  # fmt: skip


def region_seconds(path: Path, cores: int) -> float:
    """Return the seconds of the parallel region as simulated on so many cores."""
    graph = graph_of_events(read_events(path))
    own = [task for task, name in enumerate(graph.names) if name.startswith("thread 0, ")]
    outside_s = float(graph.ticks[[own[0], own[-1]]].sum()) / 1e9
    return simulate(Program(graph), cores, "fifo").makespan / 1e9 - outside_s


# -- what is shown ------------------------------------------------------------------------------------------------------------


def held_out(name: str, runs: Sequence[Run]) -> Iterator[tuple[str, list[Run], list[Run]]]:
    """Yield where the runs held out lie, those to learn from, and those held out."""
    sizes = PROGRAMS[name].sizes
    for size in sizes[1:-1]:
        yield "inside", [run for run in runs if run.size != size], [run for run in runs if run.size == size]
    if len(sizes) > 2:
        yield "beyond", [run for run in runs if run.size < sizes[-1]], [run for run in runs if run.size == sizes[-1]]


def errors_of(name: str, runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    """Return the median errors of each form, by where the runs held out lie."""
    suite, found = PROGRAMS[name], dict[str, dict[str, list[float]]]()
    for where, train, test in held_out(name, runs):
        model = learned(suite, train)
        fits = model.fits()
        predicted: dict[str, Any] = {
            NAME: [model.predict(fits, row_of(run, suite).size, run.workers, 0.9).elapsed_s for run in test]
        }
        predicted |= direct_predictions(suite, train, test)
        for form, values in predicted.items():
            errors = [abs(value - run.elapsed_s) / run.elapsed_s for value, run in zip(values, test, strict=True)]
            found.setdefault(where, {}).setdefault(form, []).extend(errors)
    return {where: {form: float(np.median(each)) for form, each in forms.items()} for where, forms in found.items()}


def show(runs: Sequence[Run]) -> None:
    """Print the figures."""
    names = list(dict.fromkeys(run.program for run in runs))
    most = max(run.workers for run in runs)
    print(f"program      runs  us a task  CPU recorded/plain  simulated on {most} from 1, largest size")
    for name in names:
        own = [run for run in runs if run.program == name]
        large = [run for run in own if run.size == PROGRAMS[name].sizes[-1]]
        task_us = np.median([1e6 * run.work_s / max(run.creates, 1.0) for run in own])
        cpu = sum(run.cpu_s for run in own) / sum(run.plain_cpu_s for run in own)
        many = min(run.elapsed_s for run in large if run.workers == most)
        print(f"{name:12} {len(own):4}  {task_us:9.1f}  {cpu:18.2f}  {large[0].simulated_s / many - 1.0:+.1%}")
    for where in ("inside", "beyond"):
        print(f"\nsizes held out {where}: median |predicted - actual| / actual")
        table = {name: errors_of(name, [run for run in runs if run.program == name]).get(where) for name in names}
        forms = list(next((each for each in table.values() if each), ()))
        if not forms:
            print("none: each program has two sizes at most")
            continue
        print(f"{'program':12} " + " ".join(f"{form:>15}" for form in forms))
        for name, found in table.items():
            if found:
                print(f"{name:12} " + " ".join(f"{found[form]:>15.1%}" for form in forms))
        means = [np.exp(np.mean([np.log(max(each[form], 1e-3)) for each in table.values() if each])) for form in forms]
        print(f"{'geometric':12} " + " ".join(f"{mean:>15.1%}" for mean in means))


def main() -> None:
    """Record or read runs, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="?", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--programs", nargs="+", default=list(PROGRAMS), choices=list(PROGRAMS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--under", default="", help="command in front of the programs, as `chrt -r 10` beside other load"
    )
    parser.add_argument("--save", type=Path, help="write the runs to this file")
    parser.add_argument("--load", type=Path, help="read the runs from this file, instead of recording them")
    given = parser.parse_args()
    if given.load:
        show(load_runs(given.load, Run))
        return
    if given.sources is None:
        parser.error("give SOURCES, or --load RUNS.csv")
    rng, runs = np.random.default_rng(given.seed), list[Run]()
    with tempfile.TemporaryDirectory() as folder:
        archive = given.sources / "bots.tar.gz"
        sources = given.sources
        if archive.exists():
            with tarfile.open(archive) as packed:
                packed.extractall(folder, filter="data")
            sources = Path(folder) / "bots"
        for name in given.programs:
            runs += recorded(sources, name, given.threads, given.runs, rng, given.under.split())
            print(f"{name}: recorded, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
            if given.save:
                save_runs(given.save, Run, runs)
    show(runs)


if __name__ == "__main__":
    main()
