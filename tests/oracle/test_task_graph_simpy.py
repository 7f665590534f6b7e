"""The same makespans from an execution in SimPy that shares no code with the analysis."""

from __future__ import annotations

from graphs import graphs, simpy_makespan
from hypothesis import given, settings
from hypothesis import strategies as st
from paper4_programs import fork_join, locusroute, normals, polyroots

from advisor.simulation import Program, simulate


@given(graph=graphs(), cores=st.integers(1, 6))
@settings(max_examples=200, deadline=None)
def test_simpy_gives_the_same_makespans(graph, cores):
    levels = Program(graph).bottom_levels
    keys = {
        "fifo": lambda task, arrival: arrival,
        "lifo": lambda task, arrival: -arrival,
        "lpt": lambda task, arrival: (-int(graph.ticks[task]), task),
        "bottom_level": lambda task, arrival: (-int(levels[task]), task),
    }
    for policy, key in keys.items():
        assert simulate(graph, cores, policy).ticks == simpy_makespan(graph, cores, key), policy


def test_simpy_gives_the_same_makespans_of_the_papers_shapes():
    small = fork_join([[abs(normals(k, 60)) + 0.1 for k in range(3)] for _ in range(3)])
    for graph in (polyroots(), locusroute(), small):
        for cores in (2, 7, 16):
            assert simulate(graph, cores, "fifo").ticks == simpy_makespan(graph, cores, lambda task, arrival: arrival)
