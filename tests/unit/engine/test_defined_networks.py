"""Networks kept by id: defined, redefined, bounded, and what questions take of their flow."""

from __future__ import annotations

from typing import Any

import pytest
from flow_streams import NODES, check, learned, stream

from advisor.domain import limits
from advisor.engine import Advisor
from advisor.errors import InvalidValue, TooLarge, UnknownNetwork
from advisor.models import flow as learner


def test_a_network_is_kept_by_its_id() -> None:
    advisor = Advisor()
    first = advisor.define_network("a .. (b | c)", id=1)
    assert first["id"] == 1
    assert first["keys"] == ["a", "b", "c"]
    assert first["choices"] == [2]
    assert advisor.define_network("a .. (b | c)", id=1) == first
    assert advisor.define_network("a .. b", id=2)["id"] == 2
    assert advisor.define_network("a", id="front end")["id"] == "front end"
    assert advisor.define_network("a", id=7)["id"] == 7
    assert advisor.network("7").keys == advisor.network(7).keys == ("a",)
    state = advisor.to_bytes()
    advisor.define_network("a .. b", id=2)
    assert advisor.to_bytes() == state
    assert Advisor.from_bytes(state).network(1).keys == ("a", "b", "c")


def test_another_network_under_an_id_begins_anew() -> None:
    advisor = learned(stream(50, 1))
    assert advisor.flow("net").records == 50
    advisor.define_network("a .. b", id="net")
    assert advisor.flow("net").records == 0
    assert advisor.network("net").keys == ("a", "b")


def test_what_came_before_the_definition_counts() -> None:
    advisor = learned(stream(500, 2), define=False)
    with pytest.raises(UnknownNetwork):
        advisor.flow("net")
    by_structure = advisor.flow("net", NODES)
    check(by_structure, 500)
    advisor.define_network(NODES, id="net")
    assert advisor.flow("net").visits == by_structure.visits


@pytest.mark.parametrize("bad", [-1, 2**53 + 1, True, 1.5, None, "", "a\n", b"x", []])
def test_what_is_no_id_is_refused(bad: Any) -> None:
    advisor = Advisor()
    with pytest.raises(InvalidValue) as caught:
        advisor.define_network("a", id=bad)
    assert caught.value.field == "id"
    with pytest.raises(InvalidValue):
        advisor.flow(bad)


def test_an_unknown_id_is_named() -> None:
    advisor = Advisor()
    advisor.define_network("a", id="one")
    for ask in (lambda: advisor.flow(9), lambda: advisor.allocate(9, cores=2), lambda: advisor.network(9)):
        with pytest.raises(UnknownNetwork) as caught:
            ask()
        assert (caught.value.value, caught.value.bound) == (9, "one")


def test_networks_are_bounded() -> None:
    advisor = Advisor()
    for i in range(limits.NETWORKS_NAMED_MAX + 3):  # as rows name them
        advisor.observe("a", elapsed_s=1.0, network=f"n{i}")
    assert advisor.status()["totals"]["network_rows_dropped"] == 3
    for i in range(limits.NETWORKS_MAX):  # what is defined comes first
        advisor.define_network("a", id=i)
    with pytest.raises(TooLarge) as caught:
        advisor.define_network("a", id="one more")
    assert (caught.value.field, caught.value.bound) == ("networks", limits.NETWORKS_MAX)
    advisor.define_network("b", id=3)


def test_definitions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.engine.flows.DEFINITION_BYTES_MAX", 40)
    advisor = Advisor()
    advisor.define_network("a .. b .. c", id=1)
    before = advisor.to_bytes()
    with pytest.raises(TooLarge):
        advisor.define_network("a .. b .. c .. d .. e .. f .. g .. h", id=2)
    assert advisor.to_bytes() == before


def test_keys_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner, "KEYS_MAX", 3)
    advisor = learned(stream(300, 3))
    kept = advisor.components.flows.known["net"].counts
    assert len(kept.runs) == 3
    assert kept.n["keyless"] > 0
    assert {"e", "f"}.isdisjoint(advisor.flow("net").visits)


def test_allocate_takes_what_was_learned_where_the_query_is_silent() -> None:
    advisor = learned(stream(3000, 25))
    learned_plan = advisor.allocate("net", cores=12)
    flow = advisor.flow("net")
    routes = {name: list(getattr(flow, name)) for name in ("shares", "depths", "fan_outs", "returns")}
    assert learned_plan == advisor.allocate(NODES, cores=12, visits=flow.visits, **routes)
    assert advisor.allocate("net", cores=12, visits={"e": 50.0}).bottleneck == ("e",)
    given = advisor.allocate("net", cores=12, shares=[[0.0, 1.0]])
    assert given == advisor.allocate(NODES, cores=12, **{**routes, "shares": [[0.0, 1.0]]})


def test_a_text_that_is_an_id_is_the_id() -> None:
    advisor = Advisor()
    for name in "ab":
        advisor.observe(name, elapsed_s=1.0)
    assert set(advisor.allocate("a", cores=2).cores) == {"a"}
    advisor.define_network("a .. b", id="a")
    assert set(advisor.allocate("a", cores=2).cores) == {"a", "b"}
