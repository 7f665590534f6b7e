"""A cluster that has as many workers as its work needs, by what was learned of it."""

from __future__ import annotations

from typing import Any

from distributed.deploy.adaptive import Adaptive


class AdvisedAdaptive(Adaptive):
    """Adapts a cluster to the predicted seconds of the work that is queued; where little is known, as Dask does.

    ``cluster.adapt(Adaptive=AdvisedAdaptive, minimum=…, maximum=…)``, with an `AdvisorPlugin` on the scheduler. The target is
    the fewest workers by which each task is predicted to end within `target_duration` of its coming; it changes only where
    it is off by more than one worker, and falls only as the work runs out.
    """

    async def target(self) -> int:
        """Return how many workers there should be."""
        scheduler: Any = self.scheduler
        found: Any = await scheduler.advised_target(target_duration=self.target_duration)
        return await super().target() if found is None else found  # pyright: ignore[reportUnknownVariableType]
