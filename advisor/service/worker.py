"""What runs in worker processes of `advisor.service.heavy`. A job is a pickle, from our own service."""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from advisor.domain.allocations import Allocation
from advisor.domain.curves import TabulatedCurves
from advisor.domain.networks import Network, network_from_nodes
from advisor.errors import AdvisorError
from advisor.network import parse
from advisor.planning import Request, Share, Together, asked_of, plan, plan_together
from advisor.planning.search import WORK_MAX
from advisor.planning.shares import about
from advisor.planning.together import reconsider_together
from advisor.planning.watches import Look, WatchQuestion, reconsider

Floats = NDArray[np.float64]
Spec = str | Sequence[Mapping[str, Any]]  # a network: its text, or its nodes

NETWORKS_KEPT = 16  # read networks that each worker keeps
STEPS_FIRST = 1_000  # of a search with a deadline: about a millisecond
GROWTH = 4  # a third of the time is then spent on the searches before the last
MARGIN = 0.8  # of the time left that a search is given: the next steps may be slower than the last
CLOCK_LEAST_S = 1e-6  # no search takes less
WARM_TEXT = "warm .. up"
PR_SET_PDEATHSIG = 1  # prctl of Linux: a signal at the end of the parent

Found = TypeVar("Found")
Answer = tuple[bool, Any]  # (True, result), or (False, an error as a dict): errors of ours do not pickle


class Wanted(NamedTuple):
    """One of several networks, as the planner is asked about it; `network` is its text or its nodes."""

    name: str
    network: Any
    curves: TabulatedCurves
    request: Mapping[str, Any]
    weight: float
    priority: int


class WorkerJob(NamedTuple):
    """What a worker process is to call: a function of this module, and with what."""

    call: Callable[..., Any]
    given: tuple[Any, ...]


def begin(service: int) -> None:
    """Load what a first plan loads, 0.1 s. From now on the process ends with its service, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != service:  # it ended before
            os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service, which then ends its workers
    plan_one(WARM_TEXT, TabulatedCurves.from_arrays([1, 2], np.ones((2, 2))), {"cores": 3})


def do_packed(data: bytes) -> bytes:
    """Do a job that is a pickle, and return its answer as bytes."""
    return done(pickle.loads(data))  # noqa: S301 - from our own service


def done(job: WorkerJob) -> bytes:
    """Do a job, and return its answer as bytes."""
    answer: Answer
    try:
        answer = True, job.call(*job.given)
    except AdvisorError as error:
        answer = False, error.as_dict()
    return pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)


def network_of(network: Spec) -> Network:
    """Read a network; raises NetworkSyntax, Unsupported, TooLarge, InvalidValue when it does not read."""
    return _read(network if isinstance(network, str) else pickle.dumps(network))


@lru_cache(NETWORKS_KEPT)
def _read(spec: str | bytes) -> Network:
    return parse(spec) if isinstance(spec, str) else network_from_nodes(pickle.loads(spec))  # noqa: S301 - made above


def shape_of(network: Spec) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the keys of a network, in text order, and the component name of each; raises as `network_of`."""
    read = network_of(network)
    return read.keys, read.components


def plan_one(
    network: Spec, curves: TabulatedCurves, request: Mapping[str, Any], deadline_s: float | None = None
) -> tuple[dict[str, Any], int | None]:
    """Return the allocation for a network, and the steps that a deadline left it; raises as `advisor.planning.plan`."""
    found, steps = plan_in_worker(network_of(network), curves, request, deadline_s)
    return found.as_dict(), steps


def reconsider_one(network: Spec, curves: TabulatedCurves, request: Mapping[str, Any], question: WatchQuestion) -> Look:
    """Return what a watch finds when it looks again; raises as `plan_one`."""
    return reconsider(asked_of(network_of(network), Request(**request)), curves, question)


def plan_in_worker(
    network: Network,
    curves: TabulatedCurves,
    request: Mapping[str, Any],
    deadline_s: float | None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[Allocation, int | None]:
    """Return the allocation; with a deadline the best of searches of ever more steps, the last of which ends about there.

    The second is how many steps that one was given: with as many the same comes out again, whatever the time.

    A search counts steps and sees no clock. One of few steps tells what a step takes here; each further one may take `GROWTH`
    times the steps of the last, as far as the time left holds them by what the last one took.
    """
    asked = Request(**request)
    return _anytime(
        lambda steps: plan(network, curves, replace(asked, work_max=steps)), asked.work_max, deadline_s, clock
    )


def _shares(networks: Sequence[Wanted]) -> list[Share]:
    shares: list[Share] = []
    for place, one in enumerate(networks):
        with about(place, one.name):
            request, read = Request(**one.request), network_of(one.network)
            shares.append(Share(read, one.curves, request, one.weight, one.priority, name=one.name))
    return shares


def plan_several(
    networks: Sequence[Wanted], cores: int, objective: str, deadline_s: float | None = None
) -> tuple[dict[str, Any], int | None]:
    """As `plan_one`, of several networks on one machine; raises as `advisor.planning.plan_together`."""
    shares = _shares(networks)

    def search(steps: int | None) -> Together:
        limited = [replace(share, request=replace(share.request, work_max=steps)) for share in shares]
        return plan_together(limited, cores, objective)

    found, steps = _anytime(search, shares[0].request.work_max, deadline_s, time.perf_counter)
    return found.as_dict(), steps


def reconsider_several(networks: Sequence[Wanted], cores: int, objective: str, question: WatchQuestion) -> Look:
    """As `reconsider_one`, of several networks on one machine."""
    return reconsider_together(_shares(networks), cores, objective, question)


def _anytime(
    search: Callable[[int | None], Found], most: int | None, deadline_s: float | None, clock: Callable[[], float]
) -> tuple[Found, int | None]:
    """Return what the longest search finds that ends about at the deadline, and its steps."""
    if deadline_s is None:
        return search(most), None
    began, most = clock(), most or WORK_MAX
    steps = min(STEPS_FIRST, most)
    while True:
        last = clock()
        found = search(steps)
        now = clock()
        left = deadline_s - (now - began)
        affordable = int(steps * left / max(now - last, CLOCK_LEAST_S) * MARGIN)
        if getattr(found, "gap", None) == 0 or steps >= most or affordable <= steps:
            return found, steps
        steps = min(most, GROWTH * steps, affordable)


def simulated(flat: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the analyses of a task graph in its flat form; raises as `advisor.simulation.answer`."""
    from advisor.domain.task_graphs import graph_from_flat  # noqa: PLC0415 - few workers analyse graphs
    from advisor.simulation import Analyses  # noqa: PLC0415

    asked = Analyses(graph_from_flat(flat), **options)
    asked.check_size()
    return asked.answer()
