"""What the advisor answers about the cores of a network: an allocation, and what it tells beside its figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, cast

from msgspec.structs import asdict

from advisor.domain.answers import Basis
from advisor.domain.shapes import Answer, converted, on_wire


class Reason(Answer, frozen=True):
    """One reason of an answer: `code` for programs, `text` for people."""

    code: str
    component: str | None
    value: float | None
    text: str


class Evidence(Answer, frozen=True):
    """What a component's curve rests on: its model, how many runs, how far beyond their cores the answer's are, in log2."""

    model: str
    observations: int
    extrapolates: float
    cores_range: tuple[float, float] | None = None


class Details(Answer, frozen=True):
    """What an allocation tells beside its figures: why it is as it is."""

    why: tuple[Reason, ...] = ()
    evidence: Mapping[str, Evidence] = {}  # nobody writes into it
    expected_per_s: float | None = None


@dataclass(frozen=True, eq=False)
class Allocation:
    """Cores for each component of a network. Its details are worked out when they are first read.

    Attributes
    ----------
    cores : mapping
        Key (box name, ``name#k`` where it recurs) to whole cores per instance, every key. Components of a group run on its
        cores one after the other: what is taken in all is `cores_used`, and no sum of these where there are groups.
    instances : mapping
        Key to instances, every key.
    spare : int
        Cores of the request that the answer leaves free.
    groups : tuple of (cores, keys)
        Where components share cores: the cores of each group and who takes turns on them, every key in one of them; they
        sum to `cores_used`. Empty when each component has its own.
    in_turn : mapping
        The part of `cores` that components share: not cores of their own.
    throughput_per_s, latency_s : float
        Records per second, and seconds a record spends in the network, without queueing. Where a throughput is planned for
        (``throughput``, ``fewest_cores`` for one), both are promised, else expected. Beyond the most cores that a component
        was seen on, a promise counts no gain.
    expected_per_s : float or None
        Records per second that are expected. None where an answer joins several networks.
    bottleneck : tuple of str
        The keys that bound the throughput.
    why : tuple of Reason
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
        0 where it is proved best, else None.
    steps : int
        Steps that the search took.
    placement : mapping or None
        Key to the node of each instance, where the machine's nodes were given.
    basis : Basis or None
        What the answer rests on, where that was asked for by `evidence`.
    details : Details or function
        What `why`, `evidence` and `expected_per_s` hold, or what works them out of the
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
    in_turn: Mapping[str, int] = field(default_factory=dict[str, int])
    details: Any = field(default=Details(), repr=False)
    basis: Basis | None = field(default=None, repr=False)

    @cached_property
    def reported(self) -> Details:
        """The details, worked out."""
        return self.details if isinstance(self.details, Details) else self.details(self)

    # the details, each by its name
    why = cast("tuple[Reason, ...]", property(attrgetter("reported.why")))
    evidence = cast("Mapping[str, Evidence]", property(attrgetter("reported.evidence")))
    expected_per_s = cast("float | None", property(attrgetter("reported.expected_per_s")))

    def __eq__(self, other: object) -> bool:
        """Return whether both say the same."""
        return isinstance(other, Allocation) and self.as_dict() == other.as_dict()

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: the details worked out."""
        return {
            **{name: value for name, value in self.__dict__.items() if name != "reported"},
            "details": self.reported,
        }

    @property
    def cores_used(self) -> int:
        """Cores taken: those of the groups, each once, where components share."""
        if self.groups:
            return sum(cores for cores, _ in self.groups)
        return sum(count * self.instances[key] for key, count in self.cores.items())

    def as_wire(self) -> dict[str, Any]:
        """Return what a runtime that follows it has: `current` of the next question."""
        groups = [{"cores": cores, "components": list(keys)} for cores, keys in self.groups]
        return {"cores": dict(self.cores), "instances": dict(self.instances), "groups": groups}

    def as_dict(self) -> dict[str, Any]:
        """Return the shape on the wire; what does not apply is left out."""
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "details"}
        found = on_wire(own | {"cores_used": self.cores_used} | asdict(self.reported))
        return _with_groups({key: value for key, value in found.items() if key in _ALWAYS or value not in _ABSENT})

    @classmethod
    def of_wire(cls, given: Any) -> Allocation:
        """Return an allocation from its shape on the wire. Raises MalformedMessage."""
        pairs = without_groups(given)
        return replace(converted(cls, pairs), details=converted(Details, pairs))


_ALWAYS = ("cores_used", "cores", "instances", "spare", "groups", "throughput_per_s", "latency_s", "bottleneck", "why")
_ABSENT: tuple[Any, ...] = (None, [], {})


def _with_groups(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer with its groups as maps."""
    if "groups" in answer:
        answer["groups"] = [{"cores": cores, "components": keys} for cores, keys in answer["groups"]]
    return answer


def without_groups(given: Any) -> dict[str, Any]:
    """Return an answer with its groups as pairs; empty where it is no such map."""
    try:
        found = {**given}
        if "groups" in found:
            found["groups"] = [(each["cores"], each["components"]) for each in found["groups"]]
        return found
    except (TypeError, KeyError, AttributeError):
        return {}
