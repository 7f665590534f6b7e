"""The lock as M/M/1//K against an event simulation with exponential holding times, on a Polyroots-like graph (paper 4, 4.3)."""

from __future__ import annotations

import numpy as np
import pytest
import simpy
from graphs import parents_of
from paper4_programs import polyroots

from advisor.simulation import simulate
from advisor.simulation.systems import Lock

# Holding time (ms): relative error allowed at 2 to 24 processors. At 1 ms it must be within 5 % (measured: 0.2 %). At 10 ms
# it is
# within 4 %. At 50 ms the lock alone needs a quarter of the final loop's time, and the model, which knows the mean of what was
# before, charges its tasks for the contention of the small ones: up to 25 % too much on 24 processors.
ALLOWED = {1: 0.005, 10: 0.05, 50: 0.30}


def locked_makespan(graph, cores, hold, seed):
    """FIFO with a real lock around each dispatch: processes queue for it, hold it for an exponential time, then take a task."""
    env = simpy.Environment()
    rng = np.random.default_rng(seed)
    parents = parents_of(graph)
    left = [len(found) for found in parents]
    children = [graph.children[graph.first[k] : graph.first[k + 1]].tolist() for k in range(len(graph))]
    ready = simpy.Store(env)
    lock = simpy.Resource(env, 1)
    for task in (task for task, waits in enumerate(left) if waits == 0):
        ready.put(task)

    def process():
        while True:
            task = yield ready.get()
            with lock.request() as turn:
                yield turn
                yield env.timeout(rng.exponential(hold))
            yield env.timeout(float(graph.times[task]))
            for child in children[task]:
                left[child] -= 1
                if left[child] == 0:
                    ready.put(child)
            done[0] += 1
            if done[0] == len(graph):
                finished.succeed()

    done, finished = [0], env.event()
    for _ in range(cores):
        env.process(process())
    env.run(finished)
    return env.now


def errors(hold_ms, cores=(2, 8, 24), runs=6):
    graph = polyroots()
    found = []
    for count in cores:
        measured = np.mean([locked_makespan(graph, count, hold_ms * 1e3, seed) for seed in range(runs)])
        found.append(simulate(graph, count, "fifo", lock=Lock(hold_ms * 1e3)).makespan / measured - 1.0)
    return found


@pytest.mark.parametrize("hold_ms", ALLOWED)
def test_the_lock_model_is_close_to_an_event_simulation(hold_ms):
    assert max(map(abs, errors(hold_ms))) <= ALLOWED[hold_ms]
