"""Graphs of real OpenMP programs, recorded by the tool: every task is there, one processor takes them as long as the run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from omp_programs import MISSING, RUN_S, SOURCES, Programs, Ran

import advisor.adapters.openmp
from advisor.adapters.openmp import build_tool
from advisor.files.events import read_events
from advisor.files.graphs import read_graph
from advisor.simulation import Program, simulate

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)
ARGUMENTS = {"fib": (18, 6), "sort": (20_000, 4), "sparselu": (8,)}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    folder = tmp_path_factory.mktemp("graphs")
    for name in ARGUMENTS:
        command = ["clang", "-O2", "-fopenmp", "-I", str(Path(advisor.adapters.openmp.__file__).parent)]
        subprocess.run(
            [*command, str(SOURCES / f"{name}.c"), "-o", str(folder / name), "-lm"], check=True, timeout=RUN_S
        )
    return Programs(folder, build_tool(folder / "tool"))


def elapsed_ns(ran: Ran) -> int:
    """Time from the first event of the run to its last."""
    batches = list(read_events(ran.folder / "events"))
    times = np.concatenate([batches[0].clock.nanoseconds(batch.records["time"]) for batch in batches])
    return int(times.max() - times.min())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_the_graph_has_every_task_and_takes_one_processor_as_long(programs: Programs, name: str, threads: int) -> None:
    ran = programs.run(name, *ARGUMENTS[name], threads=threads)
    assert ran.status == 0, ran.errors
    graph = read_graph((ran.folder / "events").rename(ran.folder / "run.events")).graph
    (ran.folder / "run.events").rename(ran.folder / "events")
    program, measures = Program(graph), ran.profile().measures
    instances = {named.rpartition(", part ")[0] for named in graph.names if ", part " in named}
    assert len([one for one in instances if not one.startswith("thread ")]) == ran.tasks
    if threads == 1:
        assert program.work == simulate(program, 1).ticks
        assert (
            0 <= elapsed_ns(ran) - program.work <= 0.01 * program.work
        )  # but for what the runtime calls idle at its end
    else:
        # Thread 0 is there before the first event of thread 1, so each has its own time; the clock is rounded to ns.
        assert program.work == pytest.approx(1e9 * (measures.workers_s - measures.waiting_s), abs=len(graph))
    # The graph counts the time of creations into paths as well, which the profiler leaves out. On one thread all tasks run at
    # once, and both take them as the program wishes them.
    assert program.span >= 1e9 * measures.span_s - len(graph)
    for policy in ("work_stealing", "fifo"):
        two = simulate(program, 2, policy, trace=True)
        assert max(program.work / 2, program.span) <= two.ticks <= program.work
        assert two.trace is not None
        tied = graph.columns["tied"]
        for group in np.unique(tied[tied >= 0]):
            assert len(np.unique(two.trace.processors[tied == group])) == 1
