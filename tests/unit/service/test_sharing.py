"""`allocate_together` through real sockets: as the advisor answers it, explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from live import Live, Peer, running

from advisor import Advisor

WORK = {"a": (1.0, 0.1), "b": (2.0, 0.1), "c": (3.0, 0.05), "slow": (1.0, 0.9)}
ROWS = [
    [name, float(x), float(p), work * x * (serial + (1 - serial) / p)]
    for name, (work, serial) in WORK.items()
    for x in (1, 2, 3, 4)
    for p in (1, 2, 4, 8, 16)
]
LONG = " // " + "-" * 2000  # read by a worker


async def taught(live: Live) -> Peer:
    peer = await live.peer()
    await peer.call("observe_rows", {"rows": ROWS})
    return peer


def here() -> Advisor:
    advisor = Advisor()
    for name, x, p, t in ROWS:
        advisor.observe(name, predictor=x, cores=p, elapsed_s=t)
    return advisor


async def test_the_service_answers_as_the_advisor_does(tmp_path: Path) -> None:
    asks: list[dict[str, Any]] = [
        {"networks": [{"network": "a .. b", "weight": 2}, {"network": "c" + LONG, "name": "other"}], "cores": 24},
        {"networks": [{"network": "a .. b"}, {"network": "slow", "maximum": {"slow": 2}, "priority": 1}], "cores": 20},
        {
            "networks": [{"network": "a | x", "components": {"x": "c"}, "shares": [[3, 1]], "load": {"a": 4.0}},
                         {"network": [{"kind": "box", "name": "b"}], "instances_max": 3, "scale": {"b": 0.5}}],
            "cores": 16, "objective": "latency", "level": 0.95,
        },
        {
            "networks": [{"network": "a", "arrival_per_s": 0.5, "arrival_variation": 0.5},
                         {"network": "b", "arrival_per_s": 0.25}],
            "cores": 16, "objective": "latency", "quantile": 0.9,
        },
        {"networks": [{"network": "a .. b", "instances_max": 2}, {"network": "c"}], "cores": 24, "nodes": 8},
    ]  # fmt: skip
    advisor = here()
    async with running(tmp_path) as live:
        peer = await taught(live)
        for ask in asks:
            found = await peer.call("allocate_together", ask)
            own = advisor.allocate_together(**ask).as_dict()
            assert found == own
            keys = [set(part["cores"]) for part in found["networks"]]
            assert [set(part["evidence"]) for part in found["networks"]] == keys
