"""Advice on streams whose truth is known: none from noise, soon after a change, and what is told is true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from advisor.domain.allocations import Allocation
from advisor.engine import Advisor
from advisor.network import parse
from advisor.planning import Request
from advisor.planning.stability import WATCHING
from advisor.planning.watches import Look, Schedule, pays, reconsider

NOISE = 0.1
CORES = 24
KNOWN_ROWS, FEW_ROWS = 200, 40  # of each component, on 1 to 16 cores, before the network is watched
ROWS = 10_000


class Stream:
    """A pipeline whose components' times are known, its rows, and a watch of it that looks when it should."""

    def __init__(self, seed: int, warm_rows: int, components: int = 3) -> None:
        self.rng = np.random.default_rng(seed)
        self.names = [f"c{i}" for i in range(components)]
        self.base, self.factor = self.rng.uniform(1.0, 3.0, components), np.ones(components)
        self.advisor, self.network = Advisor(), parse(" .. ".join(self.names))
        for row in range(warm_rows * components):
            self.observe(row % components, float(1 << self.rng.integers(0, 5)))
        self.has, _, _ = self.look(None)
        self.schedule = Schedule().looked(0, self.changes())
        self.rows = self.looks = 0

    def seconds(self, component: int, cores: float) -> float:
        return float(self.factor[component] * self.base[component] * (0.02 + 0.98 / cores))

    def observe(self, component: int, cores: float) -> None:
        size = float(self.rng.integers(1, 9))
        luck = float(np.exp(NOISE * self.rng.standard_normal() - 0.5 * NOISE**2))
        self.advisor.observe(
            self.names[component], predictor=size, cores=cores, elapsed_s=size * self.seconds(component, cores) * luck
        )

    def changes(self) -> int:
        self.advisor.flush()
        return int(self.advisor.components.table.int_field("changes")[: len(self.names)].sum())

    def look(self, has: Allocation | None, *question: Any) -> Look:
        curves = self.advisor.curve_tables.curves(self.network.components, cores_max=CORES)
        return reconsider(Request(cores=CORES, network=self.network, current=has), curves, *question)

    def until(self, reported: Callable[[Look], bool], rows: int) -> Look | None:
        """Run the network as it was allocated until a look is as wanted."""
        for _ in range(rows):
            component = self.rows % len(self.names)
            self.observe(component, float(self.has.cores[self.names[component]]))
            self.rows += 1
            changes = self.changes()
            if self.schedule.due(self.rows, changes, len(self.names)):
                self.looks += 1
                self.schedule = self.schedule.looked(self.rows, changes)
                look = self.look(self.has, 5.0, WATCHING, self.schedule.looks)
                if reported(look):
                    return look
        return None

    def rate(self, has: Allocation) -> float:
        """Return the throughput of the truth: of those that take turns on the same cores the times add up."""
        seconds = {name: self.seconds(i, has.cores[name]) for i, name in enumerate(self.names)}
        groups = [keys for _, keys in has.groups] or [(name,) for name in self.names]
        return 1.0 / max(sum(seconds[key] for key in keys) for keys in groups)


def check(seed: int, factor: float) -> None:
    stream = Stream(seed, KNOWN_ROWS)
    assert stream.until(lambda look: pays(look[1]), ROWS) is None
    assert stream.looks < 60  # never per row
    slowest = int(np.argmax([stream.seconds(i, stream.has.cores[name]) for i, name in enumerate(stream.names)]))
    stream.factor[slowest] *= factor
    before = stream.rows
    look = stream.until(lambda look: pays(look[1]), 50)
    assert look is not None, "no advice within 50 observations of the change"
    assert stream.rows - before <= 50
    assert stream.rate(look[0]) > 1.05 * stream.rate(stream.has)


def test_noise_is_never_told_and_a_change_soon() -> None:
    check(0, 2.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_what_is_told_without_a_change_is_true(seed: int) -> None:
    """A network that is watched when little is known is allocated badly at first: better is told, and is better."""
    stream = Stream(seed, FEW_ROWS)
    for _ in range(8):
        look = stream.until(lambda look: pays(look[1]), ROWS // 4)
        if look is None:
            return
        assert stream.rate(look[0]) > stream.rate(stream.has)
        stream.has = look[0]
    pytest.fail("it never settles")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 16))
def test_noise_is_never_told_and_a_change_soon_on_many_streams(seed: int) -> None:
    check(seed, 2.0)
