"""What is shown of components, of how predictions fare, and of networks, held against what the advisor itself answers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from advisor import Advisor
from advisor.engine.rows import SEPARATOR
from advisor.errors import UnknownComponent
from advisor.pictures import views

SIZES, CORES = (100.0, 200.0, 400.0), (1.0, 2.0, 4.0, 8.0)


def learned(rows: int = 240, **limits: Any) -> Advisor:
    advisor, rng = Advisor(**limits), np.random.default_rng(5)
    for n in range(rows):
        x, p = SIZES[n % 3], CORES[n // 3 % 4]
        advisor.observe("blur", predictor=x, cores=p, elapsed_s=1e-3 * x * (0.2 + 0.8 / p) * rng.lognormal(0.0, 0.05))
    return advisor


def test_a_view_is_what_the_advisor_predicts_and_what_it_keeps() -> None:
    advisor = learned()
    before = advisor.to_bytes()
    view = views.view(advisor, "blur")
    assert json.loads(json.dumps(view, allow_nan=False)) == view
    typical = view["curves"][0]
    assert typical["predictor"] == [200.0]
    assert view["seen"] == [1.0, 8.0]
    assert {1.0, 2.0, 4.0, 8.0, 16.0} <= set(typical["cores"])
    for place, cores in enumerate(typical["cores"]):
        answer = advisor.predict("blur", predictor=200.0, cores=cores)
        shown = [typical[name][place] for name in ("elapsed_s", "low_s", "high_s")]
        assert shown == pytest.approx([answer.elapsed_s, answer.low_s, answer.high_s], rel=1e-5)
    cells = view["cells"]
    assert sum(cells["runs"]) == pytest.approx(240.0)
    assert {(x, p) for [x], p in zip(cells["predictor"], cells["cores"], strict=True)} == {
        (x, p) for x in SIZES for p in CORES
    }
    assert view["growth"]["predictor"][0] == 100.0
    assert view["growth"]["predictor"][-1] == 400.0
    assert view["advice"]["cores"] == advisor.choose_cores("blur", predictor=200.0, cores_max=8).cores
    row = views.row(advisor, "blur")
    assert all(row[key] == view[key] for key in row)
    assert advisor.to_bytes() == before


@pytest.mark.parametrize(
    "case",
    ["no learner", "several values", "one run", "failed runs only", "fractions of a core", "size 0", "forgotten"],
)
def test_whatever_was_learned_can_be_shown(case: str) -> None:
    advisor = Advisor(model_memory_bytes=0 if case == "no learner" else 2**20)
    for n in range(1 if case == "one run" else 30):
        x: Any = (64.0, 1.0 + n % 3) if case == "several values" else 0.0 if case == "size 0" else 1.0 + n % 5
        cores = 0.25 * (1 + n % 4) if case == "fractions of a core" else 1 + n % 4
        advisor.observe("c", predictor=x, cores=cores, elapsed_s=1.0 / cores, ok=case != "failed runs only")
    if case == "forgotten":
        advisor.forget("c")
    view, row = views.view(advisor, "c"), views.row(advisor, "c")
    assert json.dumps([view, row], allow_nan=False)
    assert ("curves" in view) == ("advice" in row) == (case not in ("failed runs only", "forgotten"))
    if "curves" in view:
        assert all(min(curve["low_s"]) > 0.0 for curve in view["curves"])
        assert bool(view["cells"]) == (case != "no learner")


def test_the_size_of_a_view_does_not_grow_with_rows() -> None:
    few, many = (len(json.dumps(views.view(learned(rows), "blur"))) for rows in (240, 2400))
    assert many < 1.2 * few < 12_000


def test_components_are_found_by_a_part_of_their_name_those_of_most_runs_first() -> None:
    advisor = Advisor()
    for n, (name, runs) in enumerate((("Render.a", 1), ("render.b", 19), ("load", 14), ("UNRENDERED", 2))):
        for k in range(runs):
            advisor.observe(name, elapsed_s=1.0 + 0.5 * n * (k % 2), measures={"peak_bytes": 1.0})
    names, known = advisor.components.slots.names, len(advisor.components.slots.names)
    assert known > 4  # what is measured beside time has places of its own

    def found(text: str) -> list[str]:
        return [advisor.components.slots.owner(slot) for slot in views.found(advisor, text, known).tolist()]

    assert found(" rEnder") == ["render.b", "UNRENDERED", "Render.a"]
    assert found("") == ["render.b", "load", "UNRENDERED", "Render.a"]
    assert found("nothing") == []
    with pytest.raises(UnknownComponent, match="load"):
        views.view(advisor, "laod")
    with pytest.raises(UnknownComponent):
        views.row(advisor, next(name for name in names if SEPARATOR in name))
