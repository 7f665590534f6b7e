"""The resource server on real sockets: the recorded dialogue, cut, slow and lying clients, a virtual clock."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from live import PATIENCE_S, running
from snet_lending import Peer, lending

from advisor.engine import Engine
from advisor.engine.events import NetworkDefined
from advisor.engine.granting import ANSWER_S, RETURN_S, TURN_S
from advisor.errors import InvalidValue
from advisor.service import load_config
from advisor.service.snet_machine import host_name
from advisor.service.snet_resources import CLIENTS_MAX, REFRESH_S


async def test_the_recorded_dialogue_verb_by_verb() -> None:
    async with lending() as lender:
        one = await lender.peer()
        assert await one.asks("{ list }") == "{ systems 0 }"
        assert await one.asks("{ access 0 } { local 2 }") == "{ grant 0 0 1 }"
        one.say("{ accept 0 0 1 }")
        await one.comes_after()
        two = await lender.peer()
        assert await two.asks("{ list }") == "{ systems 0 }"
        two.say("{ access 0 } { local 1 }")
        assert await one.reported() == "{ revoke 0 0 }"
        one.say("{ return 0 1 }")
        assert await two.reported() == "{ grant 0 1 }"
        lender.resources.granting.check_cores_lent_once()


async def test_the_topology_comes_before_any_grant_however_the_bytes_come() -> None:
    said = "{ access 0 }{ topology 0 }{ local 1 }"
    for cuts in ([len(said)], range(1, len(said) + 1)):
        async with lending() as lender:
            peer = await lender.peer()
            start = 0
            for end in cuts:
                peer.say(said[start:end])
                await asyncio.sleep(0)
                start = end
            assert " children 1 { numa 0 children 1 { cache 0 children 2" in await peer.reported()
            assert await peer.reported() == "{ grant 0 0 }"


async def test_who_waits_is_shown_and_served_in_turn() -> None:
    async with lending(cores=1, snet_resources=["127.0.0.1:0=film"]) as lender:
        one, two, three = [await lender.peer(hello="{ access 0 }{ local 1 }") for _ in range(3)]
        for each in (two, three):
            await each.comes_after()
        assert await one.reported() == "{ grant 0 0 }"
        one.say("{ accept 0 0 }")
        await one.comes_after()
        await lender.passes(2.0)
        shown = {
            sample.labels["peer"]: sample.value
            for metric in lender.resources.collect()
            if metric.name == "advisor_snet_waiting_seconds"
            for sample in metric.samples
        }
        assert list(shown.values()) == [2.0] * 2
        assert await one.reported() == "{ revoke 0 0 }"
        one.say("{ return 0 0 }")
        assert await two.reported() == "{ grant 0 0 }"
        two.say("{ accept 0 0 }")
        await two.comes_after()
        await lender.passes(TURN_S)
        assert await two.reported() == "{ revoke 0 0 }"
        two.say("{ return 0 0 }")
        assert await three.reported() == "{ grant 0 0 }"


async def test_a_core_that_is_not_returned_costs_its_client_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async with lending(cores=1) as lender:
        one = await lender.peer(hello="{ access 0 }{ local 1 }")
        assert await one.reported() == "{ grant 0 0 }"
        one.say("{ accept 0 0 }{ local 0 }")
        assert await one.reported() == "{ revoke 0 0 }"
        two = await lender.peer(hello="{ access 0 }{ local 1 }")
        await two.comes_after()
        await lender.passes(RETURN_S)
        await two.comes_after()  # nothing came before
        with caplog.at_level("INFO", "advisor.service"):
            await lender.passes(2 * REFRESH_S)
        assert await one.reported() == ""
        assert await two.reported() == "{ grant 0 0 }"
        assert lender.resources.ends == {"a core not returned": 1}
        assert "resource client gone" in caplog.text
        await lender.passes(ANSWER_S + REFRESH_S)
        assert await two.reported() == ""
        assert lender.resources.ends["a grant unanswered"] == 1
        assert lender.resources.granting.lent() == {"free": 1}


async def test_lies_change_nothing_and_are_counted() -> None:
    async with lending() as lender:
        one, two = [await lender.peer(hello="{ access 0 }{ local 1 }") for _ in range(2)]
        assert [await one.reported(), await two.reported()] == ["{ grant 0 0 }", "{ grant 0 1 }"]
        one.say("{ accept 0 0 }")
        two.say(
            "{ accept 0 1 }{ accept 0 0 }{ accept 0 55 }{ return 0 0 }{ return 7 1 }{ shutdown }{ dance }{ remote 5 }"
        )
        await one.comes_after()
        assert await two.asks("{ state }") == "{ state { client local 1 granted 1 accepted 1 revoked 0 } }"
        assert lender.resources.granting.lent() == {"held": 2, "free": 0}
        counts = lender.resources.granting.counts
        assert counts == {
            "granted": 2, "accepted": 2, "accepted, not offered": 2, "returned, not held": 1, "another system": 1,
            "shutdown, not obeyed": 1, "unknown command": 1,
        }  # fmt: skip
        three = await lender.peer(hello="{ access 0 }{ local 1 } what? ")
        assert await three.reported() == ""


async def test_a_client_that_does_not_read_is_not_read_either() -> None:
    async with lending() as lender:
        greedy = await lender.peer()
        greedy.writer.transport.pause_reading()
        for _ in range(200):
            greedy.say("{ topology 0 }" * 1000)
            await asyncio.sleep(0)
        other = await lender.peer(hello="{ access 0 }{ local 1 }")
        assert await other.reported() == "{ grant 0 0 }"
        async with asyncio.timeout(PATIENCE_S):
            while not (full := [each for each in lender.resources.clients if not each._transport.is_reading()]):
                await asyncio.sleep(0)
        (client,) = full
        for _ in range(1000):
            await asyncio.sleep(0)
        assert not client._transport.is_reading()
        assert client._transport.get_write_buffer_size() < 2**17
        greedy.writer.transport.abort()


async def test_a_cut_after_any_byte_leaves_no_core_lent() -> None:
    said = "{ list }{ access 0 }{ topology 0 }{ local 2 }{ accept 0 0 1 }{ return 0 1 }{ local 1 }"
    async with lending() as lender:
        for sent in range(len(said) + 1):
            peer = await lender.peer(hello=said[:sent])
            if sent > said.index("}{ accept"):  # else its cores may not have been granted yet
                while not (await peer.reported()).startswith("{ grant"):
                    pass
            peer.writer.close()
            async with asyncio.timeout(PATIENCE_S):
                while lender.resources.clients or lender.resources.ends.total() <= sent:
                    await asyncio.sleep(0)
            assert lender.resources.granting.lent() == {"free": 2}, said[:sent]
            lender.resources.granting.check_cores_lent_once()


async def test_too_many_clients_are_turned_away() -> None:
    async with lending() as lender:
        for _ in range(CLIENTS_MAX):
            await (await lender.peer(hello="{ list }")).reported()
        assert await (await lender.peer(hello="{ list }")).reported() == ""
        assert lender.resources.ends == {"too many clients": 1}


def teach(engine: Engine, box: str, seconds: float) -> None:
    """Teach a box whose runs take `seconds` / cores."""
    cores = [c for c in (1.0, 2.0, 4.0, 8.0) for _ in range(6)]
    receipt = engine.advisor.observe_columns(
        components=[box], index=[0] * len(cores), predictor=[1.0] * len(cores), cores=cores,
        elapsed_s=[seconds / c * (1 + 0.01 * (-1) ** i) for i, c in enumerate(cores)],
    )  # fmt: skip
    assert receipt.accepted == len(cores)


async def obeys(peer: Peer, holds: set[int]) -> None:
    """Answer like the runtime's library whose workers are idle: accept what comes, return what is asked for."""
    while True:
        words = (await peer.reported()).split()
        if not words:
            return
        cores = {int(core) for core in words[3:-1]}
        if words[1] == "grant":
            assert not holds & cores
            holds |= cores
        elif words[1] == "revoke":
            assert cores <= holds
            holds -= cores
        peer.say(f"{{ {'accept' if words[1] == 'grant' else 'return'} 0 {' '.join(words[3:-1])} }}")


async def test_grants_follow_curves_that_differ_threefold_within_two_seconds() -> None:
    ports = ["127.0.0.1:0=film", "127.0.0.1:0=sound", "127.0.0.1:0"]
    async with lending(cores=8, snet_resources=ports) as lender:
        for network, box in (("film", "blur"), ("sound", "mix")):
            lender.engine.apply_event(None, None, NetworkDefined(box, network))
        holds: list[set[int]] = [set(), set(), set()]
        async with asyncio.TaskGroup() as group:
            peers = [await lender.peer(port, hello="{ access 0 }{ local 8 }") for port in range(2)]
            peers.append(await lender.peer(2, hello="{ access 0 }{ local 1 }"))
            tasks = [group.create_task(obeys(peer, held)) for peer, held in zip(peers, holds, strict=True)]

            async def settled(*sizes: int) -> None:
                async with asyncio.timeout(PATIENCE_S):
                    while tuple(map(len, holds)) != sizes:
                        await asyncio.sleep(0.001)

            await settled(4, 3, 1)  # nothing is learned: by what each could use
            teach(lender.engine, "blur", 1.0)
            teach(lender.engine, "mix", 3.0)
            await lender.passes(2.0)
            await settled(6, 1, 1)
            for _ in range(8):  # it changes: the other one is nine times as fast as it was
                teach(lender.engine, "mix", 1.0 / 3.0)
            await lender.passes(2.0)
            await settled(1, 6, 1)
            lender.engine.apply_event(None, None, NetworkDefined("unheard", "sound"))  # of which nothing is known
            await lender.passes(2.0)
            await settled(4, 3, 1)
            for task in tasks:
                task.cancel()
        lender.resources.granting.check_cores_lent_once()


async def test_a_service_lends_this_machines_cores_and_shows_it(tmp_path: Path) -> None:
    usable = sorted(os.sched_getaffinity(0))
    async with running(tmp_path, http="127.0.0.1:0", snet_resources=["0=net*2.5"]) as live:
        (address,) = live.bound.snet
        assert address.loopback
        peer = Peer(*await asyncio.open_connection(*address))
        reported = await peer.asks("{ topology 0 }")
        told = [(str(at), str(number)) for at, number in enumerate(usable[:63])]
        assert re.findall(r"proc 0 logical (\d+) physical (\d+)", reported) == told
        assert await peer.asks("{ access 0 }{ local 1 }") == "{ grant 0 0 }"
        async with httpx.AsyncClient() as client:
            text = (await client.get(f"http://{live.bound.http}/metrics")).text
        assert 'advisor_snet_cores{state="offered"} 1.0' in text
        assert "advisor_snet_clients 1.0" in text
        live.stop.set()
        assert await peer.reported() == ""
        peer.writer.close()


def test_ports_are_loopback_unless_said() -> None:
    config = load_config(snet_resources=["56389", "[::1]:7=a=b", "localhost:8=c"])
    assert [(str(port.address), port.network) for port in config.snet_resources] == [
        ("127.0.0.1:56389", None), ("[::1]:7", "a=b"), ("localhost:8", "c")
    ]  # fmt: skip
    with pytest.raises(InvalidValue, match="no token"):
        load_config(snet_resources=["0.0.0.0:56389"])
    assert load_config(snet_resources=["0.0.0.0:56389"], open_beyond_loopback="snet").snet_resources[0].network is None


@pytest.mark.parametrize("value", ["", "x", "1=", "99999", 5.0, ["1", None]])
def test_a_bad_port_is_refused(value: Any) -> None:
    with pytest.raises(InvalidValue) as caught:
        load_config(snet_resources=value)
    assert caught.value.field in ("snet_resources", "network")


@pytest.mark.parametrize(
    ("name", "reported"),
    [
        ("node-7.site", "node-7.site"), ("core-7", "x-core-7"), ("localhost", "localhost"), ("7up", "x-7up"),
        ("a_b c", "a-b-c"), ("", "x-"),
    ],
)  # fmt: skip
def test_a_hosts_name_is_read_as_a_name(name: str, reported: str) -> None:
    assert host_name(name) == reported
