"""Networks kept by id through the service and both clients: durable, idempotent, refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from anyio import to_thread
from live import refused, running

from advisor.client import AsyncClient, SyncClient
from advisor.domain.networks import choice, series
from advisor.errors import UnknownNetwork

TEXT = "a .. (b | c) .. d"


def rows(records: int, network: str = "net") -> list[list[object]]:
    """One record in four goes through b."""
    found: list[list[object]] = []
    for record in range(records):
        names = ["a", "b" if record % 4 == 0 else "c", "d"]
        found += [
            [name, 1.0, 1.0, 0.01, {"network": network, "record": record, "entered": name == "a"}] for name in names
        ]
    return found


async def test_a_network_is_defined_learned_and_planned_and_outlives_the_service(tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with running(tmp_path, state=state) as live:
        peer = await live.peer()
        answer = await peer.call("define_network", {"id": "net", "text": TEXT})
        assert answer == {
            "id": "net", "keys": ["a", "b", "c", "d"], "components": ["a", "b", "c", "d"], "choices": [2],
            "replications": 0, "splits": 0, "feedbacks": 0,
        }  # fmt: skip
        assert await peer.call("define_network", {"id": "net", "text": TEXT}) == answer
        await peer.call("observe_rows", {"rows": rows(200)})
        flow = await peer.call("flow", {"network": "net"})
        assert flow["shares"] == [[0.25, 0.75]]
        assert flow["records"] == 200
        plan = await peer.call("allocate", {"network": "net", "cores": 8})
        by_hand = await peer.call("allocate", {"network": TEXT, "cores": 8, "shares": [[0.25, 0.75]]})
        assert plan == by_hand
        assert (
            plan["cores"] != (await peer.call("allocate", {"network": TEXT, "cores": 8, "shares": [[1, 0]]}))["cores"]
        )
        unlike = await peer.call("allocate", {"network": "net", "cores": 8, "shares": [[1.0, 0.0]]})
        assert unlike != plan
    async with running(tmp_path, state=state) as live:
        peer = await live.peer()
        assert await peer.call("flow", {"network": "net"}) == flow
        again = await peer.call("allocate", {"network": "net", "cores": 8})
        assert again == plan


async def test_what_cannot_be_kept_is_refused_by_name(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await live.peer()
        await refused("network_syntax", peer.call("define_network", {"text": "a .. .. b"}))
        error = await refused("invalid", peer.call("define_network", {"id": 1.5, "text": "a"}))
        assert error.field == "id"
        for both in ({}, {"text": "a", "nodes": [{"kind": "box", "name": "a"}]}):
            assert (await refused("invalid", peer.call("define_network", both))).field == "text"
        await peer.call("define_network", {"id": 3, "text": "a"})
        for ask in (
            peer.call("flow", {"network": 4}), peer.call("flow", {"network": "net"}),
            peer.call("allocate", {"network": 4, "cores": 2}),
        ):  # fmt: skip
            error = await refused("unknown_network", ask)
            assert error.value in (4, "net")
            assert error.bound == "3"


async def test_a_large_network_is_read_elsewhere(tmp_path: Path) -> None:
    text = " .. ".join(f"box_{i}" for i in range(400))
    async with running(tmp_path, state=tmp_path / "state") as live:
        peer = await live.peer()
        answer = await peer.call("define_network", {"text": text})
        assert (answer["id"], len(answer["keys"])) == (1, 400)
        await refused("network_syntax", peer.call("define_network", {"text": text + " .."}))
        assert (await peer.call("flow", {"network": 1}))["records"] == 0
        await peer.call("observe_rows", {"rows": [[f"box_{i}", 1.0, 1.0, 0.1] for i in range(400)]})
        plan = await peer.call("allocate", {"network": 1, "cores": 500})
        assert len(plan["cores"]) == 400


async def test_both_clients_and_rows_as_columns(tmp_path: Path) -> None:
    network = series("a", choice("b", "c"), "d")
    async with running(tmp_path) as live:
        address = f"unix:{live.bound.socket}"
        async with AsyncClient(address) as client:
            defined = await client.define_network(network)
            assert defined["id"] == 1
            given = rows(100, "1")
            names = ["a", "b", "c", "d"]
            told = [row[4] for row in given]
            await client.observe_columns(
                components=names, index=[names.index(str(row[0])) for row in given], cores=[1.0] * len(given),
                elapsed_s=[0.01] * len(given), network=["1"] * len(given),
                record=[more["record"] for more in told],  # type: ignore[index]
                entered=[more["entered"] for more in told],  # type: ignore[index]
            )  # fmt: skip
            await client.flush()
            flow = await client.flow(1)
            assert flow.shares == ([0.25, 0.75],)
            assert flow.visits == {"a": 1.0, "b": 0.25, "c": 0.75, "d": 1.0}

        def ask() -> None:
            with SyncClient(address) as client:
                assert client.define_network(TEXT, id=2)["id"] == 2
                assert client.flow(1) == flow
                assert set(client.allocate(1, cores=8).runs_on) == set(names)
                with pytest.raises(UnknownNetwork):
                    client.flow(5)

        await to_thread.run_sync(ask)
