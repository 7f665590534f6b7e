"""Fair folding: turns go round by producer, whatever is queued; and rates hold over any stretch of time."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from live import Peer, rows_of, running

from advisor.service.rota import BURST_S, Allowance, Rounds

PATHS = st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


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


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(1, 500)), max_size=60), st.floats(1, 1000))
def test_a_rate_holds_over_any_stretch_of_time(tries: list[tuple[float, int]], rate: float) -> None:
    clock = Clock()
    allowance = Allowance(rate, clock)
    taken: list[tuple[float, int]] = []
    for idle, rows in tries:
        clock.now += idle
        if not allowance.wait_s():
            allowance.spend(rows)
            taken.append((clock.now, rows))
    for i in range(len(taken)):
        for j in range(i, len(taken)):
            between = sum(rows for _, rows in taken[i:j])  # of the last batch none: it is taken whole
            assert between <= rate * (taken[j][0] - taken[i][0] + BURST_S) * (1 + 1e-9)


def test_who_waits_for_its_rate_may_go_on_then() -> None:
    clock = Clock()
    allowance = Allowance(10.0, clock)
    allowance.spend(110)  # ten of them at once, by the burst
    assert allowance.wait_s() == pytest.approx(10.0)
    clock.now = 10.0 + 1e-9
    assert allowance.wait_s() == 0


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


async def test_a_grant_has_a_rate_of_rows_and_others_go_on(tmp_path: Path) -> None:
    """At a row a second the second batch would be folded hours later, whatever connection brings it; no stop waits for it."""
    secrets = {name: f"{name}, a secret that is long enough" for name in ("slow", "other")}
    grants = "\n".join(
        f"[[grant]]\nname = '{name}'\ntoken = '{secret}'\nread = true\nwrite = ['*']"
        for name, secret in secrets.items()
    )
    file = tmp_path / "access"
    file.write_text(grants.replace("'slow'\n", "'slow'\nrows_per_second = 1\n"))
    file.chmod(0o600)
    async with running(tmp_path, tcp="127.0.0.1:0", access_file=file) as live:
        slow, again, other = [await live.peer() for _ in range(3)]
        for peer, name in ((slow, "slow"), (again, "slow"), (other, "other")):
            await peer.call("hello", {"token": secrets[name]})
        await slow.call("observe_rows", {"producer": "p", "sequence": 1, "rows": rows_of(2_000)})
        await slow.call("status", {})  # its questions are not counted
        await slow.post("observe_rows", {"producer": "p", "sequence": 2, "rows": rows_of(100)})
        await again.post("observe_rows", {"rows": rows_of(100)})
        for number in range(1, 20):
            await other.call("observe_rows", {"producer": "o", "sequence": number, "rows": rows_of(100)})
        assert (await other.call("status", {}))["totals"]["rows_accepted"] == 3_900
        live.stop.set()
        assert (await slow.closed())[-1][2]["message"] == "the service is stopping"
