"""Tables for plans against the expectation taken the long way: over every point of the load, by `predict`."""

from __future__ import annotations

import numpy as np
import pytest
from curve_vectors import advisor_of

from advisor import Advisor
from advisor.errors import InvalidValue
from advisor.models.load_table import points_of

ADVISORS = {"base": advisor_of(21, 0, ""), "rich": advisor_of(22, 2**24, "")}
NAMES = ("amdahl", "rises", "cubic", "zero", "one count", "one size", "fraction")


def expected(advisor: Advisor, name: str, counts: np.ndarray) -> np.ndarray:
    slot = advisor.components.slots.slot_of(name)
    x, share = points_of(advisor.components.table, slot)
    return np.array([share @ advisor.predict(name, predictor=x, cores=float(p)).elapsed_s for p in counts])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tier", ["base", "rich"])
def test_a_table_is_the_expectation_over_the_load(tier: str, name: str) -> None:
    advisor = ADVISORS[tier]
    table = advisor.curve_tables.curves([name], cores_max=64)
    truth = expected(advisor, name, table.cores)
    # Exact for a form. Speedups of a mixture are taken at six predictors: they depend on x where work starts from a constant.
    assert table.elapsed_s[0] == pytest.approx(
        truth, rel=1e-12 if tier == "base" else 0.02 if name == "zero" else 0.003
    )
    assert (table.upper_s >= table.elapsed_s).all()
    assert table.contention.tolist() == [0.0]


def test_the_bound_narrows_with_evidence_and_widens_with_the_level() -> None:
    few, many = Advisor(), Advisor()
    rng = np.random.default_rng(3)
    for advisor, rows in ((few, 12), (many, 600)):
        x, p = rng.uniform(10, 100, rows), rng.choice([1.0, 2.0, 4.0, 8.0], rows)
        advisor.observe_columns(
            components=["c"], index=np.zeros(rows, int), predictor=x, cores=p,
            elapsed_s=1e-3 * x / p * np.exp(rng.normal(0, 0.2, rows)),
        )  # fmt: skip
    ratio = {
        (name, level): (table.upper_s / table.elapsed_s)[0, 3]
        for name, advisor in (("few", few), ("many", many))
        for level in (0.5, 0.9, 0.99)
        for table in [advisor.curve_tables.curves(["c"], cores_max=8, level=level)]
    }
    assert ratio["few", 0.9] - 1 > 2 * (ratio["many", 0.9] - 1)
    assert ratio["many", 0.5] == 1.0 < ratio["many", 0.9] < ratio["many", 0.99]
    # The mean's own doubt and not a run's, which stays at 20 %.
    assert ratio["many", 0.9] < 1.1


def test_variation_is_that_of_inputs_and_noise() -> None:
    rng = np.random.default_rng(4)
    n = 4_000
    x = rng.choice([10.0, 90.0], n)
    for memory in (0, 2**24):
        advisor = Advisor(model_memory_bytes=memory)
        t = 1e-3 * x * np.exp(rng.normal(-0.02, 0.2, n))
        advisor.observe_columns(components=["c"], index=np.zeros(n, int), predictor=x, cores=np.ones(n), elapsed_s=t)
        assert advisor.curve_tables.curves(["c"], cores_max=4).variation[0] == pytest.approx(
            t.var() / t.mean() ** 2, rel=0.1
        )


def test_a_load_that_is_given_is_the_prediction_there() -> None:
    for advisor in ADVISORS.values():
        table = advisor.curve_tables.curves(["box", "amdahl"], {"box": "amdahl"}, {"box": 700.0}, cores_max=16)
        truth = [advisor.predict("amdahl", predictor=700.0, cores=float(p)).elapsed_s for p in table.cores]
        assert table.elapsed_s[0] == pytest.approx(truth, rel=1e-9)
        assert table.elapsed_s[1] != pytest.approx(truth, rel=0.01)
        with pytest.raises(InvalidValue):
            advisor.curve_tables.curves(["amdahl"], {}, {"amdahl": [1.0]}, cores_max=16)  # type: ignore[dict-item]


def test_predictors_of_several_values_are_weighed_as_they_came() -> None:
    advisor = ADVISORS["rich"]
    table = advisor.curve_tables.curves(["pairs"], cores_max=16)
    rng = np.random.default_rng(22)
    x = 2.0 ** rng.uniform(3, 12, 240)
    mean = float((1e-6 * x * x[::-1]).mean())
    assert table.elapsed_s[0, 0] == pytest.approx(mean, rel=0.15)
    assert table.elapsed_s[0, 7] == pytest.approx(mean / 8, rel=0.15)


def test_memory_is_an_upper_bound_where_it_was_measured() -> None:
    advisor = Advisor()
    for k in range(60):
        x = float(10 + k)
        advisor.observe("c", predictor=x, cores=1 << k % 3, elapsed_s=x / 100, measures={"peak_bytes": 1e6 * x})
        advisor.observe("d", predictor=x, cores=1, elapsed_s=x / 100)
    table = advisor.curve_tables.curves(["c", "d"], cores_max=8)
    assert 6.5e7 < table.peak_bytes[0] < 1.4e8
    assert table.peak_bytes[1] == 0.0


def test_a_plan_by_tables_is_worth_more_than_one_by_amdahl_where_curves_rise() -> None:
    """On the true curves, three pipelines of boxes that slow down beyond some cores: `plan`, given either kind of curves."""
    from advisor.network import parse  # noqa: PLC0415
    from advisor.planning import Request, plan  # noqa: PLC0415

    names = ["a", "b", "c"]
    for seed in range(3):
        rng = np.random.default_rng(seed)
        serial, queue = rng.uniform(0.02, 0.1, 3), rng.uniform(0.003, 0.02, 3)
        n = 200
        index, x = np.repeat(np.arange(3), n), rng.uniform(50, 500, 3 * n)
        p = rng.choice([1.0, 2.0, 4.0, 8.0, 16.0, 32.0], 3 * n)

        def truth(i: np.ndarray, x: np.ndarray, p: np.ndarray) -> np.ndarray:
            return 1e-3 * x * (serial[i] + (1 - serial[i]) / p + queue[i] * (p - 1))  # noqa: B023

        advisor, plain = Advisor(), Advisor(model_memory_bytes=0)  # whose curves are A + B / p
        times = truth(index, x, p) * np.exp(rng.normal(0, 0.05, 3 * n))
        for each in (advisor, plain):
            each.observe_columns(components=names, index=index, predictor=x, cores=p, elapsed_s=times)
        network, request = parse("a .. b .. c"), Request(cores=60, objective="latency", turns="never")
        latency = []
        for curves in (
            advisor.curve_tables.curves(names, cores_max=60),
            plain.curve_tables.curves(names, cores_max=60),
        ):
            given = plan(network, curves, request).cores
            cores = np.array([given[name] for name in names], np.float64)
            latency.append(truth(np.arange(3), np.full(3, 275.0), cores).sum())
        assert latency[0] < 0.9 * latency[1]
        used = sum(advisor.allocate("a .. b .. c", cores=60, objective="latency").cores.values())
        assert used < 60  # and gives back the cores that would only cost
