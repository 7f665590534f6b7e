"""Every verb over a real socket, against a recorded transcript: keys, types, invariants; exact values where promised.

The transcript holds what stays: version and limits come from `hello`. Numbers of models are not recorded, so that a better
model passes; they are held to the planted law instead. To record it anew: ``PYTHONPATH=.:tests/support python
tests/behaviour/test_wire.py``, and read the difference before it is committed.
"""

from __future__ import annotations

import json
import math
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from served import Refused, Served, Wire

TRANSCRIPT = Path(__file__).with_name("transcript.json")
SIZES, COUNTS = (100.0, 200.0, 300.0, 400.0), (1.0, 2.0, 4.0, 8.0)
WORK = {"read": 0.2e-3, "small": 0.5e-3, "large": 3e-3, "write": 0.4e-3}
CLOSE = 0.2  # of a planted time without noise, inside what was seen: share by which a prediction may be off
# What is promised to change, or belongs to a process and no answer: see docs/lifted.md.
LIFTED = {
    "exploring", "at_risk_s", "explored_s", "answers_kept",
    "watching", "learned", "counted", "state_bytes", "model_memory_used_bytes", "model_memory_bytes", "steps",
    "runner_up", "evidence", "promotions", "tier", "model_bytes", "cells", "limits", "version", "protocol", "service", "totals",
    "level", "knee", "marginal", "active_cores", "noise_relative", "noise_absolute_s",
}  # fmt: skip


def elapsed_s(component: str, predictor: float, cores: float) -> float:
    return WORK[component] * predictor * (0.1 + 0.9 / cores)


def rows(component: str) -> list[list[Any]]:
    return [[component, x, p, elapsed_s(component, x, p)] for x in SIZES for p in COUNTS]


def doubles(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


def indices(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


NAMED = {"producer": "recorder", "incarnation": bytes(range(16))}
NETWORK = "read .. (small | large) .. write"
GRAPH = {"unit": "s", "times": doubles(1, 2, 3, 4), "edges": indices(0, 1, 0, 2, 1, 3, 2, 3)}
EVENTS = bytes.fromhex(  # of the page on the protocol: a task begins and ends
    "0000000000000000010000000000000000000000000000000000000000000100"
    "dc0500000000000001000000000000000000000000000000ffffffff00000300"
)
FLOW_ROWS = [
    [name, 100.0, 2.0, elapsed_s(name, 100.0, 2.0), {"network": "images", "entered": name == "read"}]
    for record in range(8)
    for name in ("read", "large" if record % 4 else "small", "write")
]
RUN = {"size": 1e6, "workers": 8.0, "elapsed_s": 0.0112, "work_s": 0.0823, "delay_s": 0.0065, "no_work_s": 0.0008,
       "creates": 43000.0, "waits": 21000.0}  # fmt: skip
NUMBERED = {"component": "sort"}
RUNS = [
    ("observe_run", [NAMED | RUN | {"program": "sort", "size": 1e6 * k, "sequence": 10 + k, "work_s": 0.0816 * k,
                                    "elapsed_s": 0.0112 * k, "delay_s": 0.0072 * k, "no_work_s": 0.0008 * k}], "exact")
    for k in range(1, 6)
]  # fmt: skip
# (method, parameters, what is compared): `exact` values, `shape` (keys and types), or `refused` (code and field).
CALLS: list[tuple[str, list[Any], str]] = [
    ("hello", [{}], "shape"),
    ("hello", [NAMED], "exact"),
    ("names", [0, ["read", "write"]], "exact"),
    ("names", [0, ["read"]], "exact"),
    ("define_network", [{"id": "images", "text": NETWORK}], "exact"),
    ("define_network", [{"id": 7, "text": "read .. write"}], "exact"),
    ("observe", ["read", 100.0, 1.0, 0.02], "exact"),
    *(
        ("observe_rows", [NAMED | {"sequence": number, "rows": rows(name)}], "exact")
        for number, name in enumerate(WORK, 1)
    ),
    ("observe_rows", [NAMED | {"sequence": 4, "rows": rows("write")}], "exact"),  # sent again
    ("observe_rows", [NAMED | {"sequence": 9, "rows": []}], "refused"),  # a gap
    ("observe_rows", [NAMED | {"sequence": 5, "rows": [
        ["read", 1.0, 1.0, -1.0], ["read", 1.0, 0.0, 1.0], ["", 1.0, 1.0, 1.0], ["read"], ["read", -1.0, 1.0, 1.0],
        ["read", 1.0, 1.0, 1.0, {"ok": False}], ["read", 1.0, 1.0, 1.0, {"running": True}],
        ["read", 1.0, 1.0, 1.0, {"nothing": 1}], ["read", 1.0, 1.0, 1.0, {"count": 0}]]}], "exact"),
    ("observe_columns", [NAMED | {"sequence": 6, "index": indices(0, 1, 1), "predictor": doubles(100, 100, 100),
                                  "cores": doubles(1, 4, 4), "elapsed_s": doubles(0.02, 0.013, -1)}], "exact"),
    ("observe_columns", [NAMED | {"sequence": 7, "components": ["sort"], "index": indices(0, 0),
                                  "cores": doubles(1, 2), "elapsed_s": doubles(0.5, 0.25)}], "exact"),
    ("observe_columns", [NAMED | {"sequence": 8, "index": indices(99), "cores": doubles(1),
                                  "elapsed_s": doubles(1)}], "refused"),
    ("observe_rows", [NAMED | {"sequence": 8, "rows": FLOW_ROWS}], "exact"),
    ("forget", [NAMED | NUMBERED | {"sequence": 9}], "exact"),
    ("pin", [NAMED | {"component": "read", "model": "two_step", "sequence": 10}], "exact"),
    *RUNS,
    ("predict_run", [{"program": "sort", "size": [2e6, 4e6], "workers": 16}], "shape"),
    ("predict_run", [{"program": "nothing", "size": 1.0, "workers": 1}], "refused"),
    ("pin", [{"component": "read", "model": None}], "exact"),
    ("flow", [{"network": "images"}], "shape"),
    ("flow", [{"network": "nothing"}], "refused"),
    ("predict", ["large", 250.0, 4], "shape"),
    ("predict", [{"component": "large", "predictor": [150.0, 250.0], "cores": [2, 8], "level": 0.5}], "shape"),
    ("predict", [{"component": "unseen", "predictor": 250.0, "cores": 4, "prior": True}], "shape"),
    ("predict", ["unseen", 1.0, 1], "refused"),
    ("choose_cores", [{"component": "large", "predictor": 250.0, "cores_max": 8}], "shape"),
    ("choose_cores", [{"component": "unseen", "cores_max": 8}], "shape"),
    ("suggest", [{"component": "large", "cores_max": 8, "limit": 2}], "shape"),
    ("allocate", [{"network": "read .. write", "cores": 8}], "shape"),
    ("allocate", [{"network": "images", "cores": 8, "objective": "latency"}], "shape"),
    ("allocate", [{"network": "read .. write", "objective": "fewest_cores", "target": {"throughput_per_s": 20.0}}], "shape"),
    ("allocate", [{"network": "read .. write", "objective": "fewest_cores", "target": {"throughput_per_s": 1e9}}], "refused"),
    ("allocate", [{"network": "read ..", "cores": 8}], "refused"),
    ("allocate", [{"network": "unseen", "cores": 8}], "refused"),
    ("allocate_together", [{"networks": [{"network": "read", "weight": 2.0}, {"network": "large", "name": "batch"}],
                            "cores": 8}], "shape"),
    ("curves", [{"components": ["large"]}], "shape"),
    ("watch", [{"network": "read .. write", "cores": 8}], "shape"),
    ("unwatch", [{"watch": 1}], "exact"),
    ("simulate", [{"graph": GRAPH, "cores": [1, 2]}], "exact"),
    ("status", [{"components": True, "limit": 2}], "shape"),
    ("export", [{}], "shape"),
    ("task_events", [NAMED | {"sequence": 16, "records": EVENTS, "strings": ["fib"], "ended": True}], "exact"),
    ("profile", [{}], "shape"),
    ("profile", [{"producer": "recorder", "nodes": False}], "shape"),
    ("shards", [{}], "refused"),
    ("nothing", [{}], "refused"),
]  # fmt: skip


def shape(value: Any) -> Any:
    """Return the keys and types of an answer; of an array those of its first element."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items() if key not in LIFTED | {"id"}}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return {bool: "boolean", float: "number", int: "integer", str: "text", bytes: "bin"}.get(type(value))


def rounded(value: Any) -> Any:
    """Return an answer without what is lifted, its floats at 9 digits: the last bits of a sum are not a promise."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items() if key not in LIFTED}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def answered(wire: Wire, method: str, params: list[Any], compared: str) -> Any:
    try:
        answer = wire.call(method, *params)
    except Refused as refusal:
        if compared != "refused":
            pytest.fail(f"{method} {params}: {refusal}")
        return {key: refusal.error[key] for key in ("code", "field", "retry")}
    if compared == "refused":
        pytest.fail(f"{method} {params}: {answer}")
    return rounded(answer) if compared == "exact" else shape(answer)


def differences(recorded: Any, found: Any, path: str, *, exact: bool) -> Iterator[str]:
    """Name what a recorded answer has and the one found does not: new keys are allowed, as the protocol says."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        for key, value in recorded.items():
            if key in found:
                yield from differences(value, found[key], f"{path}.{key}", exact=exact)
            else:
                yield f"{path}.{key} is missing"
    elif isinstance(recorded, list) and isinstance(found, list) and not exact:
        for a, b in zip(recorded, found, strict=False):  # one of them may be empty: so many notes, so many groups
            yield from differences(a, b, f"{path}[]", exact=False)
    elif isinstance(recorded, list) and isinstance(found, list) and len(recorded) == len(found):
        for i, (a, b) in enumerate(zip(recorded, found, strict=True)):
            yield from differences(a, b, f"{path}[{i}]", exact=exact)
    elif recorded != found and (exact or recorded is not None):
        yield f"{path} is {found!r}, {recorded!r} was recorded"


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with Served(tmp_path_factory.mktemp("wire")) as service:
        peer = service.wire()
        yield peer
        peer.close()


@pytest.fixture(scope="module")
def transcript(wire: Wire) -> list[Any]:
    return [answered(wire, *call) for call in CALLS]


@pytest.mark.parametrize("number", range(len(CALLS)), ids=[f"{i}-{call[0]}" for i, call in enumerate(CALLS)])
def test_an_answer_is_as_recorded(transcript: list[Any], number: int) -> None:
    method, _, compared = CALLS[number]
    recorded = json.loads(TRANSCRIPT.read_text())[number]
    assert recorded["method"] == method
    found = json.loads(json.dumps(transcript[number]))
    assert not list(differences(recorded[compared], found, method, exact=compared != "shape"))


@pytest.mark.usefixtures("transcript")
class TestInvariants:
    """What answers promise whatever the model: taught by the calls above."""

    def test_hello_states_limits_that_hold(self, wire: Wire) -> None:
        limits = wire.call("hello", {})["limits"]
        assert {"message_bytes_max", "rows_batch_max", "name_bytes_max", "unanswered_max", "name_ids_max"} <= set(
            limits
        )
        with pytest.raises(Refused) as caught:
            wire.call("predict", "n" * (limits["name_bytes_max"] + 1), 1.0, 1)
        assert caught.value.error["code"] in ("invalid", "too_large")
        rows = limits["rows_batch_max"] + 1
        columns = {"components": ["read"], "index": bytes(4 * rows), "cores": doubles(1) * rows}
        with pytest.raises(Refused) as caught:
            wire.call("observe_columns", columns | {"elapsed_s": doubles(1) * rows})
        assert caught.value.error["code"] == "too_large"

    def test_another_protocol_is_refused(self, wire: Wire) -> None:
        spoken = wire.call("hello", {})["protocol"]
        with pytest.raises(Refused) as caught:
            wire.call("hello", {"protocol": spoken + 1})
        assert caught.value.error["code"] == "unsupported"

    @pytest.mark.parametrize("component", ["small", "large", "write"])
    @pytest.mark.parametrize("predictor", [150.0, 250.0, 350.0])
    @pytest.mark.parametrize("cores", [1, 3, 8])
    def test_a_prediction_is_near_the_planted_law(
        self, wire: Wire, component: str, predictor: float, cores: int
    ) -> None:
        answer = wire.call("predict", component, predictor, cores)
        assert answer["low_s"] <= answer["elapsed_s"] <= answer["high_s"]
        assert answer["elapsed_s"] == pytest.approx(elapsed_s(component, predictor, cores), rel=CLOSE)
        assert answer["extrapolates"] == 0.0

    def test_an_array_is_answered_as_its_points(self, wire: Wire) -> None:
        together = wire.call("predict", {"component": "large", "predictor": [150.0, 250.0], "cores": [2, 8]})
        for i, (x, p) in enumerate([(150.0, 2), (250.0, 8)]):
            assert together["elapsed_s"][i] == wire.call("predict", "large", x, p)["elapsed_s"]

    def test_a_higher_level_has_a_wider_interval(self, wire: Wire) -> None:
        widths = []
        for level in (0.5, 0.9, 0.99):
            answer = wire.call("predict", {"component": "large", "predictor": 250.0, "cores": 4, "level": level})
            widths.append(answer["high_s"] - answer["low_s"])
        assert widths == sorted(widths)

    @pytest.mark.parametrize("cores", [2, 5, 8, 16])
    def test_a_plan_hands_out_what_there_is(self, wire: Wire, cores: int) -> None:
        plan = wire.call("allocate", {"network": "read .. large .. write", "cores": cores})
        groups = sum(group["cores"] for group in plan["groups"])
        own = sum(count * plan["instances"][key] for key, count in plan["cores"].items())
        assert plan["cores_used"] == (groups if plan["groups"] else own)  # each component is in a group, or none is
        assert plan["cores_used"] + plan["spare"] == cores
        assert set(plan["instances"]) == {"read", "large", "write"}
        assert math.isfinite(plan["throughput_per_s"])
        assert set(plan["bottleneck"]) <= set(plan["instances"])

    def test_more_cores_are_never_less(self, wire: Wire) -> None:
        plans = [wire.call("allocate", {"network": "read .. large", "cores": n})["throughput_per_s"] for n in (2, 4, 8)]
        assert plans == sorted(plans)

    def test_pages_of_an_export_end(self, wire: Wire) -> None:
        page = wire.call("export", {})
        while page["next"] is not None:
            page = wire.call("export", {"after": page["next"]})
        assert isinstance(page["state"], bytes)


def record() -> None:
    with tempfile.TemporaryDirectory() as folder, Served(Path(folder)) as service:
        peer = service.wire()
        lines = [json.dumps({"method": call[0], call[2]: answered(peer, *call)}) for call in CALLS]
        peer.close()
    TRANSCRIPT.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    record()
