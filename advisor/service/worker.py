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

from advisor.domain.curves import AmdahlCurves, TabulatedCurves
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
    curves: AmdahlCurves | TabulatedCurves
    request: Mapping[str, Any]


Job = Read | Plan


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
        network = _network(job.network)
        if isinstance(job, Read):
            return True, network.components
        return True, plan(network, job.curves, Request(**job.request)).as_dict()
    except AdvisorError as error:
        return False, error.as_dict()


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
