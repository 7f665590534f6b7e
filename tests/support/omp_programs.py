"""The programs of tests/support/openmp, compiled once, and run under the tool of adapters/openmp."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import advisor.adapters.openmp
from advisor.adapters.openmp import build_tool
from advisor.domain.task_events import NANOSECONDS, Kind, TaskEvents
from advisor.files.events import read_events
from advisor.files.profiles import profile_of_events
from advisor.profile import layout as at
from advisor.profile.tree import Profile

SOURCES = Path(__file__).parent / "openmp"
INCLUDE = str(Path(advisor.adapters.openmp.__file__).parent)
NAMES = ("fib", "nqueens", "sort", "sparselu", "strassen", "fft")
RUN_S = 300.0  # a program that takes longer hangs, whatever the machine
BUFFER = 2**20  # records of a ring that no program here fills

MISSING = next(
    (
        f"{what} is missing: apt-get install clang libomp-dev make"
        for what, there in (
            ("clang", shutil.which("clang")),
            ("make", shutil.which("make")),
            ("libomp", any(Path("/usr/lib").glob("llvm*/lib/libomp.so*"))),
        )
        if not there
    ),
    "",
)


@dataclass(frozen=True)
class Programs:
    """Compiled programs and the tool, in a folder."""

    folder: Path
    tool: Path

    def path(self, name: str, tied: bool = True) -> Path:
        return self.folder / (name if tied else f"{name}-untied")

    def run(
        self,
        name: str,
        *arguments: int,
        threads: int = 1,
        tied: bool = True,
        tool: bool = True,
        file_kib: int | None = None,
        **settings: object,
    ) -> Ran:
        """Run a program to its end; `settings` are ADVISOR_OPENMP_…; with a socket its events go there, else into a file.

        Of a disk that is full there is a limit of the file, `file_kib`.
        """
        limit = [] if file_kib is None else ["sh", "-c", f'ulimit -f {2 * file_kib}; exec "$@"', "sh"]
        folder = self.folder / "runs"
        folder.mkdir(exist_ok=True)
        for each in folder.iterdir():
            each.unlink()
        done = subprocess.run(
            [*limit, str(self.path(name, tied)), *map(str, arguments)],
            env=self.environment(folder, threads, tool=tool, **settings),
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr, folder)

    def compile(self, name: str, to: str, *options: str) -> None:
        """Compile a program once more, by another name and with other options."""
        command = ["clang", *options, "-fopenmp", "-I", INCLUDE, str(SOURCES / f"{name}.c"), "-o", str(self.path(to))]
        subprocess.run([*command, "-lm", "-ldl"], check=True, timeout=RUN_S)

    def environment(self, folder: Path, threads: int, *, tool: bool = True, **settings: object) -> dict[str, str]:
        found = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "ADVISOR_"))}
        found |= {"OMP_NUM_THREADS": str(threads), "OMP_DYNAMIC": "false"}
        if not tool:
            return found | {"OMP_TOOL": "disabled"}
        found |= {"OMP_TOOL_LIBRARIES": str(self.tool), "ADVISOR_OPENMP_REPORT": str(folder / "report")}
        if "socket" in settings:
            found["ADVISOR_SOCKET"] = str(settings.pop("socket"))
        else:
            found["ADVISOR_OPENMP_FILE"] = str(folder / "events")
        given = {"mode": "full", "buffer": BUFFER} | settings
        return found | {f"ADVISOR_OPENMP_{name.upper()}": str(value) for name, value in given.items()}


@dataclass(frozen=True)
class Ran:
    """What came of a run."""

    status: int
    output: str
    errors: str
    folder: Path

    @property
    def tasks(self) -> int:
        """Tasks, by the program's own count."""
        found = re.search(r"tasks=(\d+) seconds=\S+ ok=1", self.output)
        assert found is not None, (self.status, self.output, self.errors)
        return int(found[1])

    def report(self) -> Mapping[str, Any]:
        return json.loads((self.folder / "report").read_bytes())

    def profile(self) -> Profile:
        """The profile of the file of events."""
        return profile_of_events(read_events(self.folder / "events"))

    def flags(self) -> Counter[int]:
        """Created tasks of the file by their flags."""
        found: Counter[int] = Counter()
        for events in read_events(self.folder / "events"):
            found.update(events.records["flags"][events.records["kind"] == Kind.CREATE].tolist())
        return found

    def kinds(self) -> Counter[str]:
        """Records of the file by kind."""
        found: Counter[str] = Counter()
        for events in read_events(self.folder / "events"):
            found.update(Kind(kind).name for kind in events.records["kind"].tolist())
        return found


def at_even_steps(batches: Iterable[TaskEvents]) -> list[TaskEvents]:
    """Return the events of one thread a microsecond apart: their times say in which order they came, and no more."""
    found: list[TaskEvents] = []
    for events in batches:
        records, before = events.records.copy(), sum(map(len, found))
        records["time"] = 1_000 * np.arange(before, before + len(records))
        found.append(replace(events, records=records, clock=NANOSECONDS))
    return found


def records_of_the_program(report: Mapping[str, Any]) -> int:
    """How many records the program's events are, sent or not: the same whatever of them is sent."""
    return report["sent"] + report["unsent"] - report["extra"] + report["dropped"] + report["summed"]


def tasks_by_depth(profile: Profile) -> Counter[int]:
    """Ended tasks by the depth that the tool has counted."""
    found: Counter[int] = Counter()
    for root in profile.roots(at.TASK):
        for node in profile.children[root]:
            if profile.role[node] == at.PARAMETER and profile.names[node] == "depth":
                found[int(profile.value[node])] += int(profile.count[node])
    return found


def compiled_programs(folder: Path) -> Programs:
    """Compile the tool and the programs, tied and untied."""
    library = build_tool(folder / "tool")

    def make(name: str, tied: bool = True, *options: str) -> None:
        out = folder / (name if tied else f"{name}-untied")
        command = ["clang", "-O2", "-Wall", "-Wextra", "-Werror", *(() if tied else ("-DUNTIED",)), *options]
        command += ["-I", INCLUDE, str(SOURCES / f"{name}.c"), "-o", str(out)]
        subprocess.run([*command, "-lm", "-ldl"], check=True, timeout=RUN_S)

    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(make, name, tied, "-fopenmp") for name in NAMES for tied in (True, False)]
        jobs += [pool.submit(make, name, True, "-fopenmp") for name in ("pauses", "at_once")]
        jobs.append(pool.submit(make, "plain"))
        for job in jobs:
            job.result()
    return Programs(folder, library)
