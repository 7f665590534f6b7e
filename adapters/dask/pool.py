"""Cores for Dask's tasks: jobs of an `AdvisedPool` on a cluster's workers, and annotations for graphs.

Workers offer their cores as a resource: ``dask worker … --resources cores=16``. A task takes as many as its annotation
``resources={"cores": …}`` names, and waits at its worker while fewer are free.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from dask import annotate  # pyright: ignore[reportPrivateImportUsage]

from advisor.adapters.threads.job_pool import ASKED_MAX, AdvisedPool
from advisor.errors import InvalidValue

if TYPE_CHECKING:
    from distributed import Client

    from advisor.adapters.threads.advised import Advised
    from advisor.client import SyncClient

RESOURCE: Final = "cores"


class ClusterWorkers(Executor):
    """The workers of a cluster, where each call takes cores of one worker."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def submit_on(self, cores: int, fn: Callable[..., Any], *args: Any) -> Any:
        """Submit a call that takes so many cores."""
        return self._client.submit(fn, *args, resources={RESOURCE: cores}, pure=False)


def cluster_pool(client: Client, advised: Advised) -> AdvisedPool:
    """Return a pool of the cores that a cluster's workers offer now; a job has at most those of the largest worker.

    The pool counts free cores of all workers: where they are of several, a job may wait at a worker.

    Raises
    ------
    InvalidValue
        Where no worker offers cores.
    """
    known: Any = client.scheduler_info(n_workers=-1)
    offered = [int(worker["resources"].get(RESOURCE, 0)) for worker in known["workers"].values()]
    if not any(offered):
        raise InvalidValue(
            f"resources.{RESOURCE}", 0, "1 or more on a worker", f"start workers with --resources {RESOURCE}=N"
        )
    return AdvisedPool(advised, sum(offered), ClusterWorkers(client), job_cores_max=max(offered))


def annotate_cores(
    service: SyncClient, component: str, predictor: Any = None, *, tasks: int, cores: int, allowed: Any = None
) -> AbstractContextManager[Any]:
    """Return ``dask.annotate(resources=…)`` with the cores that equal tasks of a graph should have.

    Parameters
    ----------
    service : SyncClient
        What learns; the plugin's rows have the prefix as component, and the annotated cores.
    component, predictor
        Of the tasks, as in `AdvisorPlugin`.
    tasks, cores : int
        How many tasks may run at the same time, and the cores of all workers.
    allowed : optional
        Core counts of one task, as `choose_together` takes them. Absent: 1 to `cores`.

    Raises
    ------
    InvalidValue, Unavailable
    """
    job = {"component": component, "predictor": predictor, "allowed": allowed}
    jobs = [job | {"id": number} for number in range(min(tasks, ASKED_MAX))]
    plan = service.choose_together(jobs=jobs, cores=cores)
    return annotate(resources={RESOURCE: max(plan.cores.values())})
