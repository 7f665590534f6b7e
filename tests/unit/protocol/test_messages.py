"""The table of methods: every parameter is checked, every refusal names key, value and bound."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain import limits
from advisor.domain.allowed_cores import parse_allowed
from advisor.errors import AdvisorError, InvalidValue, TooLarge, UnknownKey, UnknownMethod
from advisor.protocol import verbs as m
from advisor.protocol.verbs import METHODS, check_params

COLUMNS = {"index": bytes(4), "cores": bytes(8), "elapsed_s": bytes(8)}
GOOD = {
    "hello": ([{}], m.Hello()),
    "names": ([0, ["a", "b"]], m.Names(0, ["a", "b"])),
    "observe": (["a", None, 2, 0.5], m.Observe("a", None, 2, 0.5)),
    "observe_rows": ([{"rows": [5]}], m.ObserveRows([5])),
    "observe_columns": ([COLUMNS], m.ObserveColumns(**COLUMNS)),
    "predict": (["a", 3, [1, 2]], m.Predict("a", 3, [1, 2])),
    "choose_cores": ([{"component": "a", "cores_max": 8}], m.ChooseCores("a", cores_max=8)),
    "allocate": ([{"network": "a .. b", "cores": 8}], m.Allocate("a .. b", 8)),
    "allocate_together": (
        [{"networks": [{"network": "a .. b", "weight": 2}], "cores": 8}],
        m.AllocateTogether([{"network": "a .. b", "weight": 2}], 8),
    ),
    "define_network": ([{"id": 1, "text": "a .. b"}], m.DefineNetwork(1, text="a .. b")),
    "flow": ([{"network": 7}], m.FlowAsked(7)),
    "curves": ([{"after": "c"}], m.CurvesAsked(after="c")),
    "simulate": ([{"graph": {"times": bytes(8)}, "cores": [2]}], m.SimulateAsked({"times": bytes(8)}, [2])),
    "status": ([], m.StatusAsked()),
    "export": ([{"after": "components:256"}], m.Export("components:256")),
    "shards": ([{"shards": 3}], m.Shards(3)),
    "choose_together": (
        [{"jobs": [{"id": 1, "component": "a"}], "cores": 4}],
        m.ChooseTogether([{"id": 1, "component": "a"}], 4),
    ),
    "suggest": ([{"component": "a"}], m.Suggest("a")),
    "task_events": ([{"records": b""}], m.TaskEventsSent(b"")),
    "profile": ([{}], m.ProfileAsked()),
    "observe_run": ([{"program": "sort", "size": 3}], m.ObserveRun("sort", 3)),
    "predict_run": ([{"program": "sort", "size": 3, "workers": [1, 2]}], m.PredictRun("sort", size=3, workers=[1, 2])),
    "forget": ([{"component": "a"}], m.Forget("a")),
    "pin": ([{"component": "a", "model": None}], m.Pin("a", None)),
    "set_allowed": ([{"component": "a", "allowed": [2, 1]}], m.SetAllowed("a", parse_allowed("allowed", [1, 2]))),
    "watch": ([{"network": "a", "cores": 2}], m.Watch(network="a", cores=2)),
    "unwatch": ([{"watch": 1}], m.Unwatch(1)),
}


def test_the_table_has_every_method_of_this_version() -> None:
    assert set(METHODS) == set(GOOD)


@pytest.mark.parametrize("method", GOOD)
def test_defaults(method: str) -> None:
    params, typed = GOOD[method]
    assert check_params(method, params) == typed


@pytest.mark.parametrize("method", METHODS)
def test_the_keys_are_the_fields(method: str) -> None:
    assert set(METHODS[method].keys) == {each.name for each in fields(METHODS[method].into)} - {
        "timeout_s",
        "on_change",
    }


@pytest.mark.parametrize(
    ("method", "params", "bound"),
    [
        ("predict", [{"component": "a", "cores": [1] * (limits.POINTS_BATCH_MAX + 1)}], limits.POINTS_BATCH_MAX),
        ("observe_rows", [{"rows": [0] * (limits.ROWS_BATCH_MAX + 1)}], limits.ROWS_BATCH_MAX),
        ("allocate", [{"network": "é" * (limits.NETWORK_TEXT_BYTES_MAX // 2 + 1)}], limits.NETWORK_TEXT_BYTES_MAX),
        ("pin", [{"component": "a", "model": "x" * 65}], 64),
        ("allocate_together", [{"networks": [{}] * 65, "cores": 99}], limits.NETWORKS_TOGETHER_MAX),
        ("hello", [{"token": "x" * (m.TOKEN_BYTES_MAX + 1)}], m.TOKEN_BYTES_MAX),
        ("status", [{"components": ["a"] * (limits.STATUS_PAGE_MAX + 1)}], limits.STATUS_PAGE_MAX),
    ],
)
def test_what_is_too_large_is_named(method: str, params: list, bound: int) -> None:
    with pytest.raises(TooLarge) as caught:
        check_params(method, params)
    assert caught.value.bound == bound


def test_an_unknown_key_is_named_and_the_nearest_known_one() -> None:
    with pytest.raises(UnknownKey) as caught:
        check_params("predict", [{"component": "a", "core": 4}])
    assert caught.value.value == "core"
    assert caught.value.hint == "did you mean 'cores'?"
    with pytest.raises(UnknownKey) as caught:
        check_params("observe_columns", [COLUMNS | {"measures": {"joules": b""}}])
    assert (caught.value.field, caught.value.value) == ("measures", "joules")


def test_an_unknown_method_is_named_and_the_nearest_known_one() -> None:
    with pytest.raises(UnknownMethod) as caught:
        check_params("observe_row", [])
    assert caught.value.hint == "did you mean 'observe_rows'?"
    with pytest.raises(UnknownMethod):
        check_params("x" * 10**6, [])


@pytest.mark.parametrize("method", METHODS)
def test_only_observe_may_be_a_notification(method: str) -> None:
    params, typed = GOOD[method]
    if method == "observe":
        assert check_params(method, params, notification=True) == typed
    else:
        with pytest.raises(InvalidValue, match="is a request"):
            check_params(method, params, notification=True)


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=17),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3) | st.binary(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.sampled_from(sorted(METHODS)), st.data())
def test_anything_is_taken_typed_or_refused_as_the_callers_fault(method: str, data: st.DataObject) -> None:
    keys = st.dictionaries(st.sampled_from(sorted(METHODS[method].keys)), ANYTHING, max_size=5)
    params = data.draw(st.lists(ANYTHING, max_size=5) | keys.map(lambda given: [given]))
    try:
        outcome = check_params(method, params)
    except AdvisorError as error:
        outcome = error
    assert isinstance(outcome, METHODS[method].into) or (outcome.field and not outcome.retry)


def test_what_the_client_needs_does_not_load_numpy() -> None:
    modules = "advisor.protocol.connection, advisor.protocol.verbs, advisor.protocol.encoding"
    check = f"import {modules}, sys; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True, timeout=300)
