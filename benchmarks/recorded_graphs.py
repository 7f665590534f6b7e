"""Does a task graph recorded at one thread predict the time at two? OpenMP programs, run under the tool of adapters/openmp.

    python benchmarks/recorded_graphs.py [--threads 2] [--runs 7] [--keep FOLDER] [--json FILE]

Each program of tests/support/openmp is compiled, recorded at one thread, its graph executed on one and on `--threads`
processors by each policy, and set beside what the program takes: under the tool, which the recorded times hold, and without
it. Times are what the program prints for its parallel region, the least of `--runs` runs, the numbers of threads by turns.
`--keep` keeps the recordings (`advisor simulate FOLDER/fib.events`).

`error` is that of the prediction by work stealing against the two-thread time under the tool, `plain_error` against the
program without it. `copies_s` is what as many copies of the program at one thread take at once: what is more than
`one_plain_s` is what the processors cost each other, or what other programs take, which no graph recorded at one thread knows.
"""

# ruff: noqa: E402 -- the path is set before anything else is imported
from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE.parent)]

from advisor.adapters.openmp import SOURCES, tool_library
from advisor.domain.task_graphs import TaskGraph
from advisor.files.graphs import read_graph
from advisor.simulation import Program, simulate

PROGRAMS = HERE.parent / "tests" / "support" / "openmp"
# Sizes that take 0.1 to 0.5 s on one core: starting the threads is little of it. They make 10^2 to 3 10^4 tasks.
SIZES = {
    "fft": (1 << 18, 6), "fib": (35, 13), "nqueens": (13, 4), "sort": (2_000_000, 6), "sparselu": (48, 1),
    "strassen": (1024, 3),
}  # fmt: skip
BUFFER = 2**20  # records of a thread's ring: none is dropped
POLICIES = ("work_stealing", "fifo", "lifo")


def compiled(name: str, folder: Path) -> Path:
    """Compile a program."""
    target = folder / name
    subprocess.run(
        ["clang", "-O2", "-fopenmp", f"-I{SOURCES}", "-o", str(target), str(PROGRAMS / f"{name}.c"), "-lm"], check=True
    )
    return target


def seconds(program: Path, threads: int, under: list[str], environment: dict[str, str] | None = None) -> float:
    """Run a program and return the seconds that it prints."""
    given = {**os.environ, "OMP_NUM_THREADS": str(threads), **(environment or {"OMP_TOOL": "disabled"})}
    done = subprocess.run(
        [*under, str(program), *map(str, SIZES[program.name])], env=given, capture_output=True, text=True, check=True
    )
    return float(re.search(r"seconds=([\d.]+)", done.stdout).group(1))


def recorded(program: Path, threads: int, under: list[str], path: Path) -> float:
    """Run a program under the tool, its events into a file; return its seconds."""
    return seconds(program, threads, under, {
        "OMP_TOOL": "enabled", "OMP_TOOL_LIBRARIES": str(tool_library()), "ADVISOR_OPENMP_FILE": str(path),
        "ADVISOR_OPENMP_MODE": "full", "ADVISOR_OPENMP_BUFFER": str(BUFFER),
    })  # fmt: skip


def copies(program: Path, threads: int, under: list[str]) -> float:
    """Return the seconds of the slowest of so many copies of a program at once, each at one thread."""
    with ThreadPoolExecutor(threads) as pool:
        return max(pool.map(lambda _: seconds(program, 1, under), range(threads)))


def region(graph: TaskGraph, program: Program, cores: int, policy: str) -> float:
    """Return the predicted seconds of the parallel region: the program's, less what the first thread does before and after."""
    own = [task for task, name in enumerate(graph.names) if name.startswith("thread 0, ")]
    return simulate(program, cores, policy).makespan / 1e9 - float(graph.ticks[[own[0], own[-1]]].sum()) / 1e9


def judged(name: str, folder: Path, keep: Path, threads: int, runs: int, under: list[str]) -> dict[str, Any]:
    """Return what was measured and predicted of one program."""
    program = compiled(name, folder)
    measured: dict[tuple[int, bool], float] = {}
    best = together = float("inf")
    path = keep / f"{name}.events"
    for _ in range(runs):
        for count in (1, threads):
            measured[count, False] = min(measured.get((count, False), 1e9), seconds(program, count, under))
            now = folder / "now.events"
            took = recorded(program, count, under, now)
            measured[count, True] = min(measured.get((count, True), 1e9), took)
            if count == 1 and took < best:
                best = took
                shutil.move(now, path)
        together = min(together, copies(program, threads, under))
    graph = read_graph(path).graph
    whole = Program(graph)
    row: dict[str, Any] = {
        "program": name, "strands": len(graph), "one_s": measured[1, True],
        "two_s": measured[threads, True], "one_plain_s": measured[1, False], "two_plain_s": measured[threads, False],
        "again_one_s": region(graph, whole, 1, "fifo"),
    }  # fmt: skip
    for policy in POLICIES:
        row[policy] = region(graph, whole, threads, policy)
    row["copies_s"] = together
    predicted = row[POLICIES[0]]
    row["error"] = predicted / row["two_s"] - 1.0
    row["plain_error"] = predicted / row["two_plain_s"] - 1.0
    return row


def main() -> None:
    """Judge all programs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--keep", type=Path, help="keep the recordings there")
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--under", default="", help="command in front of the programs, like 'chrt -r 10' on a machine with other load"
    )
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    print(f"load of the machine before: {os.getloadavg()[0]:.2f}, {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        keep = given.keep or folder
        keep.mkdir(parents=True, exist_ok=True)
        for name in sorted(SIZES):
            if not (PROGRAMS / f"{name}.c").exists():
                continue
            row = judged(name, folder, keep, given.threads, given.runs, given.under.split())
            rows.append(row)
            print(
                "  ".join(
                    f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}" for key, value in row.items()
                )
            )
    if given.json:
        given.json.write_text(json.dumps({"load": os.getloadavg(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
