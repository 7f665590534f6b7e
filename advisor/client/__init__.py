"""Clients of the service: asynchronous and synchronous, with the same verbs.

    from advisor.client import SyncClient

    with SyncClient("unix:/run/advisor.sock") as client:
        client.observe("matmul", predictor=1024, cores=4, elapsed_s=0.81)
        cores = client.choose_cores("matmul", predictor=2048, cores_max=16).cores

Neither numpy nor the engine is loaded.
"""

from __future__ import annotations

from advisor.client.aio import AsyncClient
from advisor.client.outcomes import Stats
from advisor.client.threaded import SyncClient

__all__ = ["AsyncClient", "Stats", "SyncClient"]
