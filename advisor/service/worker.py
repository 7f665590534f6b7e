"""A worker process: reads jobs from its standard input, answers on its standard output, ends with its service.

Started by `advisor.service.heavy`, and by nobody else: a job is a pickle.
"""

from __future__ import annotations

import json
import pickle
import signal
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.domain.curves import AmdahlCurves
from advisor.domain.networks import Network, network_from_nodes
from advisor.errors import AdvisorError
from advisor.network import parse
from advisor.planning import Request, plan

NETWORKS_KEPT = 16  # read networks that each worker keeps
LENGTH_BYTES = 8  # before each job and each answer, little-endian

Answer = tuple[bool, Any]  # (True, result), or (False, an error as a dict): errors of ours do not pickle


class Frozen(NamedTuple):
    """What a worker keeps a network by: its text, or its nodes as JSON."""

    text: str
    nodes: bool


class Read(NamedTuple):
    """The job to read a network and tell the component name of each key."""

    network: Frozen


class Plan(NamedTuple):
    """The job to plan a network with curves."""

    network: Frozen
    serial_s: NDArray[np.float64]
    parallel_s: NDArray[np.float64]
    request: Mapping[str, Any]


class Simulate(NamedTuple):
    """The job to analyse a task graph, in its flat form; `times` are (elapsed, low, high) where they were predicted."""

    graph: Mapping[str, Any]
    request: Mapping[str, Any]
    times: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]] | None
    level: float


Job = Read | Plan | Simulate


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
        network = _network(job.network)
        if isinstance(job, Read):
            return True, network.components
        return True, plan(network, AmdahlCurves(job.serial_s, job.parallel_s), Request(**job.request)).as_dict()
    except AdvisorError as error:
        return False, error.as_dict()


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
    serve_jobs(sys.stdin.buffer, sys.stdout.buffer)
