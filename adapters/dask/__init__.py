"""The adapter for Dask: its scheduler tells what ran, and plans with what was learned.

    from advisor.adapters.dask import AdvisedAdaptive, AdvisorPlugin

    client.register_plugin(AdvisorPlugin("unix:/run/advisor/socket"))
    cluster.adapt(Adaptive=AdvisedAdaptive, minimum=1, maximum=40)

The extra ``dask`` holds what is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor import handing_out

if TYPE_CHECKING:
    from advisor.adapters.dask.adaptive import AdvisedAdaptive
    from advisor.adapters.dask.plugin import AdvisorPlugin

__all__ = ["AdvisedAdaptive", "AdvisorPlugin"]

__getattr__ = handing_out(
    __name__, {"AdvisedAdaptive": "advisor.adapters.dask.adaptive", "AdvisorPlugin": "advisor.adapters.dask.plugin"}
)
