"""What the advisor answers about the cores of a network: an allocation, and what it tells beside its figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason of an answer: `code` for programs, `text` for people."""

    code: str
    component: str | None
    value: float | None
    text: str

    def as_dict(self) -> dict[str, Any]:
        """Return the shape on the wire, `{code, component, value, text}`."""
        return {key: getattr(self, key) for key in self.__slots__}


class Marginal(NamedTuple):
    """What one core more, or one less, of a component would do to the network; None where its limits forbid it."""

    key: str
    cores: int
    next_throughput_per_s: float | None
    next_latency_s: float | None
    last_throughput_per_s: float | None
    last_latency_s: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return the shape on the wire."""
        return self._asdict()


@dataclass(frozen=True, slots=True)
class Knee:
    """The fewest cores that reach `share` of what the answer reaches."""

    cores: int
    share: float
    throughput_per_s: float
    latency_s: float

    def as_dict(self) -> dict[str, Any]:
        """Return the shape on the wire."""
        return {key: getattr(self, key) for key in self.__slots__}


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """Another allocation, and the probability that the answer is better than it; None where nothing tells."""

    cores: Mapping[str, int]
    instances: Mapping[str, int]
    used: int
    throughput_per_s: float
    latency_s: float
    probability: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return the shape on the wire."""
        plain = {key: getattr(self, key) for key in self.__slots__}
        return plain | {"cores": dict(self.cores), "instances": dict(self.instances)}


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """One point of the front of cores, throughput and latency, none of which can be bettered without another's loss.

    `cores` and `groups` are as in `Allocation`: those of components that share are in their groups only.
    """

    used: int
    throughput_per_s: float
    latency_s: float
    cores: Mapping[str, int]
    instances: Mapping[str, int]
    groups: tuple[tuple[int, tuple[str, ...]], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the shape on the wire; `groups` is left out where each component has its own cores."""
        plain = {key: getattr(self, key) for key in self.__slots__ if key != "groups"}
        if self.groups:
            plain["groups"] = [{"cores": cores, "components": list(keys)} for cores, keys in self.groups]
        return plain | {"cores": dict(self.cores), "instances": dict(self.instances)}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a component's curve rests on: its model, how many runs, how far beyond their cores the answer's are, in log2."""

    model: str
    observations: int
    extrapolates: float = 0.0
    cores_range: tuple[float, float] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the shape on the wire."""
        plain = {key: getattr(self, key) for key in ("model", "observations", "extrapolates")}
        return plain if self.cores_range is None else plain | {"cores_range": list(self.cores_range)}


class Details(NamedTuple):
    """What an allocation tells beside its figures: why it is as it is, and what stands near it."""

    why: tuple[Reason, ...] = ()
    knee: Knee | None = None
    marginal: tuple[Marginal, ...] = ()
    runner_up: tuple[RunnerUp, ...] = ()
    evidence: Mapping[str, Evidence] = {}  # nobody writes into it
    expected_per_s: float | None = None


@dataclass(frozen=True, eq=False)
class Allocation:
    """Cores for each component of a network. Its details are worked out when they are first read.

    Attributes
    ----------
    cores : mapping
        Key (box name, ``name#k`` where it recurs) to whole cores per instance, of the components that have cores of their
        own: times instances they never sum to more than `cores_used`.
    instances : mapping
        Key to instances, every key.
    spare : int
        Cores of the request that the answer leaves free.
    groups : tuple of (cores, keys)
        Where components share cores: the cores of each group and who takes turns on them, every key in one of them; they
        sum to `cores_used`. Empty when each component has its own.
    in_turn : mapping
        Key to the cores that one instance runs on in its turn, of the components that share: not cores of its own.
    throughput_per_s, latency_s : float
        Records per second that are promised, and seconds a record spends in the network, without queueing. Beyond the
        most cores that a component was seen on, a promise counts no gain.
    expected_per_s : float or None
        Records per second that are expected. None where an answer joins several networks.
    bottleneck : tuple of str
        The keys that bound the throughput.
    why : tuple of Reason
    knee : Knee or None
    marginal : tuple of Marginal
    runner_up : tuple of RunnerUp
        The next best allocations that were found.
    evidence : mapping
        Key to what its curve rests on, as far as the maker of the curves knew: of the components that bound the answer, of
        those extrapolated farthest, and of others up to a number.
    objective : str
        What was planned for.
    latency_queued_s, latency_quantile_s : float or None
        Mean latency with queueing, and the quantile asked for, where an arrival rate (a quantile) was given.
    utilization : mapping or None
        Key to the share of time that its busiest instance works: at the arrival rate, else at the throughput.
    active_cores : float or None
        Cores busy at a time, on average, under that load.
    gap : float or None
        How far from the best the answer can be, as a share of the bound: 0 where it is proved best, None where no
        bound is known.
    steps : int
        Steps that the search took.
    placement : mapping or None
        Key to the node of each instance, where the machine's nodes were given.
    front : tuple of FrontPoint
        For ``pareto``: by cores.
    cost_per_s : float or None
        For ``cost``.
    details : Details or function
        What `why`, `knee`, `marginal`, `runner_up`, `evidence` and `expected_per_s` hold, or what works them out of the
        allocation when they are first read: it knows only what was known when the answer was given.
    """

    cores: Mapping[str, int]
    instances: Mapping[str, int]
    spare: int
    throughput_per_s: float
    latency_s: float
    bottleneck: tuple[str, ...]
    groups: tuple[tuple[int, tuple[str, ...]], ...] = field(default=())
    objective: str = "throughput"
    latency_queued_s: float | None = None
    latency_quantile_s: float | None = None
    utilization: Mapping[str, float] | None = None
    active_cores: float | None = None
    gap: float | None = None
    steps: int = 0
    placement: Mapping[str, tuple[int, ...]] | None = None
    front: tuple[FrontPoint, ...] = ()
    cost_per_s: float | None = None
    in_turn: Mapping[str, int] = field(default_factory=dict[str, int])
    details: Details | Callable[[Allocation], Details] = field(default=Details(), repr=False)

    @cached_property
    def told(self) -> Details:
        """The details, worked out."""
        return self.details if isinstance(self.details, Details) else self.details(self)

    @property
    def why(self) -> tuple[Reason, ...]:
        """Why the allocation is as it is, as codes for programs and sentences for people."""
        return self.told.why

    @property
    def knee(self) -> Knee | None:
        """The fewest cores that reach nearly the same."""
        return self.told.knee

    @property
    def marginal(self) -> tuple[Marginal, ...]:
        """What one core more or less of each component would do."""
        return self.told.marginal

    @property
    def runner_up(self) -> tuple[RunnerUp, ...]:
        """The next best."""
        return self.told.runner_up

    @property
    def evidence(self) -> Mapping[str, Evidence]:
        """What the curves rest on, by key."""
        return self.told.evidence

    @property
    def expected_per_s(self) -> float | None:
        """The throughput that is expected."""
        return self.told.expected_per_s

    def __eq__(self, other: object) -> bool:
        """Return whether both say the same."""
        return isinstance(other, Allocation) and self.as_dict() == other.as_dict()

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: the details worked out."""
        return {**{name: value for name, value in self.__dict__.items() if name != "told"}, "details": self.told}

    @property
    def cores_used(self) -> int:
        """Cores taken: those of the groups, each once, where components share."""
        if self.groups:
            return sum(cores for cores, _ in self.groups)
        return sum(count * self.instances[key] for key, count in self.cores.items())

    @property
    def runs_on(self) -> dict[str, int]:
        """Cores that an instance of each component runs on, its own or in its turn: not to be summed."""
        return {key: self.cores[key] if key in self.cores else self.in_turn[key] for key in self.instances}

    def as_dict(self) -> dict[str, Any]:
        """Return the shape on the wire; what does not apply is left out."""
        found: dict[str, Any] = {
            "objective": self.objective,
            "expected_per_s": self.expected_per_s,
            "latency_queued_s": self.latency_queued_s,
            "latency_quantile_s": self.latency_quantile_s,
            "utilization": None if self.utilization is None else dict(self.utilization),
            "active_cores": self.active_cores,
            "gap": self.gap,
            "steps": self.steps,
            "knee": None if self.knee is None else self.knee.as_dict(),
            "marginal": [row.as_dict() for row in self.marginal],
            "runner_up": [other.as_dict() for other in self.runner_up],
            "placement": None if self.placement is None else {k: list(v) for k, v in self.placement.items()},
            "front": [point.as_dict() for point in self.front],
            "cost_per_s": self.cost_per_s,
            "evidence": {key: known.as_dict() for key, known in self.evidence.items()},
            "in_turn": dict(self.in_turn),
        }
        return self._plain() | {key: value for key, value in found.items() if not _absent(value)}

    def _plain(self) -> dict[str, Any]:
        return {
            "cores_used": self.cores_used,
            "cores": dict(self.cores),
            "instances": dict(self.instances),
            "spare": self.spare,
            "groups": [{"cores": cores, "components": list(keys)} for cores, keys in self.groups],
            "throughput_per_s": self.throughput_per_s,
            "latency_s": self.latency_s,
            "bottleneck": list(self.bottleneck),
            "why": [reason.as_dict() for reason in self.why],
        }


def _absent(value: Any) -> bool:
    return value is None or (isinstance(value, (list, dict)) and not value)
