"""Bad inputs of every verb, from a table of fields and kinds of wrongness: each refused with code, field, value, bound.

What was refused how is recorded: `bad_inputs.json` holds code, field, and whether a value and a bound were named. A later
answer may say more, never less. `refused.jsonl` holds requests of their own, a line each, with code, field, bound,
and whether the advisor in process refuses the same. To record both anew:
``PYTHONPATH=.:tests/support python tests/behaviour/test_bad_inputs.py``.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from served import Closed, Refused, Served, Wire

from advisor import Advisor
from advisor.errors import AdvisorError

RECORDED, OWN = (Path(__file__).with_name(name) for name in ("bad_inputs.json", "refused.jsonl"))
WORK = {"read": 1.0, "a": 1.0, "b": 2.0, "c": 3.0, "c0": 1.0}
ROWS = [[name, x, p, 1e-3 * work * x * (0.1 + 0.9 / p)]
        for name, work in WORK.items() for x in (100.0, 200.0, 400.0) for p in (1.0, 2.0, 4.0)]  # fmt: skip
NAN, INFINITE = math.nan, math.inf
# Values that are wrong for a field of each type.
WRONG: dict[str, list[Any]] = {
    "name": [7, "", "n" * 201, "two\nlines", ["read"], True, b"\xff\xfe"],
    "number": ["one", True, [], {}, NAN, INFINITE, -1.0],
    "count": ["one", True, 1.5, -1, 0, 2**40, [1]],
    "share": ["half", True, -0.5, 1.5, NAN, [0.5]],
    "seconds": ["soon", True, -1.0, 1e12, NAN, [1.0]],
    "flag": ["yes", 1, 0.5, []],
    "text": [7, True, ["throughput"], {}, "nonsense"],
    "bin16": ["text", b"short", 7, b"x" * 17],
    "map": [7, "text", True, ["read"]],
    "list": [7, "text", True, {}],
    "column": ["text", 7, b"odd", [1.0]],
}
RUN = {"program": "sort", "size": 1e6, "workers": 8.0, "elapsed_s": 0.0112, "work_s": 0.0823, "delay_s": 0.0065,
       "no_work_s": 0.0008, "creates": 43000.0, "waits": 21000.0}  # fmt: skip
# Verb: parameters that are taken, and of which type its fields are.
VERBS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "hello": ({}, {"protocol": "count", "token": "name", "producer": "name", "incarnation": "bin16", "retire": "flag"}),
    "observe_rows": ({"producer": "p", "sequence": 1, "rows": []},
                     {"producer": "name", "incarnation": "bin16", "sequence": "count", "rows": "list"}),
    "observe_columns": ({"producer": "p", "sequence": 1, "components": ["read"], "index": bytes(4), "cores": bytes(8),
                         "elapsed_s": bytes(8)},
                        {"components": "list", "index": "column", "cores": "column", "elapsed_s": "column",
                         "predictor": "column", "labels": "list"}),
    "predict": ({"component": "read", "predictor": 200.0, "cores": 2},
                {"component": "name", "predictor": "number", "cores": "number", "level": "share", "model": "text",
                 "machine": "name", "measure": "text", "prior": "flag"}),
    "choose_cores": ({"component": "read", "predictor": 200.0, "cores_max": 8},
                     {"component": "name", "predictor": "number", "cores_max": "count", "level": "share",
                      "risk": "share", "machine": "name", "prior": "flag"}),
    "suggest": ({"component": "read", "cores_max": 8},
                {"component": "name", "cores_max": "count", "limit": "count"}),
    "allocate": ({"network": "read", "cores": 4},
                 {"cores": "count", "objective": "text", "target": "map", "visits": "list", "minimum": "list",
                  "maximum": "list", "instances_max": "text", "level": "share", "nodes": "count", "memory_bytes": "number",
                  "arrival_per_s": "number", "quantile": "share", "work_max": "count",
                  "turns": "text", "allowed": "text", "pinned": "list"}),
    "allocate_together": ({"networks": [{"network": "read"}], "cores": 4},
                          {"networks": "map", "cores": "count", "objective": "text", "level": "share"}),
    "define_network": ({"id": "images", "text": "read .. write"}, {"text": "name", "nodes": "map"}),
    "flow": ({"network": "film"}, {"network": "list"}),
    "curves": ({}, {"components": "map", "level": "share", "cores_max": "count", "since": "text"}),
    "watch": ({"network": "read", "cores": 4},
              {"cores": "count", "objective": "text", "horizon_s": "seconds", "gain_min": "text"}),
    "unwatch": ({"watch": 1}, {"watch": "text"}),
    "simulate": ({"graph": {"unit": "s", "times": bytes(8)}, "cores": [1]},
                 {"graph": "list", "cores": "map", "policies": "map", "metrics": "map", "seed": "text"}),
    "status": ({}, {"components": "text", "limit": "text", "offset": "text"}),
    "forget": ({"component": "read"}, {"component": "name", "producer": "name"}),
    "pin": ({"component": "read", "model": None}, {"component": "name", "model": "text"}),
    "task_events": ({"records": b""}, {"records": "column", "strings": "map", "clock": "list", "ended": "flag"}),
    "export": ({}, {"after": "text"}),
    "profile": ({"producer": "p"}, {"producer": "name", "incarnation": "bin16", "nodes": "flag", "ended": "flag"}),
    "observe_run": (RUN, {"program": "name", "size": "number", "workers": "number", "elapsed_s": "number",
                          "work_s": "number", "transform": "text"}),
    "predict_run": ({"program": "sort", "size": 1e6, "workers": 8}, {"program": "name", "size": "number",
                                                                      "workers": "number", "level": "share"}),
}  # fmt: skip
CASES: list[tuple[str, str, Any, dict[str, Any]]] = [
    *((verb, field, wrong, base | {field: wrong})
      for verb, (base, fields) in VERBS.items() for field, kind in fields.items() for wrong in WRONG[kind]),
    *((verb, "params", "an unknown key", base | {"nothing": 1}) for verb, (base, _) in VERBS.items()),
    *((verb, "params", "no map", [base]) for verb, (base, _) in VERBS.items()),
    *((verb, key, "left out", {k: v for k, v in base.items() if k != key})
      for verb, key in (("predict", "component"), ("choose_cores", "component"), ("choose_cores", "cores_max"),
                        ("allocate", "network"), ("allocate", "cores"), ("allocate_together", "networks"),
                        ("allocate_together", "cores"), ("flow", "network"), ("simulate", "graph"),
                        ("simulate", "graph"), ("observe_run", "program"), ("predict_run", "program"),
                        ("forget", "component"), ("pin", "component"), ("pin", "model"), ("observe_rows", "rows"),
                        ("observe_columns", "index"), ("observe_columns", "elapsed_s"))
      for base in (VERBS[verb][0],)),
]  # fmt: skip


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with Served(tmp_path_factory.mktemp("bad")) as service:
        peer = taught(service)
        yield peer
        peer.close()


def taught(service: Served) -> Wire:
    peer = service.wire()
    peer.call("observe_rows", {"rows": ROWS})
    peer.call("define_network", {"id": "film", "text": "read .. write"})
    return peer


def refusal(wire: Wire, case: tuple[str, str, Any, dict[str, Any]]) -> dict[str, Any] | None:
    """Return code and field of a refusal, and whether it names value and bound; None where the input was taken."""
    verb, _, _, params = case
    try:
        wire.call(verb, params)
    except Refused as refused:
        error = refused.error
        assert set(error) == {"code", "message", "field", "value", "bound", "retry", "hint"}
        return {"code": error["code"], "field": error["field"]} | {
            key: error[key] is not None and error[key] != "" for key in ("value", "bound")
        }
    return None


def words(case: tuple[str, str, Any, dict[str, Any]]) -> str:
    verb, field, wrong, _ = case
    return f"{verb} {field} {str(wrong)[:24]!r}"


def read(value: Any) -> Any:
    """Return what a line of `refused.jsonl` stands for: bytes and maps of other keys than text are written as maps."""
    if isinstance(value, dict):
        if value.keys() == {"bin"}:
            return bytes.fromhex(value["bin"])
        return {read(k): read(v) for k, v in value.get("pairs", value.items())}
    return [read(each) for each in value] if isinstance(value, list) else value


def own_refusal(service: Served, peers: list[Wire], verb: str, params: list[Any]) -> list[Any]:
    """Return code, field and bound; a connection that met too many errors is closed, and the next one asks."""
    while True:
        try:
            return ["taken", None, peers[-1].call(verb, *read(params))]
        except Closed:
            peers[-1].close()
            peers.append(service.wire())
        except Refused as refused:
            return [refused.error[key] for key in ("code", "field", "bound")]


def test_each_request_of_the_file_is_refused_as_recorded(tmp_path: Path) -> None:
    problems = []
    with Served(tmp_path) as service:
        peers = [taught(service)]
        for verb, params, *recorded, _ in map(json.loads, OWN.read_text().splitlines()):
            found = own_refusal(service, peers, verb, params)
            if found != recorded:
                problems.append(f"{verb} {params}: {found}, {recorded} was recorded")
        peers[-1].close()
    assert not problems, "\n".join(problems)


def advisor_here() -> Advisor:
    advisor = Advisor()
    for name, x, p, t in ROWS:
        advisor.observe(name, predictor=x, cores=p, elapsed_s=t)
    advisor.define_network("read .. write", id="film")
    return advisor


def refused_here(advisor: Advisor, verb: str, params: list[Any], code: str, field: str | None) -> bool:
    """Return whether the advisor in process refuses a request by the same code and field."""
    given = read(params)[0] if len(params) == 1 else None
    if verb == "observe" and len(params) in (4, 5):
        given = dict(zip(("component", "predictor", "cores", "elapsed_s"), read(params), strict=False))
        given |= read(params)[4] if len(params) == 5 and isinstance(read(params)[4], dict) else {}
    if not hasattr(advisor, verb) or not isinstance(given, dict) or not all(isinstance(key, str) for key in given):
        return False
    try:
        getattr(advisor, verb)(**given)
    except AdvisorError as error:
        return (error.code, error.field) == (code, field)
    except (TypeError, AttributeError):  # an argument that there is only on the wire
        return False
    return False


def test_the_advisor_in_process_refuses_the_same() -> None:
    advisor, state = advisor_here(), advisor_here().to_bytes()
    lines = [line for line in map(json.loads, OWN.read_text().splitlines()) if line[5]]
    assert len(lines) > 250
    assert [line for line in lines if not refused_here(advisor, *line[:4])] == []
    assert advisor.to_bytes() == state  # nothing is learned


def test_the_table_has_three_hundred_cases() -> None:
    assert sum(1 for each in json.loads(RECORDED.read_text()) if each is not None) >= 300


@pytest.mark.parametrize("verb", list(VERBS))
def test_bad_input_is_refused_with_code_field_value_and_bound(wire: Wire, verb: str) -> None:
    problems = []
    for case, recorded in zip(CASES, json.loads(RECORDED.read_text()), strict=True):
        if case[0] != verb or recorded is None:
            continue
        found = refusal(wire, case)
        if found is None:
            problems.append(f"{words(case)} was taken")
        elif (found["code"], found["field"]) != (recorded["code"], recorded["field"]):
            problems.append(f"{words(case)}: {found}, {recorded} was recorded")
        elif any(recorded[key] and not found[key] for key in ("value", "bound")):
            problems.append(f"{words(case)}: {found} names less than {recorded}")
    assert not problems, "\n".join(problems)
    assert wire.call("predict", "read", 200.0, 2)["elapsed_s"] > 0  # the same connection goes on


def record() -> None:
    with tempfile.TemporaryDirectory() as folder, Served(Path(folder)) as service:
        peer = taught(service)
        lines = []
        for case in CASES:
            lines.append(json.dumps(refusal(peer, case)))
            if lines[-1] == "null":
                print("taken:", words(case))
        peers = [peer]
        own = [json.loads(line)[:2] for line in OWN.read_text().splitlines()]
        anew = [[*each, *own_refusal(service, peers, *each)] for each in own]
        here = advisor_here()
        OWN.write_text("".join(json.dumps([*each, refused_here(here, *each[:4])]) + "\n" for each in anew))
        peers[-1].close()
    RECORDED.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    record()
