"""Rows for the laws of learners, and the faces that take them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from advisor.domain import limits
from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.domain.rows import ABSENT_U64, KILLED
from advisor.engine import Advisor, Engine
from advisor.models.learner_layout import LearnerTable

NAMES = ["alpha", "beta", "gamma"]
BASE_MODELS = ("two_step", "joint degree 0", "joint degree 3", "amdahl")
MODELS = (None, *BASE_MODELS, "learner")
BUDGETS = (0, 2**24)  # the base tier alone, and with learners
RECORD_BYTES = LearnerTable(2).words_a_record * 8  # of a learner, one predictor
ROOMS = st.sampled_from([0, RECORD_BYTES, 3 * RECORD_BYTES, 2**24])  # for none, one, a few, all

# -- rows -----------------------------------------------------------------------------------------------------------------

ORDERS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "random": lambda rng, n: rng.random(n) * 1000.0,
    "rising": lambda rng, n: np.cumsum(rng.random(n) * 10.0),
    "falling": lambda rng, n: 1e6 * np.cumprod(rng.uniform(0.5, 1.0, n)),
    "constant": lambda rng, n: np.full(n, 300.0),
    "log-uniform": lambda rng, n: 10.0 ** rng.uniform(-20.0, 18.0, n),
    "narrow and far": lambda rng, n: 1e9 + rng.integers(0, 10_000, n),
    "hops to zero": lambda rng, n: rng.choice([0.0, 2.0**-70, 1e-9, 1.0, 5e5, 2.0**60], n),
}
CORES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "mixed": lambda rng, n: rng.choice([1.0, 2.0, 4.0, 8.0, 47.0], n),
    "one": lambda rng, n: np.full(n, 4.0),
    "falling": lambda rng, n: np.sort(rng.choice([1.0, 2.0, 4.0, 8.0], n))[::-1],
    "rising": lambda rng, n: np.sort(rng.choice([1.0, 2.0, 4.0, 8.0], n)),
    "fractions": lambda rng, n: rng.choice([2.0**-10, 0.25, 0.5, 1.5], n),
}


@st.composite
def batches(draw: st.DrawFn, rows_max: int = 150) -> Columns:
    """Return rows of a few components, in an order that tries the moving parts of the basis, the sketch and two_step."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(1, rows_max))
    x = ORDERS[draw(st.sampled_from(sorted(ORDERS)))](rng, n)
    p = CORES[draw(st.sampled_from(sorted(CORES)))](rng, n)
    noise = np.exp(draw(st.sampled_from([0.0, 0.1, 2.0])) * rng.standard_normal(n))
    t = np.clip((1e-3 + 1e-6 * np.minimum(x, 1e6)) * (0.1 + 0.9 / p) * noise, 1e-9, 1e9)
    extra: dict[str, Any] = {}
    if draw(st.booleans()):
        extra["count"] = rng.integers(1, 2**32, n, endpoint=True)
    if draw(st.booleans()):
        extra["ok"] = rng.random(n) < 0.9
    if draw(st.booleans()):
        extra["running"] = rng.random(n) < 0.1
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    return columns_of(ComponentNames(names), rng.integers(0, len(names), n), x, p, t, **extra)


@st.composite
def rich_batches(draw: st.DrawFn, rows_max: int = 120) -> Columns:
    """Return rows of components of one to four predictors, some of a width that is not theirs, on machines, with measures."""
    columns = draw(batches(rows_max))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = len(columns)
    extra: dict[str, Any] = {}
    if draw(st.booleans()):
        number = rng.integers(-1, draw(st.sampled_from([2, 10])), n)  # more machines than are told apart
        extra = {"machine": number, "machines": tuple(f"m{i}" for i in range(10))}
    if draw(st.booleans()):
        extra["measures"] = {
            name: np.where(rng.random(n) < share, rng.lognormal(20.0, 1.0, n), np.nan)
            for name, share in (("peak_bytes", 0.8), ("energy_j", 0.1))
        }
    if draw(st.booleans()):
        extra["killed"] = rng.choice([0, 0, 0, 0, 1, 2], n)
    if draw(st.booleans()):
        extra["active_cores"] = np.where(rng.random(n) < 0.8, columns.cores + rng.integers(0, 9, n), np.nan)
    if draw(st.booleans()):
        extra |= {
            "network": rng.integers(-1, 2, n),
            "networks": ("net", "other"),
            "entered": rng.random(n) < 0.3,
            "replica": np.where(rng.random(n) < 0.9, rng.integers(0, 9, n, dtype=np.uint64), np.uint64(ABSENT_U64)),
        }
    if draw(st.booleans()):
        stray = draw(st.sampled_from([0.02, 0.3, 0.7]))
        width = columns.index + draw(st.integers(0, 1)) + (rng.random(n) < stray)  # values beyond the first
        values = rng.choice([0.0, 1.0, 7.0, 1e6, 2.0**60], (n, 3))
        extra["further"] = np.where(np.arange(3) < width[:, None], values, np.nan)
    return replace(columns, **extra)


@st.composite
def mixed_batches(draw: st.DrawFn, rows_max: int = 120) -> Columns:
    """Return rich batches some of whose rows have no predictor, here and there or those of the beginning."""
    columns = draw(rich_batches(rows_max))
    rng, n = np.random.default_rng(draw(st.integers(0, 2**32))), len(columns)
    absent = (np.arange(n) < draw(st.integers(0, n))) | (rng.random(n) < draw(st.sampled_from([0.0, 0.1, 0.5])))
    if columns.further is not None:
        columns.further[absent] = np.nan
    return replace(columns, predictor=np.where(absent, 1.0, columns.predictor), absent=absent if absent.any() else None)


def fresh(columns: Columns) -> Columns:
    """Return the batch with an unresolved list of names: a list belongs to one engine."""
    return replace(columns, components=ComponentNames(columns.components.names))


def learned_names(advisor: Advisor) -> list[str]:
    components = advisor.components
    return [n for n in components.slots.components if components.table.evidence(components.slots.slot_of(n)) > 0]


def record_words(advisor: Advisor, component: str) -> np.ndarray:
    """Return the words of a component's record, without the number of its slot."""
    found = advisor.components.learners.find_record(advisor.components.slots.slot_of(component))
    if found is None:
        return np.zeros(0, np.uint64)
    table, place = found
    return np.delete(table.words.view(np.uint64)[place], table.at["component"].start)


def parts(columns: Columns, cuts: list[int]) -> Iterator[Columns]:
    edges = [0, *sorted({cut % (len(columns) + 1) for cut in cuts}), len(columns)]
    for start, stop in itertools.pairwise(edges):
        if stop > start:
            yield columns.select_rows(slice(start, stop))


# -- faces ----------------------------------------------------------------------------------------------------------------


def by_columns(advisor: Advisor, columns: Columns) -> None:
    advisor.learn_batch(fresh(columns))


def by_observe(advisor: Advisor, columns: Columns) -> None:
    for i in range(len(columns)):
        point = columns.predictor[i].item()
        if columns.absent is not None and columns.absent[i]:
            point = None
        elif columns.further is not None:
            point = [point, *(v for v in columns.further[i].tolist() if v == v)]
        extra: dict[str, Any] = {}
        if columns.machine is not None and columns.machine[i] >= 0:
            extra["machine"] = columns.machines[columns.machine[i]]
        if columns.measures:
            extra["measures"] = {name: values[i].item() for name, values in columns.measures.items()}
        if columns.killed is not None:
            extra["killed"] = (None, *KILLED)[columns.killed[i]]
        if columns.active_cores is not None and columns.active_cores[i] == columns.active_cores[i]:
            extra["active_cores"] = columns.active_cores[i].item()
        if columns.network is not None:
            extra["network"] = None if columns.network[i] < 0 else columns.networks[columns.network[i]]
            extra["replica"] = None if columns.replica[i] == ABSENT_U64 else columns.replica[i].item()
            if columns.entered[i]:
                extra["entered"] = True
        advisor.observe(
            columns.components.names[columns.index[i]],
            predictor=point,
            cores=columns.cores[i].item(),
            elapsed_s=columns.elapsed_s[i].item(),
            count=1 if columns.count is None else columns.count[i].item(),
            ok=columns.ok is None or bool(columns.ok[i]),
            running=columns.running is not None and bool(columns.running[i]),
            **extra,
        )


def by_engine(advisor: Advisor, columns: Columns) -> None:
    engine = Engine()
    engine.advisor = advisor
    engine.apply_event(("laws", bytes(16)), 1, fresh(columns))


FACES = {"columns": by_columns, "observe": by_observe, "engine": by_engine}


def assert_prior(advisor: Advisor) -> None:
    """Component "c" has learned nothing: the answer says so, in every field, and is bounded."""
    for model in (None, "learner"):
        answer = advisor.predict("c", predictor=np.array([0.0, 1.0, 1e9])[:, None], cores=[0.5, 8.0], model=model)
        assert (answer.model, answer.observations) == ("prior", 0)
        assert "no run of this component was learned" in answer.notes[0]
        assert (answer.extrapolates == np.inf).all()
        assert (answer.low_s < answer.elapsed_s).all()
        assert (answer.elapsed_s < answer.high_s).all()
        assert (answer.high_s / answer.low_s > 50).all()
        assert answer.elapsed_s.shape == answer.extrapolates.shape == (3, 2)
    one = advisor.predict("c")
    assert (one.model, one.observations, one.extrapolates) == ("prior", 0, np.inf)
    assert 0 < one.low_s < one.elapsed_s < one.high_s
    choice = advisor.choose_cores("c", cores_max=4)
    assert (choice.cores, choice.model, choice.extrapolates) == (3, "prior", np.inf)  # nearest 4 ** (3 / 4)
    assert "no run of 'c' was learned" in choice.assumed


def assert_possible(answer: Any, context: object, unit: float = 1.0) -> None:
    """`unit`: of what is measured, a second of elapsed time."""
    values = np.stack([answer.low_s, answer.elapsed_s, answer.high_s])
    assert np.isfinite(values).all(), (context, values)
    assert (values > 0).all(), (context, values)
    if answer.model == "learner":
        assert (values >= limits.ELAPSED_MIN_S * unit).all(), (context, values)
        assert (values <= limits.ELAPSED_MAX_S * unit).all(), (context, values)
    assert (np.diff(values, axis=0) >= 0).all(), (context, values)
    assert np.isfinite(answer.extrapolates).all()
    assert (answer.extrapolates >= 0).all()


def points_for(advisor: Advisor, component: str, x: Any) -> Any:
    """Return values (n,) as points of as many predictors as the component has."""
    dimensions = advisor.components.dimensions(advisor.components.slots.slot_of(component))
    return np.asarray(x) if dimensions == 1 else np.stack([np.asarray(x)] * dimensions, axis=-1)
