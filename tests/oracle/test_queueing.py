"""Mean value analysis against closed forms and against Markov chains solved by brute force."""

from __future__ import annotations

from itertools import product
from math import factorial

import numpy as np
import pytest
from paper4_programs import expected_maximum

from advisor.simulation.queueing import bard_schweitzer, exact, finite_source_wait


def chain_residences(demands, think, population, servers):
    """Residence times from the steady state of the continuous-time chain of customers at centres of so many servers."""
    places = len(demands) + 1  # the last is thinking
    states = [state for state in product(range(population + 1), repeat=places) if sum(state) == population]
    number = {state: at for at, state in enumerate(states)}
    generator = np.zeros((len(states), len(states)))

    def pace(place, here):
        if place == places - 1:
            return here / think
        return min(here, servers[place]) / demands[place]

    for state, at in number.items():
        for place in range(places):
            if state[place]:
                # One after the other round the circle: with exponential service the residences do not depend on the order.
                following = list(state)
                following[place] -= 1
                following[(place + 1) % places] += 1
                rate = pace(place, state[place])
                generator[at, number[tuple(following)]] += rate
                generator[at, at] -= rate
    equations = np.vstack([generator.T, np.ones(len(states))])
    share = np.linalg.lstsq(equations, np.append(np.zeros(len(states)), 1.0), rcond=None)[0]
    lengths = np.asarray(states, float).T @ share
    throughput = lengths[-1] / think
    return lengths[:-1] / throughput


@pytest.mark.parametrize("demands", [(0.3,), (0.3, 0.7), (0.3, 0.2, 0.5)])
@pytest.mark.parametrize("population", [1, 2, 3, 5])
def test_exact_mva_equals_the_markov_chain(demands, population):
    found = exact(demands, 1.3, population)
    assert found == pytest.approx(chain_residences(demands, 1.3, population, [1] * len(demands)), rel=1e-9)
    # A delay is time outside of all queues.
    delayed = chain_residences((*demands, 0.4), 0.9, population, [1] * len(demands) + [population])
    assert found == pytest.approx(delayed[:-1], rel=1e-9)


def test_exact_mva_equals_closed_forms():
    # Balanced queues without think time: R = D (N + K - 1) at all of them together.
    for centres, population in product((1, 2, 5), (1, 3, 20)):
        times = exact([0.25] * centres, 0.0, population)
        assert sum(times) == pytest.approx(0.25 * (population + centres - 1), rel=1e-12)
    # Machine repairman, M/M/1//N: the utilisation is 1 - p0, p0 from Erlang's sum.
    service, think, population = 0.4, 1.7, 9
    idle = 1.0 / sum(
        factorial(population) / factorial(population - k) * (service / think) ** k for k in range(population + 1)
    )
    residence = exact([service], think, population)[0]
    assert population / (think + residence) == pytest.approx((1.0 - idle) / service, rel=1e-12)


@pytest.mark.parametrize("servers", [1, 2, 3])
@pytest.mark.parametrize("sources", [1, 2, 3, 4, 7])
def test_finite_source_wait_equals_the_markov_chain(servers, sources):
    residence = chain_residences((0.6,), 1.1, sources, [servers])[0]
    assert 0.6 + finite_source_wait(servers, sources, 1.1, 0.6) == pytest.approx(residence, rel=1e-9)


def test_finite_source_wait_stands_extreme_loads():
    # Saturated, all but those in service wait: K / (think + R) = c / service.
    for servers, sources, service in ((1, 64, 5e7), (3, 500, 1e9), (1, 2000, 1e3)):
        found = finite_source_wait(servers, sources, 1.0, service)
        assert found + service == pytest.approx(sources * service / servers - 1.0, rel=1e-9)
    assert finite_source_wait(1, 64, 1e12, 1e-6) == pytest.approx(0.0, abs=1e-20)


def exact_classes(demands, think, population):
    """Exact MVA of several classes of queues, by recursion over all smaller populations."""
    demands = np.asarray(demands, float)
    queues: dict[tuple[int, ...], np.ndarray] = {}
    for state in product(*(range(count + 1) for count in population)):
        queue, times = np.zeros(demands.shape[1]), np.zeros_like(demands)
        for c, count in enumerate(state):
            if count:
                fewer = tuple(n - (place == c) for place, n in enumerate(state))
                times[c] = demands[c] * (1.0 + queues[fewer])
                queue += count / (think[c] + times[c].sum()) * times[c]
        queues[state] = queue
    return times


def test_bard_schweitzer_is_within_two_percent_of_exact():
    """On the stated set, the cycle time of each class.

    The set: 1 to 3 classes of 1 to 8 requests (1 to 4 where there are 3), 1 to 3 queues, and an offered load, the sum of
    N_c D_ck / (Z_c + D_c), of at most 1/2 at the busiest queue. Towards saturation the approximation is worse, up to 13 % at
    loads from 1 to 2, which the last assertion records; one class is solved exactly instead.
    """
    rng = np.random.default_rng(4)
    stated, beyond = [], []
    while len(stated) < 400:
        classes, centres = rng.integers(1, 4), rng.integers(1, 4)
        demands = rng.uniform(0.05, 1.0, (classes, centres))
        population = rng.integers(1, 9, classes) if classes < 3 else rng.integers(1, 5, classes)
        think = demands.sum(axis=1) * rng.uniform(1.0, 40.0, classes)
        load = ((population / (think + demands.sum(axis=1)))[:, None] * demands).sum(axis=0).max()
        times = bard_schweitzer(demands, think, population)
        wanted = exact_classes(demands, think, population)
        error = np.abs((think + times.sum(axis=1)) / (think + wanted.sum(axis=1)) - 1.0).max()
        (stated if load <= 0.5 else beyond).append(error)
    assert max(stated) <= 0.02
    assert max(beyond) <= 0.14


def test_bard_schweitzer_of_one_request_is_exact_and_delays_do_not_queue():
    demands = [[0.3, 0.2], [0.5, 0.1]]
    assert bard_schweitzer(demands, [1.0, 2.0], [1, 0])[0] == pytest.approx([0.3, 0.2])
    found = bard_schweitzer(demands, [1.0, 2.0], [5, 9], [True, True])
    assert found == pytest.approx(np.asarray(demands))


def test_expected_maximum_equals_the_harmonic_sum():
    assert expected_maximum(np.full(7, 2.0)) == pytest.approx(2.0 * sum(1 / k for k in range(1, 8)), rel=1e-6)
    # Two different ones: 1/a + 1/b - 1/(a + b) in rates.
    assert expected_maximum(np.array([1.0, 0.25])) == pytest.approx(1.0 + 0.25 - 1.0 / (1.0 + 4.0), rel=1e-6)
