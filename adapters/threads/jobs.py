"""What a job of a pool is, and how its worker runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, TypeVar

from advisor.adapters.threads.grants import GRANTS

MARK: Final = "advised_job"

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Job:
    """Describes a job to the pool; as a decorator it marks a function whose calls are such jobs.

    Attributes
    ----------
    component : str
        Its runs are learned under this name.
    predictor : float, tuple or callable, optional
        What its time depends on, or a function that returns it from the call's arguments. Absent: all its runs are alike.
    allowed : optional
        The core counts that it may use, as `choose_together` takes them. Absent: 1 to those of the pool.
    cores_as : str, optional
        The name of the function's argument that is given the number of cores, ``n_jobs`` say. A run is then learned also
        where jobs in threads share their thread pools.
    weight : float
        Of its response time beside other jobs.
    """

    component: str
    predictor: Any = None
    allowed: Any = None
    cores_as: str | None = None
    weight: float = 1.0

    def __call__(self, function: Function) -> Function:
        """Mark a function and return it."""
        setattr(function, MARK, self)
        return function


def job_of(function: Callable[..., Any]) -> Job:
    """Return what a function was marked with; where it was not, a component of its name."""
    name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"
    return getattr(function, MARK, None) or Job(name)


Outcome = tuple[Any, float, BaseException | None, bool]  # value, seconds, error, whether its thread pools had its cores


def run_job(
    pool_cores: int, cores: int, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Outcome:
    """Run a job in its worker, whose thread pools have as many threads as it has cores."""
    grant = GRANTS.enter(cores, pool_cores)
    own = grant.cores == cores
    value, elapsed_s, failed = timed_call(call, args, kwargs)
    GRANTS.end_call(grant)
    return value, elapsed_s, failed, own and not grant.changed


def timed_call(
    call: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Any, float, BaseException | None]:
    """Return what a call gave, its seconds, and its error."""
    value, failed = None, None
    begun = perf_counter()
    try:
        value = call(*args, **kwargs)
    except BaseException as error:
        failed = error
    return value, perf_counter() - begun, failed


def settle_future(future: Future[Any], value: Any, failed: BaseException | None) -> None:
    """Pass on what a call gave, or its error."""
    if failed is None:
        future.set_result(value)
    else:
        future.set_exception(failed)
