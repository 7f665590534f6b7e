"""What runs in worker processes of `advisor.service.heavy`. A job is a pickle, from our own service."""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.domain.curves import TabulatedCurves
from advisor.domain.networks import Network, network_from_nodes
from advisor.errors import AdvisorError
from advisor.network import parse
from advisor.planning import Request, Share, plan, plan_together
from advisor.planning.shares import about
from advisor.planning.watches import Look, reconsider

Floats = NDArray[np.float64]
Spec = str | Sequence[Mapping[str, Any]]  # a network: its text, or its nodes

NETWORKS_CACHED = 16  # read networks that each worker keeps
WARM_TEXT = "warm .. up"
PR_SET_PDEATHSIG = 1  # prctl of Linux: a signal at the end of the parent

Answer = tuple[bool, Any]  # (True, result), or (False, an error as a dict): errors of ours do not pickle


class Wanted(NamedTuple):
    """One of several networks, as the planner is asked about it; `network` is its text or its nodes."""

    name: str
    network: Any
    curves: TabulatedCurves
    request: Mapping[str, Any]
    weight: float


def begin(service: int) -> None:
    """Load what a first plan loads, 0.1 s. From now on the process ends with its service, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != service:  # it ended before
            os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service, which then ends its workers
    plan_one(WARM_TEXT, TabulatedCurves.from_arrays([1, 2], np.ones((2, 2))), {"cores": 3})


def do_packed(data: bytes) -> bytes:
    """Do a job, the pickle of a function of this module and its arguments; return its answer as bytes."""
    call, given = pickle.loads(data)  # noqa: S301 - from our own service
    answer: Answer
    try:
        answer = True, call(*given)
    except AdvisorError as error:
        answer = False, error.as_dict()
    return pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)


def network_of(network: Spec) -> Network:
    """Read a network; raises NetworkSyntax, Unsupported, TooLarge, InvalidValue when it does not read."""
    return _read(network if isinstance(network, str) else pickle.dumps(network))


@lru_cache(NETWORKS_CACHED)
def _read(spec: str | bytes) -> Network:
    return parse(spec) if isinstance(spec, str) else network_from_nodes(pickle.loads(spec))  # noqa: S301 - made above


def shape_of(network: Spec) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the keys of a network, in text order, and the component name of each; raises as `network_of`."""
    read = network_of(network)
    return read.keys, read.components


def plan_one(network: Spec, curves: TabulatedCurves, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the allocation for a network; raises as `advisor.planning.plan`."""
    return plan(network_of(network), curves, Request(**request)).as_dict()


def reconsider_one(network: Spec, curves: TabulatedCurves, request: Mapping[str, Any], *question: Any) -> Look:
    """Return what a watch finds when it looks again, see `reconsider`; raises as `plan_one`."""
    return reconsider(Request(network=network_of(network), **request), curves, *question)


def _shares(networks: Sequence[Wanted]) -> list[Share]:
    shares: list[Share] = []
    for place, one in enumerate(networks):
        with about(place, one.name):
            request, read = Request(**one.request), network_of(one.network)
            shares.append(Share(read, one.curves, request, one.weight, name=one.name))
    return shares


def plan_several(networks: Sequence[Wanted], cores: int, objective: str) -> dict[str, Any]:
    """As `plan_one`, of several networks on one machine; raises as `advisor.planning.plan_together`."""
    return plan_together(_shares(networks), cores, objective).as_dict()


def simulated(flat: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the analyses of a task graph in its flat form; raises as `advisor.simulation.answer`."""
    from advisor.domain.task_graphs import graph_from_flat  # noqa: PLC0415 - few workers analyse graphs
    from advisor.simulation import Analyses  # noqa: PLC0415

    asked = Analyses(graph_from_flat(flat), **options)
    asked.check_size()
    return asked.answer()
