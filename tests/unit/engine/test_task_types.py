"""Models of task types answer by name: equal to the offline computation on the same instances, over all runs, kept like any
other state."""

from __future__ import annotations

import struct
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import task_mixes
from printed_task_models import k_means
from stored import Stored

from advisor import Advisor
from advisor.domain import limits
from advisor.domain.limits import TASK_TYPES_MAX as TYPES_MAX
from advisor.domain.task_events import EventWriter, Kind
from advisor.engine.engine import Engine
from advisor.errors import InvalidValue, NotEnoughData, StateDamaged, UnknownComponent
from advisor.models.type_verdict import MODELS, SIZED_MODELS


def taught(mix: task_mixes.Mix, name: str = "a", cuts: int = 1, into: Advisor | None = None) -> Advisor:
    """Return an advisor that learned a mix in so many calls."""
    made = into or Advisor()
    for start, stop in pairwise(np.linspace(0, len(mix.sizes), cuts + 1).astype(int)):
        made.observe_instances(
            types=[name], index=np.zeros(stop - start, np.int64), elapsed_s=mix.times[start:stop],
            size=mix.sizes[start:stop], active_cores=mix.running[start:stop],
        )  # fmt: skip
    return made


def few_sizes(sizes: list[float], n: int = 600, power: float = 1.0) -> task_mixes.Mix:
    """Return instances of few sizes, each in a cell of its own, with times that grow with a power and spread by 20 %."""
    random = np.random.default_rng(11)
    drawn = random.choice(sizes, n)
    return task_mixes.Mix(drawn, 1e-9 * drawn**power * random.lognormal(0.0, 0.2, n), random.integers(1, 9, n))


# -- equal to offline -----------------------------------------------------------------------------------------------------


def test_support_points_are_means_where_sizes_recur() -> None:
    sizes = [100.0, 300.0, 1000.0, 2500.0]
    mix = few_sizes(sizes, 999, 2.0)
    advisor = taught(mix)
    assert [size for size, _ in advisor.task_type("a").knots] == sizes
    for size in sizes:
        found = advisor.predict("a", predictor=size, model="support_points")
        assert found.elapsed_s == pytest.approx(mix.times[mix.sizes == size].mean(), rel=1e-12)


@pytest.mark.parametrize("sizes", [[100.0, 120.0, 150.0, 4000.0, 5000.0], [10.0, 20000.0, 26000.0, 80000.0, 95000.0]])
def test_clusters_are_those_of_k_means_with_the_mean_of_the_size_nearest_to_the_centroid(sizes: list[float]) -> None:
    mix = few_sizes(sizes)
    advisor = taught(mix, cuts=3)
    k = len(advisor.task_type("a").clusters)
    assert k == (2 if sizes[0] > 50.0 else 3)
    offline = k_means(mix.sizes, k)
    for members in offline:
        centroid = mix.sizes[members].mean()
        gaps = np.abs(mix.sizes[members] - centroid)
        nearest = members[np.flatnonzero(gaps == gaps.min())[0]]  # the first of those equally near
        mean = mix.times[mix.sizes == mix.sizes[nearest]].mean()
        for size in np.unique(mix.sizes[members]):
            found = advisor.predict("a", predictor=size, model="clusters").elapsed_s
            assert found == pytest.approx(mean, rel=1e-12)


# -- running workers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sized", [True, False])
def test_a_contended_type_has_its_rate_by_running_workers(sized: bool) -> None:
    mix = task_mixes.contended()
    if not sized:
        mix = task_mixes.Mix(np.zeros(len(mix.sizes)), mix.times, mix.running)
    advisor = taught(mix, cuts=4)
    report = advisor.task_type("a")
    assert (report.verdict, report.ask) == ("contended", "rate_by_workers")
    if not sized:
        for model in SIZED_MODELS:
            with pytest.raises(NotEnoughData, match="size"):
                advisor.predict("a", predictor=1e6, model=model)
    size = 1e6 if sized else 0.0
    for rates in report.rates:
        offline = np.median(mix.times[mix.running == rates.workers_low])
        assert (size or 1.0) / rates.quantiles[2] == pytest.approx(offline, rel=0.04)
    found = advisor.predict("a", predictor=size, model="rate_by_workers")
    assert found.elapsed_s == pytest.approx(mix.times.mean(), rel=0.01)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.99])
@pytest.mark.parametrize("name", ["forces", "sorts"])
def test_intervals_hold_their_share_of_fresh_instances(name: str, level: float) -> None:
    make = getattr(task_mixes, name)
    advisor, fresh = taught(make(seed=21)), make(seed=22)
    model = advisor.task_type("a").ask
    found = advisor.predict("a", predictor=fresh.sizes, model=model, level=level)
    held = (found.low_s <= fresh.times) & (fresh.times <= found.high_s)
    assert held.mean() == pytest.approx(level, abs=0.07)


# -- what stands around them ----------------------------------------------------------------------------------------------


def test_the_report_says_what_to_ask_for_and_other_answers_say_so_too() -> None:
    for mix, ask in (
        (task_mixes.regular(), "one_time"),
        (task_mixes.forces(2_000), "support_points"),
        (task_mixes.sorts(runs=2), "clusters"),
        (task_mixes.contended(), "rate_by_workers"),
    ):
        advisor = taught(mix)
        report = advisor.task_type("a")
        assert report.ask == ask == report.as_dict()["ask"]
        assert not any("ask for" in note for note in advisor.predict("a", predictor=1e6, model=ask).notes)
        other = "clusters" if ask != "clusters" else "one_time"
        assert (
            f"{report.verdict}: its instances ask for {ask}" in advisor.predict("a", predictor=1e6, model=other).notes
        )


def test_instances_also_teach_the_component() -> None:
    mix = task_mixes.forces(500)
    advisor = taught(mix)
    (row,) = advisor.status()["components"]
    assert (row["component"], row["rows"]) == ("a", 500)
    assert advisor.status()["task_types"] == [{"task_type": "a", "instances": 500, "sized": 500}]
    assert advisor.predict("a", predictor=1e7).elapsed_s == pytest.approx(
        advisor.predict("a", predictor=1e7, model="support_points").elapsed_s, rel=0.1
    )


def test_a_bad_row_teaches_nothing_and_is_refused_alone() -> None:
    advisor = Advisor()
    times = [1.0, np.nan, -1.0, 2.0, 1e10, 3.0]
    receipt = advisor.observe_instances(
        types=["a", "b\n"],
        index=[0, 0, 0, 0, 0, 1],
        elapsed_s=times,
        size=[np.nan, 1, 1, -5.0, 1, 1],
        count=[2, 1, 1, 1, 1, 1],
    )
    assert (receipt.accepted, sum(receipt.refused.by_code.values())) == (2, 4)
    assert advisor.status()["task_types"] == [{"task_type": "a", "instances": 3, "sized": 0}]
    assert advisor.predict("a", model="one_time").elapsed_s == pytest.approx(4.0 / 3.0)
    for bad in (np.nan, -1.0, np.inf, 2.0 * limits.CORES_MAX):
        with pytest.raises(InvalidValue, match="active_cores"):
            advisor.observe_instances(types=["a"], index=[0], elapsed_s=[1.0], active_cores=[bad])
    with pytest.raises(InvalidValue, match="size"):
        advisor.observe_instances(types=["a"], index=[0, 0], elapsed_s=[1.0, 1.0], size=[1.0])


@pytest.mark.parametrize(
    ("asked", "error", "field"),
    [
        ({"component": "nobody"}, UnknownComponent, None),
        ({"component": "rows"}, NotEnoughData, "component"),
        ({"cores": 2}, InvalidValue, "cores"),
        ({"machine": "m"}, InvalidValue, "machine"),
        ({"measure": "peak_bytes"}, InvalidValue, "measure"),
        ({"predictor": -1.0}, InvalidValue, "predictor"),
        ({"predictor": np.nan}, InvalidValue, "predictor"),
        ({"level": 2.0}, InvalidValue, "level"),
    ],
)  # fmt: skip
def test_wrong_questions_are_refused_with_words(asked: dict, error: type[Exception], field: str | None) -> None:
    advisor = taught(few_sizes([10.0, 20.0]))
    advisor.observe("rows", elapsed_s=1.0)
    given = {"component": "a", "predictor": 10.0, "model": "support_points"} | asked
    with pytest.raises(error) as caught:
        advisor.predict(given.pop("component"), **given)
    assert field is None or caught.value.field == field


def test_task_events_teach_with_the_workers_that_ran() -> None:
    engine, truth = Engine(), {}
    out, time = EventWriter(), 0
    size = struct.unpack("<q", struct.pack("<d", 1000.0))[0]
    for number in range(1, 401):
        together = 1 + number % 2
        if together == 2:  # another worker is busy before and after
            out.add_event(time, Kind.BEGIN, instance=1000 + number, type="other", thread=1)
        out.add_event(time + 1, Kind.BEGIN, instance=number, type="kernel")
        out.add_event(time + 1, Kind.SIZE, instance=number, other=size)
        ran = 1_000_000 * together + number
        time += 1 + ran
        out.add_event(time, Kind.END, instance=number)
        truth.setdefault(together, []).append(ran * 1e-9)
        time += 1
        if together == 2:
            out.add_event(time, Kind.END, instance=1000 + number, thread=1)
    events = replace(out.batch(), ended=True)
    answer = engine.apply_event(("p", bytes(16)), 1, events)
    assert answer["accepted"] == len(events.records)
    advisor = engine.advisor
    reported = engine.profiles.answer("p", None, nodes=True, diagnosis=False)["profile"]["types"]
    assert reported["kernel"] == advisor.task_type("kernel").as_dict()
    assert {*reported} == {"kernel", "other"}
    assert advisor.task_type("kernel").verdict == "contended"
    for rates in advisor.task_type("kernel").rates:
        assert 1000.0 / rates.quantiles[2] == pytest.approx(np.mean(truth[rates.workers_low]), rel=0.05)
    assert engine.apply_event(("p", bytes(16)), 1, events)["replayed"]
    assert advisor.task_type("kernel").count == 400


# -- state ----------------------------------------------------------------------------------------------------------------


def test_the_state_is_of_one_size_and_comes_back_byte_for_byte() -> None:
    sizes = set()
    advisor = Advisor()
    for seed in range(4):
        taught(task_mixes.forces(1_000, seed=seed), into=advisor)
        sizes.add(len(advisor.task_types.encode_record(advisor.task_types.known["a"])))
    assert len(sizes) == 1
    assert sizes.pop() < 18_500
    taught(task_mixes.contended(400), "b", into=advisor)
    data = advisor.to_bytes()
    again = Advisor.from_bytes(data)
    assert again.to_bytes() == data
    for name in ("a", "b"):
        assert again.task_type(name) == advisor.task_type(name)
    asked = {"predictor": 3e6, "model": "support_points"}
    assert again.predict("a", **asked) == advisor.predict("a", **asked)
    with pytest.raises(StateDamaged):
        Advisor.from_bytes(data[:-1000] + data[-900:])


def test_a_forgotten_type_does_not_come_back_from_what_is_stored() -> None:
    engine, stored = Engine(), Stored()
    for name in ("a", "b"):
        taught(task_mixes.forces(100), name, into=engine.advisor)
    stored.commit(engine.take_image())
    engine.advisor.forget("a")
    stored.commit(engine.take_image())
    restored = Engine.restore(stored.stored())
    assert [each["task_type"] for each in restored.advisor.status()["task_types"]] == ["b"]
    with pytest.raises(NotEnoughData):
        restored.advisor.predict("a", model="one_time")
    for each in (engine, restored):  # its place is taken again
        taught(task_mixes.forces(50), "c", into=each.advisor)
        mine = deepcopy(stored)
        mine.commit(each.take_image())
        again = Engine.restore(mine.stored()).advisor
        assert [each["task_type"] for each in again.status()["task_types"]] == ["b", "c"]
        assert list(again.task_types.records()) == list(each.advisor.task_types.records())


def test_merging_is_learning_both() -> None:
    halves = [task_mixes.forces(1_500, seed=seed) for seed in (1, 2)]
    mine, theirs = (taught(half) for half in halves)
    taught(task_mixes.contended(300), "only there", into=theirs)
    whole = taught(halves[1], into=taught(halves[0]))
    mine.merge(theirs)
    assert mine.status()["task_types"] == [
        {"task_type": "a", "instances": 3_000, "sized": 3_000}, {"task_type": "only there", "instances": 300, "sized": 300}
    ]  # fmt: skip
    assert mine.task_type("only there") == theirs.task_type("only there")
    asked = np.geomspace(1e6, 7e7, 40)
    for model in MODELS:
        a, b = (each.predict("a", predictor=asked, model=model).elapsed_s for each in (mine, whole))
        np.testing.assert_allclose(a, b, rtol={"one_time": 1e-9, "rate_by_workers": 1e-9}.get(model, 0.15))
    assert len(mine.task_types.known) == 2 * len(whole.task_types.known)


def test_types_beyond_the_cap_are_counted_and_left_out() -> None:
    advisor = Advisor()
    names = [f"t{number}" for number in range(TYPES_MAX + 3)]
    index = np.repeat(np.arange(len(names)), 2)
    advisor.observe_instances(types=names, index=index, elapsed_s=np.ones(len(index)))
    assert len(advisor.status()["task_types"]) == TYPES_MAX
    assert advisor.status()["totals"]["instances_beyond"] == 6
    with pytest.raises(NotEnoughData):
        advisor.predict(names[-1], model="one_time")
    assert advisor.predict(names[-1]).elapsed_s == pytest.approx(1.0, rel=0.05)
    other = Advisor()
    other.observe_instances(types=["new"], index=[0], elapsed_s=[1.0])
    advisor.merge(other)
    assert advisor.status()["totals"]["instances_beyond"] == 7
    assert "new" not in advisor.task_types.known
