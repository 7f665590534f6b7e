"""`simulate` through the service, on a real socket: analysed in a worker process, refused with words, killed at the
deadline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from live import refused, running
from paper4_programs import polyroots

from advisor import Advisor
from advisor.client import AsyncClient
from advisor.domain import limits
from advisor.domain.task_graphs import graph_as_flat, task_graph
from advisor.errors import AdvisorError

ROWS = [
    [name, float(size), 1.0, 1e-3 * scale * size]
    for name, scale in (("cut", 1.0), ("paste", 3.0))
    for size in range(1, 41)
]


def typed_graph():
    """Ten cuts of growing size, then a paste that waits for them."""
    return task_graph(
        np.zeros(11), [(k, 10) for k in range(10)], types=("cut", "paste"),
        columns={"type": [0] * 10 + [1], "size": [*range(1, 11), 20]},
    )  # fmt: skip


async def test_the_service_answers_as_the_library_does(tmp_path: Path) -> None:
    graph = polyroots()
    async with running(tmp_path) as live, AsyncClient(str(live.bound.socket)) as client:
        answer = await client.simulate(
            graph, [2, 8], policies=["fifo", "lpt", "work_stealing"], metrics=["speedup", "idle"], seed=7,
            contention={"model": "bandwidth", "demand": 0.2}, advise=True,
        )  # fmt: skip
    assert [(row["policy"], row["cores"]) for row in answer["results"]] == [
        (policy, cores) for policy in ("fifo", "lpt", "work_stealing") for cores in (2, 8)
    ]
    mine = Advisor().simulate(
        graph, cores=[2, 8], policies=["fifo", "lpt", "work_stealing"], metrics=["speedup", "idle"], seed=7,
        contention={"model": "bandwidth", "demand": 0.2}, advise=True,
    )  # fmt: skip
    assert answer == mine
    assert answer["results"][0]["speedup"] > 1
    assert {entry["code"] for entry in answer["advice"]} == {"cores", "limit"}


async def test_task_times_come_from_what_was_learned(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await live.peer()
        await peer.call("observe_rows", {"rows": ROWS})
        graph = graph_as_flat(typed_graph())
        answer = await peer.call("simulate", {"graph": graph, "cores": [1, 5], "predict_times": True})
        on_one, on_five = answer["results"]
        assert on_one["makespan"] == pytest.approx(0.055 + 0.06, rel=0.02)
        assert on_five["makespan"] < on_one["makespan"]
        # The same in process.
        adv = Advisor()
        for name, size, cores, elapsed in ROWS:
            adv.observe(name, predictor=size, cores=cores, elapsed_s=elapsed)
        assert adv.simulate(typed_graph(), cores=[1, 5], predict_times=True) == answer
        # A unit that is none.
        strange = {"graph": graph | {"unit": "parsec"}, "cores": [1], "predict_times": True}
        assert (await refused("invalid", peer.call("simulate", strange))).field == "unit"  # as where times are given
        # A type of another name, and one that nobody has seen.
        other = graph | {"types": ["snip", "paste"]}
        await refused("unknown_component", peer.call("simulate", {"graph": other, "cores": [1], "predict_times": True}))
        named = {"graph": other, "cores": [1, 5], "predict_times": True, "components": {"snip": "cut"}}
        assert (await peer.call("simulate", named))["results"] == answer["results"]


async def test_strands_share_the_time_of_the_instance_that_was_learned(tmp_path: Path) -> None:
    graph = typed_graph()
    whole = [(graph.columns["type"] == kind).sum() for kind in range(len(graph.types))]
    parts = replace(
        graph, columns={**graph.columns, "part": np.array([1.0 / whole[kind] for kind in graph.columns["type"]])}
    )
    async with running(tmp_path) as live:
        peer = await live.peer()
        await peer.call("observe_rows", {"rows": ROWS})
        asked = {"cores": [1], "predict_times": True}
        answer = await peer.call("simulate", {"graph": graph_as_flat(parts), **asked})
        adv = Advisor()
        for name, size, cores, elapsed in ROWS:
            adv.observe(name, predictor=size, cores=cores, elapsed_s=elapsed)
        assert adv.simulate(parts, **asked) == answer
        full = adv.simulate(graph, **asked)["results"][0]["makespan"]
        assert 0 < answer["results"][0]["makespan"] < full
        flat = graph_as_flat(parts)
        flat["columns"]["part"] = np.full(len(graph), np.nan).tobytes()
        await refused("invalid", peer.call("simulate", {"graph": flat, **asked}))


async def test_details_of_a_large_graph_are_refused_and_its_makespan_is_not(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await live.peer()
        graph = graph_as_flat(task_graph(np.ones(limits.SIMULATE_DETAILS_MAX + 1)))
        assert (await peer.call("simulate", {"graph": graph, "cores": [4]}))["results"]
        await refused("too_large", peer.call("simulate", {"graph": graph, "cores": [4], "metrics": ["critical_path"]}))


async def test_the_deadline_kills_an_analysis_and_the_service_lives(tmp_path: Path) -> None:
    async with running(tmp_path, heavy_deadline_s=0.1) as live:
        peer = await live.peer()
        slow = graph_as_flat(replace(task_graph(np.ones(200_000)), unit="ns"))
        with pytest.raises(AdvisorError) as caught:
            await peer.call("simulate", {"graph": slow, "cores": list(range(1, 97)), "policies": ["bottom_level"]})
        assert caught.value.code == "work_failed"
        assert caught.value.retry
        assert (await peer.call("status", {}))["totals"] is not None


async def test_a_loop_of_any_number_needs_no_room_for_those_below(tmp_path: Path) -> None:
    graph = {"times": np.ones(2).tobytes(), "columns": {"loop": np.array([2.0**31 - 1, 5.0]).tobytes()}}
    async with running(tmp_path) as live:
        peer = await live.peer()
        answer = await peer.call(
            "simulate", {"graph": graph, "cores": [1], "policies": ["static_cyclic", "largest_first"]}
        )
        assert [row["makespan"] for row in answer["results"]] == [2.0, 2.0]
