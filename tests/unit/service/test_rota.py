"""Fair folding: turns go round by identity and connection, whatever is queued."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from live import Peer, rows_of, running

from advisor.service.rota import Rounds

PATHS = st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"))


@given(st.dictionaries(PATHS, st.integers(1, 9), min_size=1))
def test_each_who_waits_is_served_as_often_as_the_others_of_its_level(queues: dict[tuple[str, str], int]) -> None:
    rounds: Rounds[tuple[str, str, int]] = Rounds()
    for (grant, producer), length in queues.items():
        for number in range(length):
            rounds.add((grant, producer), (grant, producer, number))
    order = [rounds.take() for _ in range(len(rounds))]
    assert not rounds
    for path, length in queues.items():
        assert [number for *own, number in order if tuple(own) == path] == list(range(length))
    for level in (0, 1):
        for mine, others in itertools.permutations({path[: level + 1] for path in queues}, 2):
            if mine[:level] == others[:level]:
                turns = [own[: level + 1] for own in order]
                until = min(len(turns) - 1 - turns[::-1].index(each) for each in (mine, others))  # both wait up to here
                served = [turns[: until + 1].count(each) for each in (mine, others)]
                assert abs(served[0] - served[1]) <= 1


async def fill(peer: Peer, producer: str, batches: int) -> list[int]:
    """Send many batches without waiting for an answer."""
    return [
        await peer.post("observe_rows", {"producer": producer, "sequence": n + 1, "rows": rows_of(100)})
        for n in range(batches)
    ]


@pytest.mark.parametrize("connections", [1, 3])
async def test_who_sends_much_does_not_keep_others_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connections: int
) -> None:
    """Each turn takes one batch: of two producers' batches, whoever sent many gets one turn before the other's."""
    monkeypatch.setattr("advisor.service.connection.SLICE_S", 0.0)
    monkeypatch.setattr("advisor.service.connection.NOTABLE_S", -1.0)
    async with running(tmp_path) as live:
        other = await live.peer()
        await other.call("observe_rows", {"producer": "one", "sequence": 1, "rows": rows_of(100)})
        greedy = [(await live.peer(), f"many-{i}") for i in range(connections)]
        for peer, producer in greedy:
            await fill(peer, producer, 300)
        await other.call("observe_rows", {"producer": "one", "sequence": 2, "rows": rows_of(100)})
        totals = (await other.call("status", {}))["totals"]
        assert totals["rows_accepted"] < 100 * (2 + 300 * connections)
        for peer, _ in greedy:
            await peer.answer(299)
        assert (await other.call("status", {}))["totals"]["rows_accepted"] == 100 * (2 + 300 * connections)
