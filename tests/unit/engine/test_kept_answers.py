"""What is kept of answers stands for all that they rest on: asked again, an engine says what one that was never asked says."""

from __future__ import annotations

from typing import Any

import pytest

from advisor import Advisor


def learned(component: str, rows: int, predictor: Any = 10.0, **optional: Any) -> Advisor:
    """Return an engine that saw some rows of a component, by Amdahl's law."""
    advisor = Advisor()
    teach(advisor, component, rows, predictor, **optional)
    return advisor


def teach(advisor: Advisor, component: str, rows: int, predictor: Any = 10.0, **optional: Any) -> None:
    for row in range(rows):
        cores = 2 ** (row % 4)
        advisor.observe(
            component,
            predictor=predictor,
            cores=cores,
            elapsed_s=(0.2 + 0.8 / cores) * (1.0 + row % 3 / 20),
            **optional,
        )


def plan(advisor: Advisor) -> dict[str, Any]:
    return advisor.allocate("a", cores=12, turns="never").as_dict()


def curves(advisor: Advisor) -> list[Any]:
    found = advisor.curve_tables.curves(["a"], cores_max=12)
    return [found.elapsed_s.tolist(), found.upper_s.tolist(), found.peak_bytes.tolist()]


def test_a_run_that_is_not_over_yet_makes_curves_anew() -> None:
    advisor = learned("a", 20)
    version = advisor.bundles.version
    advisor.bundle()
    advisor.observe("a", predictor=10.0, cores=2, elapsed_s=900.0, running=True)
    assert advisor.bundles.changed(version) == [0]
    assert advisor.bundle()[24:] == Advisor.from_bytes(advisor.to_bytes()).bundle()[24:]


def test_rows_of_siblings_make_curves_of_few_rows_anew() -> None:
    advisor = learned("a", 2)
    version = advisor.bundles.version
    advisor.bundle()
    teach(advisor, "b", 20)
    assert advisor.bundles.changed(version) == [0, 1]
    assert advisor.bundle()[24:] == Advisor.from_bytes(advisor.to_bytes()).bundle()[24:]


@pytest.mark.parametrize("optional", [{"predictor": None}, {"measures": {"peak_bytes": 1e8}}])
def test_rows_of_siblings_make_plans_anew_where_a_part_of_a_curve_has_few_rows(optional: dict[str, Any]) -> None:
    advisor = learned("a", 20)
    teach(advisor, "a", 3, **optional)
    first = curves(advisor)
    teach(advisor, "b", 20, **optional)
    assert curves(advisor) == curves(Advisor.from_bytes(advisor.to_bytes())) != first


def test_a_failed_run_with_a_predictor_leaves_plans_to_the_runs_without_one() -> None:
    advisor = learned("a", 20, None)
    first = plan(advisor)
    advisor.observe("a", predictor=10.0, cores=2, elapsed_s=1.0, ok=False)
    found = plan(advisor)
    assert {key: found[key] for key in ("cores", "throughput_per_s")} == {
        key: first[key] for key in ("cores", "throughput_per_s")
    }


@pytest.mark.parametrize("memory", [0, 2**20])
def test_plans_know_the_memory_of_a_component_of_two_predictors_whose_times_a_form_answers(memory: int) -> None:
    advisor = Advisor(model_memory_bytes=memory)
    teach(advisor, "a", 20, (10.0, 3.0), measures={"peak_bytes": 1e8})
    if memory:
        advisor.pin("a", "two_step")
    assert advisor.curve_tables.curves(["a"], cores_max=8).peak_bytes[0] == pytest.approx(1e8, rel=0.5)
    assert advisor.allocate("a", cores=8, memory_bytes=1e10).cores["a"] >= 1
