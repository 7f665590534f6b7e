"""A request about a network, read and checked: what is missing are the curves, which change with every row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from advisor.domain import limits
from advisor.domain.allowed_cores import AllowedCores, intersect_allowed
from advisor.domain.curves import TabulatedCurves
from advisor.domain.flows import Flow
from advisor.domain.networks import Network
from advisor.planning.placing import MachineNodes, machine_of
from advisor.planning.requests import Floats, Ints, Request, allowed_of, limits_of, pins_of, scales_of
from advisor.planning.structure import Structure, structure_of
from advisor.planning.visits import Visits, visits_of


@dataclass(eq=False)
class Asked:
    """What a request asks of a network and of each of its components, whatever the curves.

    `pins` has row -> (cores, instances), None where one of them is open; others are as in `Demand`.
    """

    request: Request
    keys: tuple[str, ...]
    visits: Visits
    structure: Structure
    machine: MachineNodes
    low: Ints
    high: Ints
    fewest: Ints
    most: Ints
    scale: Floats | None
    pins: Mapping[int, tuple[int | None, int | None]]
    rules: Mapping[int, AllowedCores]
    replicas: Mapping[int, Sequence[float]]
    # the last demand by its price: of other times at the same counts only these are put in
    last: dict[float, Any] = field(init=False, default_factory=dict[float, Any], repr=False)
    promises: bool = field(init=False)  # a throughput, where nobody asks for a level
    by_rate: bool = field(init=False)  # nothing but contention couples components to each other

    def __post_init__(self) -> None:
        """Note what decides how it is planned."""
        request = self.request
        self.promises = request.promises and request.level is None
        coupled = (request.nodes, request.memory_bytes, request.arrival_per_s, request.weights) != (None,) * 4
        self.by_rate = not (coupled or request.aim.front or request.for_latency)


def asked_of(network: Network, request: Request, flow: Flow | None = None) -> Asked:
    """Return what a request asks of a network, its records' way as it was learned where the request is silent. Cost O(n).

    Raises InvalidValue, TooLarge, MissingShares when the request does not fit the network, or limits exclude each other.
    """
    visits = visits_of(network, request, flow)
    machine = machine_of(request.cores or limits.ALLOCATE_CORES_MAX, request.nodes, request.memory_bytes)
    low, high, most = limits_of(network, request)
    fewest, pins = np.ones(len(low), np.int64), pins_of(network, request)
    for row, (_, instances) in pins.items():
        if instances is not None:
            fewest[row] = most[row] = instances
    replicas = {row: some for row, some in visits.replicas.items() if most[row] > 1}
    for row, shares in replicas.items():
        most[row] = max(min(int(most[row]), len(shares)), int(fewest[row]))
    scale = scales_of(network, request)[:, None] if request.scale else None
    return Asked(request, network.keys, visits, structure_of(network, visits), machine, low, high, fewest, most, scale,
                 pins, allowed_of(network, request), replicas)  # fmt: skip


def rules_of(asked: Asked, curves: TabulatedCurves) -> dict[int, AllowedCores]:
    """Return row -> the counts that the request and the component itself allow; raises InvalidValue where these are none."""
    rules = dict(asked.rules)
    for row, mine in enumerate(curves.allowed or ()):
        if mine is not None:
            field, whose = f"allowed.{asked.keys[row]}", f"component {asked.keys[row]!r}"
            rules[row] = mine if row not in rules else intersect_allowed(field, rules[row], mine, whose)
    return rules
