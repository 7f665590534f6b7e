"""The advisor's faces against hostile callers: exact errors, counted refusals, nothing lost, nothing half done."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from advisor.domain import limits
from advisor.engine import Advisor, Engine
from advisor.engine.frames import framed
from advisor.errors import (
    InvalidValue,
    NotEnoughData,
    StateDamaged,
    StateTooNew,
    TooLarge,
    UnknownKey,
)
from advisor.models.layout import LAYOUT
from advisor.models.learner_layout import LearnerTable

NO_NAMES: list[Any] = [None, 5, b"x", [], {}, ["a"], "", "a\nb", "a\ud800", "x" * 201, "é" * 101, "\u202e", "a\x00"]


@pytest.fixture
def advisor() -> Advisor:
    made = Advisor()
    for cores in (1, 2, 4):
        for x in (10.0, 20.0, 40.0):
            made.observe("known", predictor=x, cores=cores, elapsed_s=x * (0.2 + 0.8 / cores))
    return made


# -- observe --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NO_NAMES, ids=lambda v: f"{v!r:.20}")
def test_no_face_takes_what_is_no_name(advisor: Advisor, name: Any) -> None:
    faces: list[Callable[[], Any]] = [
        lambda: advisor.observe(name, elapsed_s=1.0),
        lambda: advisor.predict(name),
        lambda: advisor.choose_cores(name, cores_max=2),
        lambda: advisor.forget(name),
        lambda: advisor.model(name),
        lambda: advisor.status(components=[name]),
    ]
    for face in faces:
        with pytest.raises(InvalidValue) as caught:
            face()
        assert caught.value.field in {"component", "components"}
    receipt = advisor.observe_columns(components=[name, "fine"], index=[0, 1], cores=[1, 1], elapsed_s=[1.0, 1.0])
    assert (receipt.accepted, receipt.refused.by_code) == (1, {"invalid_name": 1})


def test_names_equal_to_unicode_are_one_component_at_every_face() -> None:
    advisor = Advisor()
    advisor.observe("cafe\u0301", elapsed_s=1.0)
    advisor.observe("caf\u00e9", elapsed_s=1.0)
    advisor.observe_columns(components=["cafe\u0301", "caf\u00e9"], index=[0, 1], cores=[1, 1], elapsed_s=[1.0, 1.0])
    for name in ("cafe\u0301", "caf\u00e9"):
        assert advisor.predict(name).observations == 4
        assert advisor.status(components=[name])["components"][0]["component"] == "caf\u00e9"
    assert list(advisor.components.slots.components) == ["caf\u00e9"]
    assert advisor.forget("cafe\u0301")["rows"] == 4


# -- limits -------------------------------------------------------------------------------------------------------------------


def test_a_component_beyond_the_limit_is_refused_by_name_and_the_known_go_on() -> None:
    advisor = Advisor(components_max=2)
    advisor.observe("a", elapsed_s=1.0)
    advisor.observe("b", elapsed_s=1.0)
    with pytest.raises(TooLarge) as caught:
        advisor.observe("c", elapsed_s=1.0)
    assert (caught.value.field, caught.value.value, caught.value.bound) == ("components", 3, 2)
    receipt = advisor.observe_columns(
        components=["c", "a", "d", "bad\n"], index=[0, 1, 2, 3, 1, 0], cores=[1] * 6, elapsed_s=[1.0] * 5 + [-1.0]
    )
    assert receipt.accepted == 2
    assert receipt.refused.by_code == {"invalid_name": 1, "invalid_elapsed_s": 1, "too_many_components": 2}
    assert receipt.refused.first == (
        (0, "too_many_components", "c"),
        (2, "too_many_components", "d"),
        (3, "invalid_name", "bad\\u000a"),
        (5, "invalid_elapsed_s", -1.0),
    )
    assert list(advisor.components.slots.components) == ["a", "b"]
    assert advisor.components.totals["refused.too_many_components"] == 2
    assert advisor.predict("a").observations == 3


# -- questions ----------------------------------------------------------------------------------------------------------------


def test_predict_bounds_the_points_of_one_question(advisor: Advisor) -> None:
    n = limits.PREDICT_POINTS_MAX
    assert advisor.predict("known", predictor=np.ones(n)).elapsed_s.shape == (n,)
    for x, p in ((np.ones(n + 1), 1), (1.0, np.ones(n + 1)), (np.ones((n // 10, 1)), np.ones((1, 11)))):
        with pytest.raises(TooLarge) as caught:
            advisor.predict("known", predictor=x, cores=p)
        assert caught.value.bound == n


def test_predict_broadcasts_and_keeps_the_shape(advisor: Advisor) -> None:
    answer = advisor.predict("known", predictor=np.array([[10.0], [20.0]]), cores=[1, 2, 4])
    assert answer.elapsed_s.shape == answer.low_s.shape == answer.extrapolates.shape == (2, 3)
    one = advisor.predict("known", predictor=20, cores=4)
    assert isinstance(one.elapsed_s, float)
    assert one.elapsed_s == pytest.approx(answer.elapsed_s[1, 2], rel=1e-12)
    json.dumps(answer.as_dict())
    json.dumps(one.as_dict())


def test_choose_cores_takes_one_point_of_a_component_with_several_predictors(advisor: Advisor) -> None:
    for i in range(40):
        x, y, cores = 1.0 + i % 3, 1.0 + i % 7, 2.0 ** (i % 4)
        advisor.observe("wide", predictor=[x, y], cores=cores, elapsed_s=x * y * (0.1 + 0.9 / cores))
    choice = advisor.choose_cores("wide", predictor=[2.0, 5.0], cores_max=8)
    assert choice.cores == 8
    assert choice.elapsed_s == pytest.approx(10.0 * (0.1 + 0.9 / 8), rel=0.05)
    for wrong in (2.0, [2.0], [2.0, 5.0, 1.0], [[2.0, 5.0]], [2.0, -5.0]):
        with pytest.raises(InvalidValue) as caught:
            advisor.choose_cores("wide", predictor=wrong, cores_max=8)
        assert caught.value.field == "predictor"


def test_status_tells_counts_ranges_and_pages(advisor: Advisor) -> None:
    advisor.observe("failing", elapsed_s=1.0, ok=False)
    advisor.observe("known", predictor=10, elapsed_s=10.0, count=5)
    answer = advisor.status()
    assert answer["components_known"] == 2
    known, failing = answer["components"]
    assert (known["rows"], known["runs"], known["predictor_range"], known["cores_range"]) == (
        10,
        14,
        [10.0, 40.0],
        [1.0, 4.0],
    )
    assert known["parallel_fraction"] == pytest.approx(0.8)
    assert failing == {
        "component": "failing",
        "rows": 0,
        "runs": 0,
        "failed": 1,
        "unfinished": 0,
        "prediction_error": None,
        "changes": 0,
        "outliers": 0,
        "tier": "base",
        "model_bytes": 0,
        "pinned": None,
        "measures": [],
    }
    assert (known["tier"], known["cells"], known["predictors"], known["machines"]) == ("rich", 9, 1, 0)
    assert [c["component"] for c in advisor.status(offset=1, limit=1)["components"]] == ["failing"]
    assert advisor.status(limit=0)["components"] == []
    with pytest.raises(TooLarge):
        advisor.status(limit=10**6)
    json.dumps(answer)


@pytest.mark.parametrize("data", [None, 5, "text", [1, 2]])
def test_what_is_no_bytes_is_no_state(data: Any) -> None:
    with pytest.raises(InvalidValue) as caught:
        Advisor.from_bytes(data)
    assert caught.value.field == "data"


STATE: dict[str, Any] = {"kind": "state", "format": 1, "components_max": 10, "model_memory_bytes": 0, "totals": {}}
SLOTS: dict[str, Any] = {"kind": "components", "layout": LAYOUT, "first": 0, "names": [], "words": b"", "tables": []}
RECORD: dict[str, Any] = {"kind": "record", "of": "programs", "key": "p", "data": b""}


def crafted(*blocks: dict[str, Any]) -> bytes:
    """Return a state with right checksums over wrong blocks: what only an enemy or a bug writes."""
    packed = [msgspec.msgpack.encode([value for value in block.values() if value is not ...]) for block in blocks]
    return b"".join([*(framed("state", data) for data in packed), framed("end", b"")])


@pytest.mark.parametrize(
    "head",
    [
        STATE | {"format": ...}, STATE | {"totals": None}, STATE | {"totals": []}, STATE | {"format": "1"},
        STATE | {"totals": {"rows_accepted": "many"}}, STATE | {"components_max": "x"}, STATE | {"kind": ...},
        *(SLOTS | {"names": names} for names in (["a"], ["a\n"], [1], 7, ["a", "a"])),
        *(SLOTS | {"first": first} for first in (10**9, -1, "0", None)),
        *(SLOTS | {"tables": [["learner-2", LearnerTable(2).layout, *part]]} for part in (
            (b"", b"x"), (b"x", b""), (bytes(8), b""), (b"\xff" * 8, bytes(8)), ("1", b""), (b"",),
        )),
        *(RECORD | change for change in (
            {"data": ...}, {"data": 1}, {"key": "p\n"}, {"key": ["p", "xx"]}, {"key": ["p"]}, {"key": 1}, {},
            {"of": "networks"}, {"of": "task_types"},
        )),
    ],
    ids=str,
)  # fmt: skip
def test_a_block_that_does_not_read_is_damage_and_no_crash(head: dict[str, Any]) -> None:
    with pytest.raises(StateDamaged):
        Advisor.from_bytes(crafted(head))
    with pytest.raises(StateDamaged):
        Engine.from_bytes(crafted(STATE, head))


def test_a_block_that_is_deeper_than_anybody_reads_is_damage() -> None:
    with pytest.raises(StateDamaged, match="does not read"):
        Advisor.from_bytes(framed("state", b"\x91" * 100_000) + framed("end", b""))


@pytest.mark.parametrize("head", [
    STATE | {"format": 2}, SLOTS | {"layout": "base-0"}, SLOTS | {"tables": [["learner-9", "learner-1-9", b"", b""]]},
])  # fmt: skip
def test_a_state_of_another_format_is_refused_with_words(head: dict[str, Any]) -> None:
    with pytest.raises(StateTooNew, match="this version reads"):
        Advisor.from_bytes(crafted(head))


def test_equal_streams_give_equal_bytes_and_an_empty_state_is_a_state() -> None:
    assert Advisor.from_bytes(Advisor().to_bytes()).to_bytes() == Advisor().to_bytes()
    assert Advisor.from_bytes(crafted(STATE)).components.slots.names == []
    failing = Advisor()
    failing.observe("c", elapsed_s=1.0, ok=False)
    restored = Advisor.from_bytes(failing.to_bytes())
    assert restored.to_bytes() == failing.to_bytes()
    assert (restored.predict("c").model, restored.predict("c").observations) == ("prior", 0)
    with pytest.raises(NotEnoughData):
        restored.predict("c", model="two_step")


def test_an_option_that_no_plan_has_is_told_with_the_nearest(advisor: Advisor) -> None:
    with pytest.raises(UnknownKey, match="did you mean 'instances_max'"):
        advisor.allocate("known", cores=4, instance_max=2)  # type: ignore[call-arg]
