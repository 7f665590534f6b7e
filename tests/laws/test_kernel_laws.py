"""Each source of kernels gives the same bytes with the compiler off and on, on the same streams.

A source that has no stream here, and no entry that says where its law is, fails.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_laws import both_ways
from profile_laws import state_bytes
from task_program import Program, recursive

from advisor import kernels
from advisor.domain.task_events import TaskEvents
from advisor.domain.task_graphs import task_graph
from advisor.kernels.__main__ import import_all
from advisor.profile.profiler import Profiler
from advisor.simulation import simulate
from advisor.simulation.stealing import Costs, run_stealing

pytestmark = pytest.mark.skipif(not kernels.can_compile(), reason="numba is not installed")


def events() -> TaskEvents:
    made = Program(3, recursive(5, 2, 300), contention=1.0).run()
    return TaskEvents(made.records[made.records["time"].argsort(kind="stable")], made.strings)


def profiled() -> Any:
    """A recursive program in three batches; what was open is lost at the end."""
    profiler, given = Profiler(window_ns=0), events()
    told: list[Any] = []
    for number, part in enumerate(np.array_split(given.records, 3)):
        folded = profiler.fold(TaskEvents(part, given.strings if number == 0 else ()))
        told.append((folded.accepted, folded.ended, folded.sizes))
    return told, state_bytes(profiler), profiler.close_lost(), state_bytes(profiler)


def drawn(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    count = 60
    edges = sorted({(int(i), j) for j in range(1, count) for i in rng.integers(0, j, rng.integers(0, 3))})
    columns = {"creates": rng.integers(0, 4, count), "waits": rng.integers(0, 2, count)}
    return task_graph(rng.integers(0, 9, count).astype(float), edges, unit="ns", columns=columns)


def analysed() -> Any:
    policies = ("fifo", "lifo", "lpt", "bottom_level", "static_cyclic", "heft")
    found: list[Any] = []
    for seed in range(5):
        for cores in (1, 3, 100):
            for policy in policies:
                execution = simulate(drawn(seed), cores, policy, trace=policy == "heft")
                found.append((execution.ticks, execution.trace))
    return found


def stolen() -> Any:
    costs = Costs(30.0, 20.0, 50.0, 0.01, 0.5)
    runs = [run_stealing(drawn(seed), workers, costs, seed) for seed in range(5) for workers in (1, 2, 7)]
    return [(run.work_s, run.delay_s, run.no_work_s, run.steals, run.elapsed_s) for run in runs]


STREAMS: dict[str, Callable[[], Any]] = {
    "advisor.profile.kernels": profiled,
    "advisor.simulation.loops": analysed,
    "advisor.simulation.stealing": stolen,
}


def ours() -> dict[str, kernels.Source]:
    return {each.module: each for each in kernels.sources() if each.module.startswith("advisor.")}


@pytest.mark.parametrize("module", STREAMS)
def test_the_same_bytes_interpreted_and_compiled(module):
    both_ways(STREAMS[module], ours()[module])


def test_every_source_has_a_stream():
    import_all()
    assert set(ours()) == set(STREAMS)


def test_all_sources_are_filled_by_one_command():
    ran = subprocess.run([sys.executable, "-m", "advisor.kernels"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert all(source.filled() for source in ours().values())
