"""Work stealing with costs: accounts that add up, the bounds of the work and the span, one source compiled or not."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_laws import both_ways
from stealing import KERNELS, Costs, run_stealing

from advisor.domain.task_graphs import task_graph
from advisor.kernels import can_compile

# Numba compiles the kernel of this benchmark for a quarter of a minute: the package's own kernels are built with it.
pytestmark = pytest.mark.slow


@st.composite
def graphs(draw):
    n = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    edges = [(i, j) for j in range(1, n) for i in rng.integers(0, j, rng.integers(0, 3)).tolist()]
    columns = {"creates": rng.integers(0, 4, n), "waits": rng.integers(0, 2, n)}
    return task_graph(rng.integers(0, 1000, n).astype(float), sorted(set(edges)), unit="ns", columns=columns)


@settings(max_examples=150, deadline=None)
@given(graphs(), st.integers(1, 9), st.integers(0, 2**40), st.floats(0, 500), st.floats(0, 0.1), st.floats(0, 2))
def test_accounts_add_up_and_no_bound_is_beaten(graph, workers, seed, steal_ns, crowding, moved):
    costs = Costs(30.0, 20.0, steal_ns, crowding, moved)
    run = run_stealing(graph, workers, costs, seed)
    assert run == run_stealing(graph, workers, costs, seed)
    there = workers * run.elapsed_s
    assert run.work_s + run.delay_s + run.no_work_s == pytest.approx(there, abs=1e-12)
    assert min(run.no_work_s, run.delay_s) >= -1e-15
    assert run.work_s >= run.serial_work_s - len(graph) * 1e-9
    assert run.elapsed_s >= run.span_s - 1e-12
    assert (run.creates, run.waits) == (graph.columns["creates"].sum(), graph.columns["waits"].sum())
    if workers == 1:
        assert run.no_work_s == pytest.approx(0.0, abs=1e-15)
        assert (run.steals, run.work_s) == (0, pytest.approx(run.serial_work_s))
    if not steal_ns and not crowding and not moved:
        # Greedy: Graham's bound, of strands with their overhead.
        free = run_stealing(graph, workers, Costs(), seed)
        assert free.elapsed_s <= free.work_s / workers + free.span_s + 1e-12


@pytest.mark.skipif(not can_compile(), reason="numba is not installed")
@settings(max_examples=25, deadline=None)
@given(graphs(), st.integers(1, 6), st.integers(0, 2**40))
def test_a_run_is_the_same_interpreted_and_compiled(graph, workers, seed):
    both_ways(lambda: asdict(run_stealing(graph, workers, Costs(30.0, 0.0, 50.0, 0.01, 0.5), seed)), KERNELS)
