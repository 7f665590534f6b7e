"""How the jobs of one pool share its cores: frozen values."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

from advisor.domain.answers import Basis
from advisor.domain.limits import ALLOCATE_CORES_MAX, ELAPSED_MAX_S
from advisor.domain.names import checked_name
from advisor.domain.rows import number, truth, whole
from advisor.domain.shapes import Answer

OrderWord = Literal["given", "work"]
WEIGHT_MIN, WEIGHT_MAX = 1e-9, 1e9  # wider than any two jobs differ, far from what a double loses
DONE_MAX = 0.999999  # of a job: what is left takes some time


class JobKey(NamedTuple):
    """What a job may have."""

    check: Callable[[str, Any], Any] | None  # (field, value) to the value; None: the pool checks it
    default: Any
    meaning: str


_SECONDS = partial(number, low=0.0, high=ELAPSED_MAX_S)
JOB_KEYS: Mapping[str, JobKey] = {
    "id": JobKey(None, None, "text or number, unique; required"),
    "component": JobKey(None, None, "its name; required. It may have no rows"),
    "predictor": JobKey(None, None, "as in `predict`"),
    "allowed": JobKey(None, None, "core counts, as in `choose_cores`; nil: 1 to `cores`"),
    "cores_now": JobKey(partial(whole, low=0, high=ALLOCATE_CORES_MAX), 0, "cores in use; 0: it waits"),
    "weight": JobKey(partial(number, low=WEIGHT_MIN, high=WEIGHT_MAX), 1.0, "weight of its response time"),
    "due_s": JobKey(_SECONDS, None, "seconds until its deadline"),
    "resizable": JobKey(truth, False, "true: it can change its count while it runs"),
    "restart_s": JobKey(_SECONDS, 0.0, "seconds that a change costs a running job"),
    "done": JobKey(partial(number, low=0.0, high=DONE_MAX), 0.0, "share of its work that is done"),
    "waited_s": JobKey(_SECONDS, 0.0, "seconds it has waited"),
    "machine": JobKey(checked_name, None, "as in `predict`"),
}


class PoolChoice(Answer, frozen=True):
    """What one job gets.

    Attributes
    ----------
    id : hashable
        As the caller gave it.
    cores : int
        0: it waits.
    elapsed_s : float or None
        Seconds from now to its end, as expected; None where the job waits, or its time is not known.
    why : str
        The choice in words.
    """

    id: Any
    cores: int
    elapsed_s: float | None
    why: str


class PoolPlan(Answer, frozen=True, dict=True):
    """The cores of each job, in the order of the jobs.

    Attributes
    ----------
    jobs : tuple of PoolChoice
    assumed : mapping
        For each component that has no rows: what was assumed instead, and the known names most like its own.
    basis : Basis or None
        What the answer rests on, where that was asked for by `evidence`.
    """

    jobs: tuple[PoolChoice, ...]
    assumed: Mapping[str, str]
    basis: Basis | None = None

    @cached_property
    def cores(self) -> dict[Hashable, int]:
        """The cores by job, 0 to wait."""
        return {job.id: job.cores for job in self.jobs}

    @cached_property
    def why(self) -> dict[Hashable, str]:
        """The reasons by job."""
        return {job.id: job.why for job in self.jobs}
