"""`advisor serve --engine ray`: a fleet, and the service before it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from advisor.cluster.actors import Actors
from advisor.cluster.fleet import Fleet, Runtime
from advisor.cluster.hub import ClusterHub
from advisor.engine import Engine
from advisor.service import server
from advisor.service.config import Config
from advisor.service.measures import ServiceMeasures
from advisor.service.memory import model_memory_bytes
from advisor.service.producers import Producers

PRODUCERS_FACTOR = 2  # a shard remembers more than the front: it must refuse none that another one has taken


def actors_of(config: Config) -> Actors:
    """Return what runs the shards."""
    return Actors(config.engine, Path(str(config.state)), compiled=config.compiled)


async def serve(
    config: Config,
    *,
    runtime_of: Callable[[Config], Runtime] = actors_of,
    **given: Any,
) -> None:
    """Run a service whose state is in shards; as `advisor.service.server.serve`, and raises as that.

    Raises Unavailable when Ray is not there.
    """
    runtime = runtime_of(config)
    await runtime.start()
    places = [str(Path(str(config.state)).absolute()), *([config.copy] if config.copy else [])]
    limits = {
        "components_max": config.components_max, "model_memory_bytes": model_memory_bytes(config.model_memory),
        "producers_max": PRODUCERS_FACTOR * config.producers_max,
    }  # fmt: skip
    fleet = Fleet(runtime, places, config.shards, limits, config.spares)
    try:
        await fleet.start()
        hub = await _hub(config, fleet)
        await server.serve(config, hub_of=lambda told: hub, **given)
    finally:
        with anyio.CancelScope(shield=True):
            await fleet.stop()


async def _hub(config: Config, fleet: Fleet) -> ClusterHub:
    measures = ServiceMeasures()
    engine = Engine(
        components_max=config.components_max, producers_max=config.producers_max,
        model_memory_bytes=model_memory_bytes(config.model_memory),
    )  # fmt: skip
    hub = ClusterHub(config, engine, Producers(fleet.durable), server.heavy_of(config, measures), measures, fleet)
    await hub.begin()
    return hub
