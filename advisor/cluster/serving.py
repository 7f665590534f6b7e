"""`advisor serve --engine ray`: shards, and the service before them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import anyio

from advisor.cluster.actors import Actors
from advisor.cluster.hub import RoutedBackend
from advisor.cluster.shard_set import Runtime, ShardSet
from advisor.domain.limits import PRODUCERS_MAX
from advisor.engine import Engine
from advisor.service import server
from advisor.service.config import Config
from advisor.service.hub import Hub

PRODUCERS_FACTOR = 2  # a shard remembers more than the front: it must refuse none that another one has taken


async def serve(config: Config, *, runtime_of: Callable[[Config], Runtime] = Actors, **given: Any) -> None:
    """Run a service whose state is in shards; as `advisor.service.server.serve`, and raises as that.

    Raises Unavailable when Ray is not there, or has no place for the shards.
    """
    limits = {
        "components_max": config.components_max,
        "model_memory_bytes": server.model_memory_bytes(config.model_memory),
    }
    runtime = runtime_of(config)
    await runtime.start()
    shards = ShardSet(
        runtime, cast("Any", config.state), config.shards,
        limits | {"producers_max": PRODUCERS_FACTOR * PRODUCERS_MAX},
    )  # fmt: skip
    try:
        await shards.start()
        engine = Engine(**limits, producers_max=PRODUCERS_MAX)
        hub = Hub(config, engine, partial(RoutedBackend, shards))
        await cast("RoutedBackend", hub.backend).fetch_networks()
        await server.serve(config, hub_of=lambda _: hub, **given)
    finally:
        with anyio.CancelScope(shield=True):
            await shards.stop()
