"""The adapter for Dask: its scheduler tells what ran, and plans with what was learned.

    from advisor.adapters.dask import AdvisorPlugin

    client.register_plugin(AdvisorPlugin("unix:/run/advisor/socket"))

The extra ``dask`` holds what is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor import handing_out

if TYPE_CHECKING:
    from advisor.adapters.dask.plugin import AdvisorPlugin
    from advisor.adapters.dask.pool import annotate_cores, cluster_pool

__all__ = ["AdvisorPlugin", "annotate_cores", "cluster_pool"]

__getattr__ = handing_out(
    __name__,
    {
        "AdvisorPlugin": "advisor.adapters.dask.plugin",
        "annotate_cores": "advisor.adapters.dask.pool",
        "cluster_pool": "advisor.adapters.dask.pool",
    },
)
