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
from advisor.errors import AdvisorError, InvalidValue, TooLarge, UnknownKey, UnknownMethod, Unsupported
from advisor.protocol import verbs as m
from advisor.protocol.verbs import METHODS, RESERVED, check_params

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
        [{"networks": [{"network": "a .. b", "weight": 2, "priority": None}], "cores": 8}],
        m.AllocateTogether([{"network": "a .. b", "weight": 2}], 8),
    ),
    "define_network": ([{"text": "a .. b"}], m.DefineNetwork(text="a .. b")),
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
    assert not RESERVED & set(METHODS)


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


def test_every_parameter_has_its_place() -> None:
    assert check_params("predict", [{"component": "a", "cores": 4, "level": 0.5, "model": "two_step"}]) == m.Predict(
        "a", None, 4, level=0.5, model="two_step"
    )
    incarnation = bytes(range(16))
    numbered = {"producer": "p", "incarnation": incarnation, "sequence": 2**63 - 1}
    assert check_params("forget", [{"component": "a", "keep": 0.25, **numbered}]) == m.Forget("a", 0.25, **numbered)
    assert check_params("hello", [{"producer": "p", "resume_at": 0}]) == m.Hello(producer="p", resume_at=0)
    assert check_params("status", [{"components": ["b"], "offset": 3, "limit": 5}]) == m.StatusAsked(
        ["b"], offset=3, limit=5
    )
    assert check_params("observe", ["a", 1, 1, 1, {"ok": True}]).row == ["a", 1, 1, 1, {"ok": True}]


def test_names_are_normalised() -> None:
    assert check_params("predict", ["e\N{COMBINING ACUTE ACCENT}"]).component == "\N{LATIN SMALL LETTER E WITH ACUTE}"


REFUSED = {
    "observe": [
        (["a", 1, 1], "elapsed_s", "given"),
        (["a", 1, 1, True], "elapsed_s", "a number"),
        (["a", True, 1, 1], "predictor", "a number"),
        (["a", "1", 1, 1], "predictor", "a number"),
        (["a", [1, "2"], 1, 1], "predictor[1]", "a number"),
        ([7, 1, 1, 1], "component", "1 to 200 bytes of printable text"),
        (["", 1, 1, 1], "component", "1 to 200 bytes of printable text"),
        (["a\n", 1, 1, 1], "component", "1 to 200 bytes of printable text"),
        (["a", 1, 1, 1, {1: 1}], "a key of optional", "text"),
        (["a", 1, 1, 1, {}, 1], "params", "at most 5: component, predictor, cores, elapsed_s, optional"),
        ([{"component": "a"}, 1, 1, 1], "component", "1 to 200 bytes of printable text"),
    ],
    "hello": [
        ([{"protocol": -1}], "protocol", "an integer from 0 to 4294967295"),
        ([{"protocol": 1.0}], "protocol", "an integer from 0 to 4294967295"),
        ([{"token": b"secret"}], "token", "text"),
        ([{"producer": "p", "incarnation": bytes(15)}], "incarnation", "bin of 16 bytes"),
        ([{"producer": "p", "incarnation": "x" * 16}], "incarnation", "bin of 16 bytes"),
        ([{"incarnation": bytes([1] * 16)}], "producer", "given where incarnation, resume_at or retire is"),
        ([{"resume_at": 3}], "producer", "given where incarnation, resume_at or retire is"),
        (
            [{"producer": "p", "incarnation": bytes([1] * 16), "resume_at": 3}],
            "resume_at",
            "absent where incarnation is given",
        ),
        (["p"], "params", "one map, [{…}], for hello"),
        ([{}, {}], "params", "one map, [{…}], for hello"),
    ],
    "names": [
        ([0], "names", "given"),
        ([-1, []], "first_id", "an integer from 0 to 200000"),
        ([0, ["a", 5]], "names[1]", "text"),
        ([0, "a"], "names", "a list of texts"),
    ],
    "observe_rows": [
        ([{}], "rows", "given"),
        ([{"rows": {}}], "rows", "a list of rows [component, predictor, cores, elapsed_s]"),
        ([{"rows": [], "producer": "p"}], "sequence", "given where producer is"),
        ([{"rows": [], "sequence": 1}], "producer", "given where sequence is"),
        ([{"rows": [], "producer": "p", "sequence": 0}], "sequence", f"an integer from 1 to {2**63 - 1}"),
        ([{"rows": [], "producer": "p", "sequence": 2**63}], "sequence", f"an integer from 1 to {2**63 - 1}"),
        ([{"rows": [], "incarnation": bytes([1] * 16)}], "producer", "given where incarnation is"),
    ],
    "observe_columns": [
        ([{"index": bytes(4)}], "cores", "given"),
        ([COLUMNS | {"index": bytes(5)}], "index", "bin of a multiple of 4 bytes"),
        ([COLUMNS | {"predictor": [1.0]}], "predictor", "bin"),
        ([COLUMNS | {"dimensions": 5}], "dimensions", "an integer from 1 to 4"),
        ([COLUMNS | {"measures": {"peak_bytes": bytes(7)}}], "measures.peak_bytes", "bin of a multiple of 8 bytes"),
        ([COLUMNS | {"components": "a"}], "components", "a list of texts"),
    ],
    "predict": [
        ([{"component": "a", "level": 1}], "level", "a number from 0.01 to 0.9999"),
        ([{"component": "a", "level": float("nan")}], "level", "a number from 0.01 to 0.9999"),
        (
            [{"component": "a", "predictor": [1, 2], "cores": [1]}],
            "cores",
            "a number, or a list of 2, as predictor has",
        ),
        ([{"component": "a", "dimensions": 0}], "dimensions", "an integer from 1 to 4"),
        ([{"component": "a", "dimensions": 5}], "dimensions", "an integer from 1 to 4"),
        ([{"component": "a", "dimensions": 2}], "predictor", "a list of 2 values a point, as dimensions says"),
        (
            [{"component": "a", "dimensions": 2, "predictor": 1}],
            "predictor",
            "a list of 2 values a point, as dimensions says",
        ),
        (
            [{"component": "a", "dimensions": 2, "predictor": [1, 2, 3]}],
            "predictor",
            "a list of 2 values a point, as dimensions says",
        ),
        (
            [{"component": "a", "dimensions": 2, "predictor": []}],
            "predictor",
            "a list of 2 values a point, as dimensions says",
        ),
        ([{"component": "a", "dimensions": 2, "predictor": [[1, 2]]}], "predictor[0]", "a number"),
        (
            [{"component": "a", "dimensions": 2, "predictor": [1, 2, 3, 4], "cores": [1, 2, 3]}],
            "cores",
            "a number, or a list of 2, as predictor has",
        ),
        ([{"component": "a", "machine": ""}], "machine", "1 to 200 bytes of printable text"),
        ([{"component": "a", "machine": 5}], "machine", "1 to 200 bytes of printable text"),
        ([{"component": "a", "measure": "joules"}], "measure", "elapsed_s or peak_bytes or energy_j"),
        ([{}], "component", "given"),
    ],
    "choose_cores": [
        ([{"component": "a", "cores_max": 0}], "cores_max", "an integer from 1 to 1048576"),
        ([{"component": "a", "cores_max": 1.5}], "cores_max", "an integer from 1 to 1048576"),
        ([{"component": "a", "cores_max": 8, "predictor": []}], "predictor", "a number, or a list of 1 to 4"),
        ([{"component": "a", "cores_max": 8, "predictor": [1] * 5}], "predictor", "a number, or a list of 1 to 4"),
        ([{"component": "a", "cores_max": 8, "predictor": "1"}], "predictor", "a number"),
        ([{"component": "a", "allowed": [0]}], "allowed[0]", "a whole number of cores from 1 to 1048576"),
        ([{"component": "a", "cores_max": 8, "explore": 60.0}], "explore", "true, false or 'freeze'"),
        ([{"component": "a", "cores_max": 8, "tolerance": 5}], "tolerance", "a number from 0 to 1"),
        ([{"component": "a", "cores_max": 8, "under_way": [[1]]}], "under_way[0]", "a pair [cores, runs]"),
        ([{"component": "a", "cores_max": 8, "level": 0}], "level", "a number from 0.01 to 0.9999"),
        ([{"component": "a", "cores_max": 8, "level": "0.9"}], "level", "a number from 0.01 to 0.9999"),
        ([{"component": "a", "cores_max": 8, "machine": "\n"}], "machine", "1 to 200 bytes of printable text"),
    ],
    "set_allowed": [
        ([{"component": "a"}], "allowed", "given"),
        ([{"component": "a", "allowed": {"max": 0}}], "allowed.max", "a whole number of cores from 1 to 1048576"),
    ],
    "choose_together": [
        ([{"jobs": []}], "cores", "given"),
        ([{"jobs": {}, "cores": 4}], "jobs", "a list"),
        ([{"jobs": [1], "cores": 4}], "jobs[0]", "a map"),
        ([{"jobs": [{1: 2}], "cores": 4}], "a key of jobs[0]", "text"),
        ([{"jobs": [], "cores": 0}], "cores", "an integer from 1 to 1048576"),
        ([{"jobs": [], "cores": 4, "order": "size"}], "order", "given or work"),
        ([{"jobs": [], "cores": 4, "wait_max_s": -1}], "wait_max_s", "a number of seconds from 0 to 1e+09"),
    ],
    "suggest": [
        ([{}], "component", "given"),
        (["a"], "params", "one map, [{…}], for suggest"),
        ([{"component": "a", "cores": 4}], "predictor", "given where cores is"),
        ([{"component": "a", "predictor": [1, True]}], "predictor[1]", "a number"),
        ([{"component": "a", "predictor": [1] * 5}], "predictor", "a number, or a list of 1 to 4"),
        ([{"component": "a", "cores_max": 0}], "cores_max", "an integer from 1 to 1048576"),
        ([{"component": "a", "limit": 0}], "limit", "an integer from 1 to 256"),
        ([{"component": "a", "limit": 257}], "limit", "an integer from 1 to 256"),
        ([{"component": "a", "candidates": {}}], "candidates", "a list"),
        ([{"component": "a", "candidates": [[1, 1], 5]}], "candidates[1]", "a pair [predictor, cores]"),
        ([{"component": "a", "candidates": [[1, 1, 1]]}], "candidates[0]", "a pair [predictor, cores]"),
        ([{"component": "a", "candidates": [["1", 1]]}], "candidates[0][0]", "a number"),
        ([{"component": "a", "candidates": [[[1, 2], None]]}], "candidates[0][1]", "a number"),
    ],
    "allocate": [
        ([{}], "network", "given"),
        ([{"network": None}], "network", "S-Net text, a list of nodes, or a network's id"),
        ([{"network": True}], "network", "S-Net text, a list of nodes, or a network's id"),
        ([{"network": [5]}], "network[0]", "a map"),
        (
            [{"network": "a", "objective": "speed"}],
            "objective",
            "throughput or latency or fewest_cores or pareto or cost",
        ),
        ([{"network": "a", "target": 5}], "target", "a map with the keys throughput_per_s, latency_s"),
        ([{"network": "a", "shares": [[1, None]]}], "shares[0][1]", "a number"),
        ([{"network": "a", "minimum": {"a": 0}}], "minimum['a']", "an integer from 1 to 1048576"),
        ([{"network": "a", "instances_max": 0}], "instances_max", "an integer from 1 to 1048576"),
        ([{"network": "a", "instances_max": True}], "instances_max", "an integer, or a map of integers by component"),
        ([{"network": "a", "components": {"a": 5}}], "components['a']", "1 to 200 bytes of printable text"),
    ],
    "allocate_together": [
        ([{"cores": 2}], "networks", "given"),
        ([{"networks": [{"network": "a"}]}], "cores", "given"),
        ([{"networks": "a", "cores": 2}], "networks", "a list"),
        (
            [{"networks": [{"network": 5.0}], "cores": 2}],
            "networks[0].network",
            "S-Net text, a list of nodes, or a network's id",
        ),
        ([{"networks": [{"weight": "2"}], "cores": 2}], "networks[0].weight", "a number"),
        ([{"networks": [{"priority": 1.5}], "cores": 2}], "networks[0].priority", "an integer from -1000 to 1000"),
        ([{"networks": [{"name": ""}], "cores": 2}], "networks[0].name", "1 to 200 bytes of printable text"),
        (
            [{"networks": [{"minimum": {"a": 0}}], "cores": 2}],
            "networks[0].minimum['a']",
            "an integer from 1 to 1048576",
        ),
        (
            [{"networks": [], "cores": 2, "objective": "gold"}],
            "objective",
            "throughput or latency or fewest_cores or pareto or cost",
        ),
    ],
    "status": [
        ([{"components": "a"}], "components", "true, false, or a list of names"),
        ([{"limit": -1}], "limit", "an integer from 0 to 1000"),
    ],
    "forget": [
        ([{"component": "a", "keep": 1}], "keep", "a number from 0 to below 1"),
        ([{"component": "a", "keep": False}], "keep", "a number from 0 to below 1"),
        ([{}], "component", "given, or program, or profile, and only one of them"),
        ([{"component": "a", "program": "b"}], "component", "given, or program, or profile, and only one of them"),
        ([{"program": "b", "keep": 0.5}], "keep", "0: programs and profiles are forgotten as a whole"),
        ([{"profile": {}}], "profile.producer", "given"),
        ([{"program": "b", "sequence": 1}], "producer", "given where sequence is"),
    ],
    "observe_run": [
        ([{"program": "sort"}], "size", "given"),
        ([{"program": "sort", "size": "x"}], "size", "a number"),
        ([{"program": "sort", "size": 1, "transform": "n^9"}], "transform", "n or 2^n or n^2 or n^3 or sqrt n or n!"),
        ([{"program": "sort", "size": 1, "sequence": 1}], "producer", "given where sequence is"),
    ],
    "predict_run": [
        ([{"program": "sort", "size": 1}], "workers", "given"),
        ([{"program": "sort", "size": 1, "workers": 1, "model": "best"}], "model", "extended or printed"),
        ([{"program": "sort", "size": 1, "workers": 1, "level": 2}], "level", "a number from 0.01 to 0.9999"),
    ],
    "pin": [
        ([{"component": "a"}], "model", "given"),
        ([{"model": None}], "component", "given"),
        ([{"component": "a", "model": 5}], "model", "text"),
        ([{"component": "a", "model": None, "sequence": 1}], "producer", "given where sequence is"),
        ([{"component": "a", "model": None, "producer": "p"}], "sequence", "given where producer is"),
    ],
}


@pytest.mark.parametrize(
    ("method", "params", "field", "bound"),
    [(method, *case) for method, cases in REFUSED.items() for case in cases],
)
def test_what_is_wrong_is_named(method: str, params: list, field: str, bound: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        check_params(method, params)
    assert (caught.value.field, caught.value.bound) == (field, bound)
    assert not caught.value.retry


@pytest.mark.parametrize(
    ("method", "params", "bound"),
    [
        ("predict", [{"component": "a", "cores": [1] * (limits.PREDICT_POINTS_MAX + 1)}], limits.PREDICT_POINTS_MAX),
        ("observe_rows", [{"rows": [0] * (limits.ROWS_BATCH_MAX + 1)}], limits.ROWS_BATCH_MAX),
        ("allocate", [{"network": "é" * (limits.NETWORK_TEXT_BYTES_MAX // 2 + 1)}], limits.NETWORK_TEXT_BYTES_MAX),
        ("suggest", [{"component": "a", "candidates": [[1, 1]] * 257}], limits.CANDIDATES_MAX),
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


@pytest.mark.parametrize("method", sorted(RESERVED))
def test_reserved_methods_say_so(method: str) -> None:
    with pytest.raises(Unsupported, match="reserved for a later version"):
        check_params(method, [])


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


@pytest.mark.parametrize(
    ("asked", "points"),
    [
        ({}, None),
        ({"predictor": 5}, None),
        ({"predictor": [5]}, 1),
        ({"predictor": [1, 2, 3]}, 3),
        ({"predictor": [1, 2, 3], "dimensions": 3, "cores": [1, 2]}, None),
        ({"predictor": [1, 2, 3, 4], "dimensions": 2, "cores": [1, 2]}, 2),
        ({"predictor": [1, 2, 3, 4], "dimensions": 2, "cores": 8, "machine": "m", "measure": "peak_bytes"}, 2),
    ],
)
def test_a_predict_tells_its_points(asked: dict, points: int | None) -> None:
    params = check_params("predict", [{"component": "a"} | asked])
    assert params.points == points
    assert (params.machine, params.measure) == (asked.get("machine"), asked.get("measure", "elapsed_s"))
