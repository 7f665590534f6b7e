"""What a client refuses at once is what the library refuses, in the same words; numbers of numpy are numbers."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields
from typing import Any

import numpy as np
import pytest

import advisor
from advisor import Advisor, AsyncClient, SyncClient, errors
from advisor.errors import AdvisorError, UnknownKey
from advisor.protocol.verbs import METHODS

GOOD: dict[str, Any] = {"component": "m", "predictor": 2.0, "cores": 2, "elapsed_s": 0.5}
BAD: tuple[dict[str, Any], ...] = (
    {"component": ""}, {"component": 3}, {"component": "a\nb"}, {"component": "x" * 201},
    {"cores": 0}, {"cores": -1}, {"cores": "4"}, {"cores": None}, {"cores": True}, {"cores": float("nan")}, {"cores": 2**21},
    {"cores": 10**400}, {"cores": [1, 2]}, {"cores": b"1"}, {"elapsed_s": 1 + 2j}, {"elapsed_s": {}}, {"count": True},
    {"elapsed_s": 0.0}, {"elapsed_s": -1}, {"elapsed_s": None}, {"elapsed_s": float("inf")}, {"elapsed_s": "fast"},
    {"predictor": -1}, {"predictor": "big"}, {"predictor": 2.0**61}, {"predictor": True}, {"predictor": [1, "x"]},
    {"predictor": [1, [2]]}, {"predictor": [1, None]}, {"predictor": float("nan")}, {"predictor": [True, False]},
    {"predictor": []}, {"predictor": [1] * 5}, {"predictor": [1, -2]}, {"predictor": {"a": 1}},
    {"predictor": [1, 2], "dimensions": 3}, {"dimensions": 0}, {"dimensions": "2"}, {"dimensions": 2},
    {"count": 0}, {"count": 1.5}, {"count": "2"}, {"ok": 1}, {"running": "no"},
    {"machine": ""}, {"machine": "x" * 201}, {"network": 7},
    {"replica": -1}, {"replica": 1.5}, {"replica": 2**64 - 1}, {"replica": "a"}, {"record": 1}, {"entered": 1},
    {"active_cores": -1}, {"active_cores": "many"}, {"measures": 3}, {"measures": {"watts": 1}},
    {"measures": {"peak_bytes": -1}}, {"measures": {"energy_j": "x"}}, {"predictr": 3}, {"core": 2}, {"zzz": 0},
)  # fmt: skip


def refusal(face: Any, row: dict[str, Any]) -> tuple[str, Any, str]:
    with pytest.raises(AdvisorError) as caught:
        face.observe(row["component"], **{key: value for key, value in row.items() if key != "component"})
    return type(caught.value).__name__, caught.value.field, str(caught.value)


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_a_row_is_refused_by_both_in_the_same_words(bad: dict[str, Any]) -> None:
    row, advisor = GOOD | bad, Advisor()
    reported = refusal(advisor, row)
    assert advisor.to_bytes() == Advisor().to_bytes()
    assert reported == refusal(SyncClient("/nowhere"), row) == refusal(AsyncClient("/nowhere"), row)
    assert next(iter(bad)) in reported[2] or reported[1] in bad


def test_a_field_that_no_row_has_is_told_with_the_nearest() -> None:
    with pytest.raises(UnknownKey, match="did you mean 'predictor'"):
        Advisor().observe("m", elapsed_s=1.0, predictr=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("client", [SyncClient, AsyncClient])
def test_a_wrong_name_of_the_seconds_is_reported_with_the_nearest(client: type) -> None:
    with pytest.raises(UnknownKey, match="did you mean 'elapsed_s'"):
        client("/nowhere").observe("m", cores=1, elapsed=2.0)


def test_numbers_of_numpy_are_taken_everywhere() -> None:
    adv = Advisor(components_max=np.int64(10), model_memory_bytes=np.int32(10**6))
    for size in np.arange(1, 20):
        for cores in np.array([1, 2, 4, 8], np.int32):
            adv.observe(
                "m", predictor=size, cores=cores, elapsed_s=np.float32(size / cores), count=np.int16(2), replica=np.int64(3),
                network="n", ok=np.True_, active_cores=np.int8(1), measures={"peak_bytes": np.int64(10)},
            )  # fmt: skip
    assert adv.choose_cores("m", predictor=np.int64(5), cores_max=np.int64(8), usual=np.int8(2)).cores
    assert adv.predict("m", predictor=np.int64(5), cores=np.int32(2)).elapsed_s > 0
    assert len(adv.suggest("m", cores_max=np.int64(8), limit=np.int64(1))) == 1
    assert adv.status(offset=np.int64(0), limit=np.int64(1))["components"]
    limits = {"minimum": {"m": np.int64(1)}, "maximum": {"m": np.int64(4)}, "instances_max": np.int64(2)}
    assert adv.allocate("m", cores=np.int64(8), **limits).cores["m"] <= 8
    shares = [{"network": "m", "weight": np.int64(2)}, {"network": "m"}]
    assert adv.allocate_together(shares, cores=np.int64(8)).networks
    with SyncClient("/nowhere", close_s=0.0) as client:
        assert client.observe("m", np.int64(5), np.int32(2), np.float32(1), count=np.int64(2))


def test_each_error_can_be_imported_from_the_package() -> None:
    named = {error.__name__ for error in errors.BY_CODE.values()}
    assert named <= set(advisor.__all__)
    assert all(getattr(advisor, name) is getattr(errors, name) for name in named)


def test_what_there_is_can_be_looked_at() -> None:
    assert {"Advisor", "SyncClient", "Prediction", "__version__"} <= set(dir(advisor))
    assert {name for name in dir(advisor) if not name.startswith("_")} == set(advisor.__all__)
    assert repr(AsyncClient("/nowhere")) == "<AsyncClient: unix:/nowhere, disconnected, 0 rows held, 0 acknowledged>"
    assert repr(SyncClient("/nowhere")).startswith("<SyncClient: unix:/nowhere, disconnected, 0 rows held")


@pytest.mark.parametrize(
    ("verb", "asked", "field"),
    [
        ("predict", {"component": "m", "cores": True}, "cores"),
        ("predict", {"component": "m", "prior": "yes"}, "prior"),
        ("choose_cores", {"component": "m", "cores_max": 4, "count": True}, "count"),
        ("simulate", {"graph": 5}, "graph"),
    ],
)
def test_a_question_is_refused_by_both(verb: str, asked: dict[str, Any], field: str) -> None:
    advisor = Advisor()
    advisor.observe("m", elapsed_s=1.0)
    with SyncClient("/nowhere", close_s=0.0) as client:
        for face in (advisor, client):
            with pytest.raises(errors.InvalidValue) as caught:
                getattr(face, verb)(**asked)
            assert caught.value.field == field


def test_what_is_not_said_means_the_same_to_both() -> None:
    """The defaults of verbs, which clients have, are those of `Advisor`."""
    compared = 0
    for name, verb in METHODS.items():
        method = getattr(Advisor, name, None)
        own = inspect.signature(method).parameters if callable(method) else {}
        for each in fields(verb.into):
            if each.name in own and not {own[each.name].default, each.default} & {inspect.Parameter.empty, MISSING}:
                if (name, each.name) == ("status", "components"):
                    continue  # in process all that there are: no message has to hold them
                compared += 1
                assert own[each.name].default == each.default, (name, each.name)
    assert compared > 30


def test_what_is_said_by_place_is_the_same_to_both() -> None:
    for name in (
        "observe",
        "predict",
        "choose_cores",
        "choose_together",
        "allocate",
        "allocate_together",
        "pin",
        "set_allowed",
    ):
        own = [
            each.name
            for each in inspect.signature(getattr(Advisor, name)).parameters.values()
            if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        ]
        by_place = [each.name for each in fields(METHODS[name].into) if not each.kw_only and each.name != "optional"]
        assert own[1:] == by_place, name
