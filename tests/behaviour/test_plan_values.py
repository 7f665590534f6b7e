"""500 plans on planted curves: what a chosen plan is worth by the known curves, against what was recorded.

A program knows only rows. It is taught on all counts that it may hand out, so that no promise beyond seen counts is touched.
Two cases of five have rows without noise, three rows with 5 % noise. The value is the true throughput of the plan over the best
that an exhaustive search of whole cores finds on the true curves; it may be above 1 where components share cores in turn.

The tolerance: values of equal plans differ by rounding only, 1e-9. Without noise no single plan may be worse. With noise
several plans may be as likely the best, so that the mean over the cases of one network and machine may not be worse.
To record anew: ``PYTHONPATH=.:tests/support python tests/behaviour/test_plan_values.py``.
"""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from advisor import Advisor, Allocation

RECORDED = Path(__file__).with_name("plan_values.json")
ROUNDING = 1e-9
SIZES = (50.0, 100.0, 200.0)
NETWORKS = {"pair": ("a", "b"), "line": ("a", "b", "c"), "long": ("a", "b", "c", "d"), "uneven": ("a", "b", "c")}
MACHINES = (6, 8, 11, 16, 24)
PLANS = 5  # loads that are planned for, of each that was taught


@dataclass(frozen=True)
class Curve:
    """t = work x^power (serial + (1 - serial) / p) + overhead p: Amdahl's law with a cost of each core."""

    work: float
    power: float
    serial: float
    overhead: float

    def elapsed_s(self, predictor: float, cores: float) -> float:
        share = self.serial + (1 - self.serial) / cores
        return self.work * predictor**self.power * share + self.overhead * cores


@dataclass(frozen=True)
class Case:
    """A network of planted curves on a machine, taught with or without noise."""

    network: str
    cores: int
    seed: int
    noise: float

    @property
    def name(self) -> str:
        return f"{self.network}-{self.cores}-{self.seed}-{self.noise}"

    def curves(self) -> dict[str, Curve]:
        rng = random.Random(f"curves {self.network} {self.cores} {self.seed}")
        uneven = 10.0 if self.network == "uneven" else 1.0
        return {
            name: Curve(
                10 ** rng.uniform(-3.5, -2.5) * (uneven if name == "a" else 1.0),
                rng.choice((0.8, 1.0, 1.2)), rng.uniform(0.0, 0.3), rng.choice((0.0, 0.0, 2e-4)),
            )
            for name in NETWORKS[self.network]
        }  # fmt: skip

    def taught(self) -> Advisor:
        rng = random.Random(f"rows {self.name}")
        advisor = Advisor()
        for name, curve in self.curves().items():
            for predictor in SIZES:
                for cores in range(1, self.cores + 1):
                    factor = math.exp(rng.gauss(0.0, self.noise)) if self.noise else 1.0
                    advisor.observe(
                        name, predictor=predictor, cores=cores, elapsed_s=curve.elapsed_s(predictor, cores) * factor
                    )
        return advisor


def throughput(plan: Allocation, curves: dict[str, Curve], load: dict[str, float]) -> float:
    """Return the true throughput of a pipeline: of its slowest component, or of its slowest group in turn."""
    rates = [plan.instances[key] / curves[key].elapsed_s(load[key], cores) for key, cores in plan.cores.items()]
    for cores, keys in plan.groups:
        rates.append(1 / sum(curves[key].elapsed_s(load[key], cores) for key in keys))
    return min(rates)


def best(curves: dict[str, Curve], load: dict[str, float], cores: int) -> float:
    """Return the best throughput of whole cores for each component, by trying each bottleneck's rate."""

    @cache
    def fastest(name: str, limit: int) -> float:
        return max(1 / curves[name].elapsed_s(load[name], p) for p in range(1, limit + 1))

    rates = {fastest(name, p) for name in curves for p in range(1, cores + 1)}
    reached = [
        rate
        for rate in rates
        if sum(next((p for p in range(1, cores + 1) if fastest(name, p) >= rate), cores + 1) for name in curves)
        <= cores
    ]
    return max(reached)


def values(case: Case) -> list[float]:
    """Return the value of each plan of a case."""
    advisor, curves = case.taught(), case.curves()
    rng = random.Random(f"loads {case.name}")
    found = []
    for _ in range(PLANS):
        load = {name: rng.choice((50.0, 70.0, 100.0, 150.0, 200.0)) for name in curves}
        plan = advisor.allocate(" .. ".join(curves), cores=case.cores, load=load)
        assert plan.cores_used <= case.cores
        found.append(throughput(plan, curves, load) / best(curves, load, case.cores))
    return found


CASES = [
    Case(network, cores, seed, noise)
    for network in NETWORKS for cores in MACHINES
    for seed, noise in ((0, 0.0), (1, 0.0), (2, 0.05), (3, 0.05), (4, 0.05))
]  # fmt: skip


@pytest.fixture(scope="module")
def recorded() -> dict[str, list[float]]:
    return json.loads(RECORDED.read_text())


def test_there_are_five_hundred_plans(recorded: dict[str, list[float]]) -> None:
    assert sum(map(len, recorded.values())) == 500


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("cores", MACHINES)
def test_no_plan_is_worth_less_than_recorded(recorded: dict[str, list[float]], network: str, cores: int) -> None:
    noisy, before = [], []
    for case in (case for case in CASES if (case.network, case.cores) == (network, cores)):
        found = values(case)
        if case.noise:
            noisy += found
            before += recorded[case.name]
        else:
            worse = [(now, then) for now, then in zip(found, recorded[case.name], strict=True) if now < then - ROUNDING]
            assert not worse, f"{case.name}: {worse}"
    assert math.fsum(noisy) >= math.fsum(before) - ROUNDING * len(before)


def record() -> None:
    lines = [f"{json.dumps(case.name)}: {json.dumps([round(value, 10) for value in values(case)])}" for case in CASES]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    record()
