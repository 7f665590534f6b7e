"""A worker process: reads jobs from its standard input, answers on its standard output, ends with its service.

Started by `advisor.service.heavy`, and by nobody else: a job is a pickle.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from advisor.domain.answers import Allocation
from advisor.domain.curves import AmdahlCurves, TabulatedCurves
from advisor.domain.networks import Network, network_from_nodes
from advisor.errors import AdvisorError
from advisor.network import parse
from advisor.planning import Request, Share, Together, asked_of, plan, plan_together
from advisor.planning.search import WORK_MAX
from advisor.planning.stability import WatchQuestion, reconsider
from advisor.planning.together import about, reconsider_together

Curves = AmdahlCurves | TabulatedCurves

NETWORKS_KEPT = 16  # read networks that each worker keeps
STEPS_FIRST = 1_000  # of a search with a deadline: about a millisecond
GROWTH = 4  # a third of the time is then spent on the searches before the last
MARGIN = 0.8  # of the time left that a search is given: the next steps may be slower than the last
CLOCK_LEAST_S = 1e-6  # no search takes less
NICE = 10  # where cores are scarce, who answers pings goes first
READY = b"."  # said first: what comes before is the start, and no part of a job
WARM_TEXT = "warm .. up"  # planned before READY: what a first plan loads, 0.1 s, is no part of a job
LENGTH_BYTES = 8  # before each job and each answer, little-endian

Found = TypeVar("Found")
Answer = tuple[bool, Any]  # (True, result), or (False, an error as a dict): errors of ours do not pickle


class Frozen(NamedTuple):
    """What a worker keeps a network by: its text, or its nodes as JSON."""

    text: str
    nodes: bool


class Read(NamedTuple):
    """The job to read a network and tell its keys, and the component name of each."""

    network: Frozen


class Whole(NamedTuple):
    """The job to read a network and hand it over."""

    network: Frozen


class Plan(NamedTuple):
    """The job to plan a network with curves, with the best found within `deadline_s` where one is given."""

    network: Frozen
    curves: Curves
    request: Mapping[str, Any]
    deadline_s: float | None = None


class Wanted(NamedTuple):
    """One of several networks, as the planner is asked about it; `network` is frozen where it comes to a worker."""

    name: str
    network: Any
    curves: Curves
    request: Mapping[str, Any]
    weight: float
    priority: int


class PlanTogether(NamedTuple):
    """The job to plan several networks on one machine, or with a `question` to judge whether a change is worth telling."""

    networks: tuple[Wanted, ...]
    cores: int
    objective: str
    deadline_s: float | None = None
    question: WatchQuestion | None = None


class Reconsider(NamedTuple):
    """The job to plan a network again, and to judge whether that is worth telling."""

    network: Frozen
    curves: TabulatedCurves
    request: Mapping[str, Any]
    question: WatchQuestion


class Simulate(NamedTuple):
    """The job to analyse a task graph, in its flat form; `times` are (elapsed, low, high) where they were predicted."""

    graph: Mapping[str, Any]
    request: Mapping[str, Any]
    times: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]] | None
    level: float


Job = Read | Whole | Plan | PlanTogether | Reconsider | Simulate


def framed(value: object) -> bytes:
    """Return a value as it goes through a pipe."""
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return len(data).to_bytes(LENGTH_BYTES, "little") + data


@lru_cache(NETWORKS_KEPT)
def _network(spec: Frozen) -> Network:
    return network_from_nodes(json.loads(spec.text)) if spec.nodes else parse(spec.text)


def done(job: Job) -> Answer:
    """Do a job."""
    try:
        if isinstance(job, Simulate):
            return True, _simulated(job)
        if isinstance(job, PlanTogether):
            if job.question is not None:
                return True, reconsider_together(_shares(job), job.cores, job.objective, job.question)
            together, steps = _together(job)
            return True, (together.as_dict(), steps)
        network = _network(job.network)
        if isinstance(job, Read):
            return True, (network.keys, network.components)
        if isinstance(job, Whole):
            return True, network
        if isinstance(job, Reconsider):
            return True, reconsider(asked_of(network, Request(**job.request)), job.curves, job.question)
        found, steps = planned(network, job.curves, job.request, job.deadline_s)
        return True, (found.as_dict(), steps)
    except AdvisorError as error:
        return False, error.as_dict()


def planned(
    network: Network,
    curves: Curves,
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


def _shares(job: PlanTogether) -> list[Share]:
    shares: list[Share] = []
    for place, one in enumerate(job.networks):
        with about(place, one.name):
            request = Request(**one.request)
            shares.append(Share(_network(one.network), one.curves, request, one.weight, one.priority, name=one.name))
    return shares


def _together(job: PlanTogether) -> tuple[Together, int | None]:
    shares = _shares(job)

    def search(steps: int | None) -> Together:
        limited = [replace(share, request=replace(share.request, work_max=steps)) for share in shares]
        return plan_together(limited, job.cores, job.objective)

    return _anytime(search, shares[0].request.work_max, job.deadline_s, time.perf_counter)


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


def _simulated(job: Simulate) -> dict[str, Any]:
    from advisor.domain.task_graphs import graph_from_flat  # noqa: PLC0415 - few workers analyse graphs
    from advisor.simulation import answer  # noqa: PLC0415
    from advisor.simulation.ensembles import uncertain  # noqa: PLC0415
    from advisor.simulation.requests import checked_size, request_of  # noqa: PLC0415

    graph = graph_from_flat(job.graph)
    request = dict(job.request)
    if job.times is not None:
        graph = graph.timed(job.times[0])
        request["uncertain"] = uncertain(*job.times, job.level)
    asked = request_of(request)
    checked_size(graph, asked)
    return answer(graph, asked)


def serve_jobs(jobs: BinaryIO, answers: BinaryIO) -> None:
    """Do jobs until there are no more: the service has closed the pipe, or is gone."""
    while len(head := jobs.read(LENGTH_BYTES)) == LENGTH_BYTES:
        job = pickle.loads(jobs.read(int.from_bytes(head, "little")))  # noqa: S301 - from our own service
        answers.write(framed(done(job)))
        answers.flush()


def main() -> None:
    """Run the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service, which then ends its workers
    os.nice(NICE)
    done(Plan(Frozen(WARM_TEXT, nodes=False), AmdahlCurves(np.ones(2), np.ones(2)), {"cores": 3}, None))
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    serve_jobs(sys.stdin.buffer, sys.stdout.buffer)
