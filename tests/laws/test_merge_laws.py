"""Merging keeps what each learner declares: counts exact, unweighted sums to rounding, weighted sums to rounding where the
weights agree, answers close where they do not.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learner_rows import record_words

from advisor.domain import limits
from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.engine import Advisor
from advisor.errors import TooLarge
from advisor.models import sums
from advisor.models.learner_layout import LearnerTable
from advisor.models.table import Table

UNWEIGHTED = ("least_gram", "least_right", "least_square", "cell_sum", "cell_square", "top_sum")
WEIGHTED = ("gram", "right", "square")
EXACT = ("cell_runs", "cell_exponent", "top_runs", "top_predictor")
RANGES = ("x_low", "x_high", "p_low", "p_high", "t_low")
ROUNDING = 1e-12


def rows(seed: int, n: int, spread: str = "wide", noise: float = 0.05, components: int = 1) -> Columns:
    rng = np.random.default_rng(seed)
    x = {
        "wide": 10.0 ** rng.uniform(0, 4, n),
        "far": 1e9 + rng.integers(0, 10_000, n),
        "grid": rng.integers(1, 9, n) * 50.0,
    }[spread]
    p = rng.choice([1.0, 2.0, 4.0, 8.0], n)
    t = (
        (1e-3 + 1e-6 * (x - (1e9 - 1.0 if spread == "far" else 0.0)))
        * (0.1 + 0.9 / p)
        * np.exp(noise * rng.standard_normal(n))
    )
    names = ComponentNames([f"c{i}" for i in range(components)])
    return columns_of(names, rng.integers(0, components, n), x, p, t, count=rng.integers(1, 50, n))


def shards(columns: Columns, cuts: list[int]) -> list[Columns]:
    edges = [0, *sorted(cuts), len(columns)]
    return [columns.select_rows(slice(a, b)) for a, b in itertools.pairwise(edges)]


def learned(columns: Columns, memory: int = 2**24) -> Advisor:
    advisor = Advisor(model_memory_bytes=memory)
    advisor.observe_columns(
        components=columns.components.names, index=columns.index, predictor=columns.predictor, cores=columns.cores,
        elapsed_s=columns.elapsed_s, count=columns.count,
    )  # fmt: skip
    return advisor


def merged(columns: Columns, cuts: list[int], memory: int = 2**24) -> Advisor:
    total = Advisor(model_memory_bytes=memory)
    for shard in shards(columns, cuts):
        total.merge(learned(shard, memory))
    return total


def gathered(table: Table, slots: list[int] | np.ndarray) -> Table:
    """Return a table of copies of some slots."""
    part = Table(len(slots))
    part.words[: len(slots)] = table.words[slots]
    return part


def in_one_basis(*advisors: Advisor) -> list[Table]:
    """Return copies of the tables, slots in the order of names, re-expressed in one basis: sums compare only there."""
    tables = []
    for advisor in advisors:
        names = sorted(advisor.components.slots.names)
        tables.append(gathered(advisor.components.table, [advisor.components.slots.slot_of(n) for n in names]))
    for slot in range(tables[0].size):
        of = [table.records[slot] for table in tables]
        origin = min(w[sums.ORIGIN] for w in of)
        scale = max(w[sums.SCALE] for w in of)
        while scale < max(w[sums.X_HIGH] for w in of) - origin:
            scale *= 2.0
        for w in of:
            sums.relocate(w, origin, scale)
    return tables


def assert_equal_to_rounding(one: Table, other: Table, fields: tuple[str, ...]) -> None:
    for field in fields:
        np.testing.assert_allclose(one[field], other[field], rtol=ROUNDING, atol=0, err_msg=field)


SPREADS = st.sampled_from(["wide", "far", "grid"])


@given(st.integers(0, 2**32), st.integers(1, 300), SPREADS, st.lists(st.integers(0, 300), max_size=4))
@settings(max_examples=60, deadline=None)
def test_counts_ranges_and_unweighted_sums_merge_exactly_or_to_rounding(
    seed: int, n: int, spread: str, cuts: list[int]
) -> None:
    columns = rows(seed, n, spread, components=3)
    whole, together = learned(columns), merged(columns, [min(c, n) for c in cuts])
    assert sorted(whole.components.slots.names) == sorted(together.components.slots.names)
    assert whole.components.totals == together.components.totals
    one, other = in_one_basis(whole, together)
    # A shard's own history decides what is a change or an outlier to it, and with it what its sums hold.
    calm = np.flatnonzero(
        [all(t[f][i] == 0 for t in (one, other) for f in ("changes", "outliers")) for i in range(one.size)]
    )
    one, other = gathered(one, calm), gathered(other, calm)
    for field in ("rows", "extra_runs", "failed", "unfinished", "start"):
        np.testing.assert_array_equal(one.int_field(field), other.int_field(field), err_msg=field)
    for field in (*EXACT, *RANGES):
        np.testing.assert_array_equal(one[field], other[field], err_msg=field)
    assert_equal_to_rounding(one, other, UNWEIGHTED)


@given(
    st.integers(0, 2**32),
    st.integers(1, 15),
    st.sampled_from(["wide", "far", "grid"]),
    st.lists(st.integers(0, 15), max_size=3),
)
@settings(max_examples=60, deadline=None)
def test_weighted_sums_of_young_shards_merge_to_rounding(seed: int, n: int, spread: str, cuts: list[int]) -> None:
    columns = rows(seed, n, spread)
    one, other = in_one_basis(learned(columns), merged(columns, [min(c, n) for c in cuts]))
    assert_equal_to_rounding(one, other, WEIGHTED)


@pytest.mark.parametrize("cuts", [[1000], [500, 1000, 1500], [30], [1985]])
def test_answers_after_a_merge_are_those_of_one_state(cuts: list[int]) -> None:
    columns = rows(8, 2000, "wide", noise=0.1)
    whole, together = learned(columns, 0), merged(columns, cuts, 0)
    x, p = np.meshgrid(10.0 ** np.linspace(0.2, 3.9, 12), [1.0, 3.0, 8.0])
    here, there = (a.predict("c0", predictor=x, cores=p) for a in (whole, together))
    # Measured: 0.1 to 0.4 % at 10 % noise; the fit's own error is about 0.5 %.
    np.testing.assert_allclose(there.elapsed_s, here.elapsed_s, rtol=0.02)
    np.testing.assert_allclose(there.elapsed_s, (1e-3 + 1e-6 * x) * (0.1 + 0.9 / p), rtol=0.04)
    np.testing.assert_allclose(there.high_s / there.elapsed_s, here.high_s / here.elapsed_s, rtol=0.05)
    assert there.observations == here.observations == columns.count.sum()  # type: ignore[union-attr]


def cells_of(advisor: Advisor) -> dict[int, tuple[float, float]]:
    """Return the runs and the mean time of each cell of component "c0", by its key."""
    found = advisor.components.learners.find_record(advisor.components.slots.slot_of("c0"))
    assert found is not None
    table, place = found
    count = int(table.int_field("cells")[place])
    columns = (table.integers("key"), table.floats("runs"), table.floats("mean"))
    return {key: (runs, mean) for key, runs, mean in zip(*(c[place, :count].tolist() for c in columns), strict=True)}


@pytest.mark.parametrize("cuts", [[1000], [500, 1000, 1500], [30], [1985], [0, 2000]])
@pytest.mark.parametrize("spread", ["wide", "grid"])
def test_the_learner_after_a_merge_answers_as_that_of_one_state(spread: str, cuts: list[int]) -> None:
    columns = rows(8, 2000, spread, noise=0.1)
    columns.count[:] = 1  # type: ignore[index]
    whole, together = learned(columns), merged(columns, cuts)
    x, p = np.meshgrid(10.0 ** np.linspace(2.0, 2.6, 9), [1.0, 3.0, 8.0])
    if spread == "wide":
        x = 10.0 ** (2.0 * (np.log10(x) - 2.0) / 0.6 + 1.0)
    here, there = (a.predict("c0", predictor=x, cores=p) for a in (whole, together))
    np.testing.assert_allclose(there.elapsed_s, here.elapsed_s, rtol=0.10)
    assert there.observations == here.observations == 2000
    np.testing.assert_array_equal(there.extrapolates, here.extrapolates)
    # Widths of intervals stay those of the shard with more scores.
    width = [np.log(answer.high_s / answer.low_s) for answer in (there, here)]
    np.testing.assert_allclose(*width, rtol=0.5)


@given(
    st.integers(0, 2**32), st.integers(1, 300), st.sampled_from([0.0, 0.05]), st.lists(st.integers(0, 300), max_size=3)
)
@settings(max_examples=60, deadline=None)
def test_cells_of_shards_are_those_of_one_state(seed: int, n: int, noise: float, cuts: list[int]) -> None:
    """On few settings: the same cells with the same runs, whatever came where; where runs repeat, the same means."""
    columns = rows(seed, n, "grid", noise)
    whole, together = learned(columns), merged(columns, [min(c, n) for c in cuts])
    one, other = cells_of(whole), cells_of(together)
    assert one.keys() == other.keys()
    for key, (runs, mean) in one.items():
        assert other[key][0] == pytest.approx(runs, rel=ROUNDING)
        if noise == 0.0:
            assert other[key][1] == pytest.approx(mean, rel=1e-9)


def test_a_record_that_is_new_is_copied() -> None:
    one, other = Advisor(), learned(rows(5, 300))
    one.observe("first", elapsed_s=1.0)
    one.merge(other)
    np.testing.assert_array_equal(record_words(one, "c0"), record_words(other, "c0"))
    for x in (1.0, 50.0, 5e3):
        assert one.predict("c0", predictor=x, cores=2.0) == other.predict("c0", predictor=x, cores=2.0)
    assert one.predict("first").elapsed_s == pytest.approx(1.0, rel=0.02)


def test_machines_and_widths_meet_in_a_merge() -> None:
    """Machines have numbers of their own in each record; a component of another width there keeps the record it has here."""
    truth = {"slow": 2.0, "fast": 1.0, "new": 4.0}
    one, other = Advisor(), Advisor()
    for advisor, machines in ((one, ("slow", "fast")), (other, ("new", "slow"))):
        for i in range(60):
            machine = machines[i % 2]
            advisor.observe("c", predictor=1.0 + i % 7, elapsed_s=truth[machine] * (1.0 + i % 7), machine=machine)
    one.observe("w", predictor=3.0, elapsed_s=1.0)
    other.observe("w", predictor=[3.0, 4.0], elapsed_s=5.0)
    other.observe("alone", predictor=[3.0, 4.0], elapsed_s=5.0, measures={"energy_j": 7.0})
    one.merge(other)
    for machine, factor in truth.items():
        assert one.predict("c", predictor=4.0, machine=machine).elapsed_s == pytest.approx(4.0 * factor, rel=0.1)
    assert one.predict("w", predictor=3.0).elapsed_s == pytest.approx(1.0, rel=0.5)
    assert one.predict("alone", predictor=[3.0, 4.0]).elapsed_s == pytest.approx(5.0, rel=0.1)
    assert one.predict("alone", predictor=[3.0, 4.0], measure="energy_j").elapsed_s == pytest.approx(7.0, rel=0.1)
    again = Advisor.from_bytes(one.to_bytes())
    assert again.to_bytes() == one.to_bytes()


def test_a_merge_stays_within_its_budget() -> None:
    bytes_each = LearnerTable(2).words_a_record * 8
    one, other = Advisor(model_memory_bytes=3 * bytes_each), Advisor()
    for i in range(5):
        one.observe(f"a{i}", elapsed_s=1.0) if i < 2 else None
        other.observe(f"b{i}", elapsed_s=3.0)
    one.merge(other)
    assert one.components.learners.used_bytes == 3 * bytes_each
    assert (one.components.totals["promotions"], one.components.totals["promotions_refused"]) == (3, 4)
    for i in range(5):
        assert one.predict(f"b{i}").elapsed_s == pytest.approx(3.0, rel=0.01)


def test_the_order_of_a_merge_does_not_matter_much_and_the_other_is_not_changed() -> None:
    columns = rows(4, 400, "grid")
    a, b = (learned(s) for s in shards(columns, [150]))
    before = b.to_bytes()
    ab = learned(shards(columns, [150])[0])
    ab.merge(b)
    assert b.to_bytes() == before
    b.merge(a)
    one, other = in_one_basis(ab, b)
    assert_equal_to_rounding(one, other, (*UNWEIGHTED, *WEIGHTED))


def test_a_merge_with_nothing_changes_no_sum() -> None:
    columns = rows(4, 10)
    advisor = learned(columns)
    before, record = advisor.components.table.words[:1].copy(), record_words(advisor, "c0")
    advisor.merge(Advisor())
    np.testing.assert_array_equal(record_words(advisor, "c0"), record)
    np.testing.assert_array_equal(advisor.components.table.words[:1].view(np.uint64), before.view(np.uint64))
    empty = Advisor()
    empty.merge(advisor)
    assert_equal_to_rounding(*in_one_basis(empty, advisor), (*UNWEIGHTED, *WEIGHTED))
    failed = Advisor()
    failed.observe("c0", predictor=1.0, elapsed_s=1.0, ok=False)
    failed.merge(advisor)
    assert_equal_to_rounding(*in_one_basis(failed, advisor), (*UNWEIGHTED, *WEIGHTED))
    assert failed.components.table.int_field("failed")[0] == 1


def test_states_that_do_not_fit_are_refused_and_nothing_is_changed() -> None:
    advisor = Advisor(components_max=2)
    advisor.observe("a", elapsed_s=1.0)
    before = advisor.to_bytes()
    many = Advisor()
    for name in "xyz":
        many.observe(name, elapsed_s=1.0)
    with pytest.raises(TooLarge) as full:
        advisor.merge(many)
    assert (full.value.field, full.value.value, full.value.bound) == ("components", 4, 2)
    assert advisor.to_bytes() == before
    assert limits.COMPONENTS_MAX > 2
