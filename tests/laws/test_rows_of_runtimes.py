"""What rows as runtimes send them may lead to: coarse clocks, rows without a size, sizes of 0, several machines."""

import itertools

import numpy as np
import pytest

from advisor.engine import Advisor
from advisor.engine.learners import Solved
from advisor.models.learner_layout import CELLS, COARSEST


@pytest.mark.parametrize("decades", [(13.0, 17.0), (-11.0, -7.0)])
@pytest.mark.parametrize("without_size", [0.0, 0.05, 0.3])
def test_a_state_opens_again_whatever_rows_it_has_seen(decades: tuple[float, float], without_size: float) -> None:
    """A clock of coarse ticks, and some rows without a size: a third of such states were called damaged.

    The model may say anything of a cell that it leaves out, e**-1000 among others.
    """
    for seed in range(30):
        rng, advisor = np.random.default_rng(seed), Advisor()
        x = 10.0 ** rng.uniform(*decades, 60)
        t = 1e-3 * x / 10.0 ** decades[0]
        tick = np.median(t) / 3.0
        advisor.observe_columns(
            components=["c"], index=np.zeros(60, int), predictor=np.where(rng.random(60) < without_size, 1.0, x),
            cores=np.ones(60), elapsed_s=np.maximum(np.rint(t / tick) * tick, 1e-9),
        )  # fmt: skip
        state = advisor.to_bytes()
        assert Advisor.from_bytes(state).to_bytes() == state, seed


@pytest.mark.parametrize("large", [30.0, 1e17])
@pytest.mark.parametrize(("predictors", "machines"), [(2, 12), (3, 5), (4, 3), (4, 12)])
def test_predictors_of_0_on_several_machines_are_more_cells_than_there_is_room_for(
    predictors: int, machines: int, large: float
) -> None:
    """None is ever near another: the lattice was made coarser beyond its coarsest, and memory was overwritten."""
    advisor, rng = Advisor(), np.random.default_rng(1)
    for x in itertools.product((0.0, 7.0, large), repeat=predictors):
        for machine in range(machines):
            t = (1.0 + sum(x)) ** 0.1 * rng.lognormal(0.0, 0.1)
            advisor.observe("c", predictor=list(x), cores=2, elapsed_s=t, machine=f"m{machine}")
        table = advisor.components.learners.tables[f"learner-{predictors + 1}"]
        assert table.int_field("cells")[0] <= CELLS
        assert table.integers("coarseness")[0].max() <= COARSEST
    state = advisor.to_bytes()
    assert Advisor.from_bytes(state).to_bytes() == state
    for x in itertools.product((0.0, 7.0), repeat=predictors):
        reported = advisor.predict("c", predictor=list(x), cores=2, machine="m1")
        assert reported.low_s <= reported.elapsed_s <= reported.high_s
        if large < 100.0:  # else one place of the lattice holds both sizes
            assert 0.2 < reported.elapsed_s < 5.0


def test_an_answer_over_the_load_lies_within_its_interval() -> None:
    """One run without a size among a thousand of tiny ones is a long way to extrapolate, and takes as long."""
    advisor, rng = Advisor(), np.random.default_rng(1)
    x = 10.0 ** rng.uniform(-11, -7, 1000)
    x[500] = 1.0
    advisor.observe_columns(
        components=["c"], index=np.zeros(1000, int), predictor=x, cores=np.ones(1000),
        elapsed_s=np.where(x < 1.0, 1e9 * x, 1.0),
    )  # fmt: skip
    reported = advisor.predict("c", cores=1)
    assert reported.low_s <= reported.elapsed_s <= reported.high_s


def test_a_suggestion_where_the_model_is_far_below_the_legal_times_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer's error over a run of e**-400 s was infinite, and no interval was any narrower for it."""
    advisor = Advisor()
    for x in range(1, 9):
        advisor.observe("c", predictor=x, cores=1, elapsed_s=0.1 * x)
    advisor.components.learners.tables["learner-2"].column("absolute")[0] = 1e-6
    monkeypatch.setattr(
        Solved, "curve", lambda self, x, p: np.stack([np.full(len(p), -400.0), np.ones(len(p))], axis=1)
    )
    assert all(suggestion.narrower is not None and suggestion.narrower >= 0.0 for suggestion in advisor.suggest("c"))
