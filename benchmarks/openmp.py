"""The OpenMP tool on real programs: what it costs, what it loses, and what its diagnosis is worth.

`python -m benchmarks.openmp [--rounds 7] [--threads 1 2]` needs clang, libomp and make. It prints for each program

- the CPU time under the tool, of all threads and the helper's, over that without: best of the rounds, which are interleaved; a
  service folds in a process of its own, and shares the machine;
- events made a second, and how many were sent, left to sums, and dropped: they must add up to those that the program has;
- how much faster nqueens becomes with the cut-off that the diagnosis names, and how much it said.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import advisor.adapters.openmp
from advisor.adapters.openmp import build_tool
from advisor.client import SyncClient
from advisor.profile.diagnosis import Finding, diagnose
from advisor.profile.tree import Profile

sys.path.insert(0, str(Path(__file__).parent.parent / "demos"))
from service_process import serving

SOURCES = Path(__file__).parent.parent / "tests" / "support" / "openmp"
COMPILED_S = 120.0  # numba makes the fold of events anew in some 20 s


@dataclass(frozen=True)
class Program:
    """A program, and the most that its CPU time may grow by."""

    name: str
    arguments: tuple[int, ...]
    limit: float

    def __str__(self) -> str:
        return f"{self.name} {' '.join(map(str, self.arguments))}"


# The classes of issue D: below 0.5 and 5 million events a second, and fib with a task a call.
PROGRAMS = (
    Program("sort", (8_000_000, 8), 1.03),
    Program("strassen", (1024, 3), 1.03),
    Program("sparselu", (30,), 1.03),
    Program("fft", (1 << 20, 8), 1.03),
    Program("fib", (38, 12), 1.03),
    Program("nqueens", (12, 4), 1.10),
    Program("fib", (38, 16), 1.10),
    Program("fib", (38, 17), 1.10),
    Program("fib", (30,), 2.2),
)
MODES = ("full", "sums")
QUEENS = 12
FOLLOWED = 1.5  # predicted over measured gain, and the other way round


class Bench:
    """Compiled programs, the tool, and a service that folds."""

    def __init__(self, folder: Path, socket: Path) -> None:
        self.folder = folder
        self.socket = socket
        self.tool = build_tool(folder / "tool")
        include = Path(advisor.adapters.openmp.__file__).parent
        for name in {program.name for program in PROGRAMS}:
            command = [
                "clang",
                "-O2",
                "-fopenmp",
                "-I",
                include,
                SOURCES / f"{name}.c",
                "-o",
                folder / name,
                "-lm",
                "-ldl",
            ]
            subprocess.run(list(map(str, command)), check=True)

    def run(self, program: Program, threads: int, mode: str = "", **settings: object) -> dict[str, Any]:
        """Run a program, under the tool where a mode is named; return its times, its output and the tool's report."""
        report = self.folder / "report"
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_TOOL": "enabled" if mode else "disabled"}
        if mode:
            environment |= {
                "OMP_TOOL_LIBRARIES": str(self.tool),
                "ADVISOR_SOCKET": str(self.socket),
                "ADVISOR_OPENMP_MODE": mode,
                "ADVISOR_OPENMP_REPORT": str(report),
            }
            environment |= {f"ADVISOR_OPENMP_{name.upper()}": str(value) for name, value in settings.items()}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        command = [str(self.folder / program.name), *map(str, program.arguments)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        wall = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        said = re.search(r"seconds=(\S+) ok=1", done.stdout)
        assert said, done.stdout
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {"cpu": cpu, "wall": wall, "seconds": float(said[1])} | (json.loads(report.read_text()) if mode else {})

    def profile(self, program: Program) -> Profile:
        """Return the profile of the program's newest run."""
        with SyncClient(str(self.socket), timeout_s=60.0) as client:
            return Profile.from_dict(client.profile(program.name, diagnosis=False)["profile"])


def records_of(report: Mapping[str, Any]) -> int:
    """How many records a program's events are, sent or not."""
    return report["sent"] + report["unsent"] - report["extra"] + report["dropped"] + report["summed"]


@contextmanager
def bench() -> Iterator[Bench]:
    """A service with compiled folds, once they are there, and everything that is compiled in C."""
    with tempfile.TemporaryDirectory(prefix="advisor-") as name, serving(Path(name)) as (socket, _):
        found = Bench(Path(name), socket)
        deadline = time.monotonic() + COMPILED_S
        while "folds are compiled" not in (Path(name) / "log").read_text() and time.monotonic() < deadline:
            time.sleep(0.2)
        yield found


def overhead(found: Bench, threads: int, rounds: int) -> bool:
    """Print CPU time under the tool over that without; best of the rounds, interleaved."""
    print(f"\nCPU time on {threads} threads, best of {rounds} interleaved: free, and over it in each mode")
    print(
        f"{'program':22}{'free s':>8}{'M events/s':>12}{'limit':>8}"
        + "".join(f"{mode:>8}" for mode in MODES)
        + "  lost in full"
    )
    kept = True
    for program in PROGRAMS:
        runs: dict[str, list[dict[str, Any]]] = {mode: [] for mode in ("", *MODES)}
        for _ in range(rounds):
            for mode, done in runs.items():
                done.append(found.run(program, threads, mode))
        cpu = {mode: min(each["cpu"] for each in done) for mode, done in runs.items()}
        full = runs["full"][-1]
        rate = records_of(full) / cpu[""] * threads / 1e6  # of a quiet machine
        ratios = [cpu[mode] / cpu[""] for mode in MODES]
        kept &= max(ratios) <= program.limit
        lost = max(each["dropped"] + each["unsent"] for each in runs["full"])
        text = "".join(f"{ratio:8.3f}" for ratio in ratios)
        verdict = "" if max(ratios) <= program.limit else "  OVER"
        print(
            f"{program!s:22}{cpu['']:8.3f}{rate:12.2f}{program.limit:8.2f}{text}  {lost:,} of {records_of(full):,}{verdict}",
            flush=True,
        )
    return kept


def losses(found: Bench, threads: int, _rounds: int) -> bool:
    """Print what of a program's events is sent and what is not, one thread, rings of the usual size and of a small one."""
    if threads > 1:
        return True  # how often tasks are suspended is chance there, and so is the number of records
    print("\nEvents on 1 thread: sent - extra + summed + dropped + unsent = all, whatever the mode and the room")
    print(
        f"{'program':22}{'mode':>6}{'ring':>8}{'all':>12}{'sent':>12}{'summed':>12}{'dropped':>12}{'tasks in profile':>18}"
    )
    kept = True
    for program in (Program("fib", (38, 17), 0.0), Program("nqueens", (10,), 0.0), Program("fib", (24,), 0.0)):
        whole = set()
        for mode in ("full", "auto", "sums"):
            for ring in (262_144, 4_096):
                report = found.run(program, 1, mode, buffer=ring)
                measures = found.profile(program).measures
                whole.add(records_of(report))
                kept &= measures.ends == report["tasks"]
                text = "".join(f"{report[key]:12,}" for key in ("sent", "summed", "dropped"))
                print(
                    f"{program!s:22}{mode:>6}{ring:8,}{records_of(report):12,}{text}{measures.ends:11,} of {report['tasks']:,}",
                    flush=True,
                )
        kept &= len(whole) == 1
    return kept


def advice(found: Bench, threads: int, rounds: int) -> bool:
    """Print what the diagnosis of queens without a cut-off promises, and what following it brings to the program as it is.

    On one thread by CPU time: what else the machine does is no part of it. On more, waiting is, and elapsed time counts.
    """
    print(f"\nFollowing the diagnosis of nqueens {QUEENS} without a cut-off, on {threads} threads; best of {rounds}")
    by = "cpu" if threads == 1 else "seconds"
    without = Program("nqueens", (QUEENS,), 0.0)
    kept = True
    for mode in MODES:
        tried: list[tuple[float, Finding]] = []
        for _ in range(rounds):
            took = found.run(without, threads, mode)[by]
            named = [each for each in diagnose(found.profile(without)) if each.code == "tasks_too_small"]
            tried += [(took, named[0])] if named else []
        if not tried:
            print(f"  {mode}: no finding")
            return False
        watched, finding = min(tried, key=lambda each: each[0])
        with_cut = Program("nqueens", (QUEENS, int(finding.evidence["cut_off"])), 0.0)
        pairs = [(found.run(without, threads)[by], found.run(with_cut, threads)[by]) for _ in range(rounds)]
        free, cut = (min(column) for column in zip(*pairs, strict=True))
        gain = free / cut
        off = max(finding.gain / gain, gain / finding.gain)
        kept &= off <= FOLLOWED
        print(
            f"  {mode}: {watched:.3f} s under the tool; {finding.advice}, about {finding.gain:.2f} times faster; "
            f"without the tool {free:.3f} s, and so {cut:.3f} s: {gain:.2f} times, off by a factor of {off:.2f}",
            flush=True,
        )
    return kept


PARTS = {"losses": losses, "advice": advice, "overhead": overhead}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", choices=PARTS)
    given = parser.parse_args(arguments)
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {platform.system()} {platform.release()}"
    )
    kept: dict[str, bool] = {}
    with bench() as found:
        for name, part in PARTS.items():
            if given.only in (None, name):
                kept[name] = all([part(found, threads, given.rounds) for threads in given.threads])  # noqa: C419 - all are run
    print("\n" + ", ".join(f"{name}: {'as asked' if good else 'NOT as asked'}" for name, good in kept.items()))


if __name__ == "__main__":
    main()
