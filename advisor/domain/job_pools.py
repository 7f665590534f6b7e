"""How the jobs of one pool share its cores: frozen values."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import Any, Literal

from advisor.domain.answers import Basis
from advisor.domain.shapes import Answer

OrderWord = Literal["given", "work"]


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
