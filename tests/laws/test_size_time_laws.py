"""The record of a task type: the same words however instances are cut, counts kept, bounds held."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from advisor.models.size_time import WORDS, SizeTime
from advisor.models.type_verdict import VERDICTS, report_of
from advisor.profile import layout as at
from advisor.profile.task_types import LEARNED_ALL, InstanceSample


def instances(seed, n, spread):
    rng = np.random.default_rng(seed)
    sizes = np.exp(rng.normal(5.0, spread, n))
    sizes[rng.random(n) < 0.1] = 0.0
    return sizes, np.maximum(1e-9 * (sizes + 10.0) * rng.lognormal(0.0, 0.2, n), 1e-9), rng.integers(0, 70, n)


def fresh():
    return SizeTime(np.zeros(WORDS))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(1, 60), max_size=12),
    st.sampled_from([0.0, 0.3, 3.0, 12.0]),
    st.sampled_from([1, 64]),
)
@example(8169, [17], 0.3, 1)  # sizes a little outside the range widened it for those after the cut only
def test_cuts_do_not_matter(seed, cuts, spread, stands_most):
    stands = np.random.default_rng(seed).integers(1, stands_most + 1, 200).astype(np.float64)
    columns = (*instances(seed, 200, spread), stands)
    whole, parts = fresh(), fresh()
    whole.learn_instances(*columns)
    edges = [0, *sorted({min(sum(cuts[:i]), 200) for i in range(1, len(cuts) + 1)}), 200]
    for start, stop in pairwise(edges):
        if start < stop:
            parts.learn_instances(*(column[start:stop] for column in columns))
    assert whole.words.tobytes() == parts.words.tobytes()
    assert np.isfinite(whole.words).all()
    sized = columns[0] > 0.0
    assert (whole.head_field("count"), whole.head_field("sized")) == (stands.sum(), stands[sized].sum())
    assert (whole.head_field("rows"), whole.head_field("sized_rows")) == (200, sized.sum())
    assert whole.rates[1].sum() == stands.sum()
    if sized.any():
        assert whole.cells[0].sum() == stands[sized].sum()
        assert whole.cells[1].sum() == pytest.approx((stands * columns[0])[sized].sum())
        assert whole.cells[2].sum() == pytest.approx((stands * columns[1])[sized].sum())
    report = report_of(whole)
    assert report.verdict in VERDICTS
    assert (report.seen, report.count) == (200, stands.sum())
    assert sum(each.count for each in report.clusters) == stands[sized].sum()
    if stands_most == 1:  # nothing is looked at for others
        plain = fresh()
        plain.learn_instances(*columns[:3])
        assert plain.words.tobytes() == whole.words.tobytes()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 200), st.sampled_from([0.0, 0.3, 3.0, 12.0]))
def test_a_merge_of_parts_is_the_whole(seed, cut, spread):
    """Counts are exact, sums to rounding, cells and rates those of the whole; the parts are read only."""
    columns = instances(seed, 200, spread)
    columns[0][cut:] *= 2.0 ** (seed % 7)  # the ranges of the parts differ
    whole, first, second = fresh(), fresh(), fresh()
    whole.learn_instances(*columns)
    first.learn_instances(*(column[:cut] for column in columns))
    second.learn_instances(*(column[cut:] for column in columns))
    before = second.words.tobytes()
    first.merge(second)
    assert second.words.tobytes() == before
    for name in ("count", "rows", "sized", "sized_rows", "first", "size_low", "size_high"):
        assert first.head_field(name) == whole.head_field(name), name
    for name in ("total", "logs", "log_squares", "sized_total"):
        assert first.head_field(name) == pytest.approx(whole.head_field(name), rel=1e-12), name
    assert first.field_array("rate_range").tolist() == whole.field_array("rate_range").tolist()
    assert first.field_array("range").tolist() == whole.field_array("range").tolist()
    assert first.rates[1].tolist() == whole.rates[1].tolist()
    np.testing.assert_allclose(first.cells, whole.cells, rtol=1e-12)
    assert (np.diff([size for size, _ in report_of(first).knots]) > 0.0).all()
    report, of_whole = report_of(first), report_of(whole)
    assert (report.verdict, report.clusters and len(report.clusters)) == (
        of_whole.verdict, of_whole.clusters and len(of_whole.clusters),
    )  # fmt: skip
    first.learn_instances(*columns)  # and it learns on
    assert first.head_field("rows") == 400
    assert np.isfinite(first.words).all()


def test_a_sample_tells_in_the_mean_what_all_instances_do():
    """Early instances are short and all are looked at, later ones are long and one in 32 is, as where a tool begins to sum."""
    rng = np.random.default_rng(5)
    sizes, times, running = instances(6, 40_000, 0.7)
    late = np.arange(len(times)) >= 20_000
    times[late] *= 5.0
    all_of_them = report_of_fold(sizes, times, running, np.ones(len(times)))
    found = []
    for _ in range(40):
        seen = ~late | (rng.random(len(times)) < 1 / 32)
        found.append(report_of_fold(sizes[seen], times[seen], running[seen], np.where(late, 32.0, 1.0)[seen]))
    assert all(each.seen < 22_000 for each in found)
    for name in ("count", "sized", "total_s", "mean_s", "deviation"):
        reported = np.array([getattr(each, name) for each in found])
        error = reported.std() / np.sqrt(len(reported))
        assert abs(reported.mean() - getattr(all_of_them, name)) < 4.0 * error + 0.002 * reported.mean(), name
    unweighted = report_of_fold(sizes[seen], times[seen], running[seen], np.ones(int(seen.sum())))
    assert unweighted.mean_s < 0.5 * all_of_them.mean_s


def report_of_fold(*columns):
    made = fresh()
    made.learn_instances(*columns)
    return report_of(made)


def ended(types, ns):
    rows = np.zeros((len(types), at.ENDED_FIELDS), np.int64)
    rows[:, at.ENDED_TYPE], rows[:, at.ENDED_NS], rows[:, at.ENDED_RUNNING] = types, ns, 1
    rows[:, at.ENDED_STANDS] = 1
    return rows


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(50, 5_000))
def test_what_components_learn_does_not_depend_on_cuts_and_stands_for_all(seed, cut):
    rng = np.random.default_rng(seed)
    rows, sizes = ended(rng.integers(0, 3, 9_000), rng.integers(1, 10**6, 9_000)), rng.random(9_000)
    whole = InstanceSample().sample_ended(rows, sizes)
    again = InstanceSample()
    parts = [
        again.sample_ended(rows[start : start + cut], sizes[start : start + cut]) for start in range(0, 9_000, cut)
    ]
    for name in ("types", "sizes", "times", "counts"):
        assert np.array_equal(getattr(whole, name), np.concatenate([getattr(part, name) for part in parts]))
    for kind in range(3):
        n = int((rows[:, at.ENDED_TYPE] == kind).sum())
        mine = whole.types == kind
        assert mine.sum() <= LEARNED_ALL * (2 + np.log2(n / LEARNED_ALL))
        assert whole.counts[mine].sum() == pytest.approx(n, abs=4)
