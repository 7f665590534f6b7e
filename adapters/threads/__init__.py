"""The adapter for threads on one machine: how many a call may use is learned from its runs, and set for BLAS and OpenMP.

    from advisor.adapters.threads import advised

    @advised("svd", predictor=lambda a: a.size)
    def svd(a): ...

    with advised.cores("fit", predictor=rows) as cores: ...

What is learned is kept in the user's cache folder, or by a service where `Advised` is given a client. The extra ``threads``
holds what is needed: threadpoolctl and joblib.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor import handing_out

if TYPE_CHECKING:
    from advisor.adapters.threads.advised import Advised, advised
    from advisor.adapters.threads.job_pool import AdvisedPool
    from advisor.adapters.threads.jobs import Job

__all__ = ["Advised", "AdvisedPool", "Job", "advised"]

__getattr__ = handing_out(
    __name__,
    {
        "Advised": "advisor.adapters.threads.advised",
        "AdvisedPool": "advisor.adapters.threads.job_pool",
        "Job": "advisor.adapters.threads.jobs",
        "advised": "advisor.adapters.threads.advised",
    },
)
