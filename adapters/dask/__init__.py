"""The adapter for Dask: its scheduler tells what ran, and plans with what was learned.

    from adapters.dask import AdvisedAdaptive, AdvisorPlugin

    client.register_plugin(AdvisorPlugin("unix:/run/advisor/socket"))
    cluster.adapt(Adaptive=AdvisedAdaptive, minimum=1, maximum=40)

The extra ``dask`` holds what is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor import handing_out

if TYPE_CHECKING:
    from adapters.dask.adaptive import AdvisedAdaptive
    from adapters.dask.plugin import AdvisorPlugin

__all__ = ["AdvisedAdaptive", "AdvisorPlugin"]

__getattr__ = handing_out(
    __name__, {"AdvisedAdaptive": "adapters.dask.adaptive", "AdvisorPlugin": "adapters.dask.plugin"}
)
