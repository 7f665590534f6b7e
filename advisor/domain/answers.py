"""What the advisor answers: frozen values, each with its shape on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Prediction:
    """The elapsed time of one run, with an interval for it.

    Attributes
    ----------
    elapsed_s, low_s, high_s : float, or float64 array of the shape asked for
        Expected time in seconds, and the interval of one run at the level asked for (0.9 by default).
    model : str
        The form that answers, and what was done to it, e.g. ``joint degree 3``.
    notes : tuple of str
        What the caller should know: a dropped degree, too narrow a band, few rows.
    observations : int
        Runs learned for the component.
    extrapolates : float or float64 array
        Distance outside the seen ranges of predictor and cores in log2, 0.0 inside.
    """

    elapsed_s: Any
    low_s: Any
    high_s: Any
    model: str
    notes: tuple[str, ...]
    observations: int
    extrapolates: Any

    def as_dict(self) -> dict[str, Any]:
        """Return the shape on the wire; arrays become lists."""
        plain = {key: _plain(getattr(self, key)) for key in ("elapsed_s", "low_s", "high_s", "extrapolates")}
        return plain | {"model": self.model, "notes": list(self.notes), "observations": self.observations}


@dataclass(frozen=True, slots=True)
class CoreChoice:
    """How many cores to give one invocation, and what to expect of it."""

    cores: int
    elapsed_s: float
    low_s: float
    high_s: float
    model: str
    fastest_cores: int
    fastest_s: float
    extrapolates: float
    why: str

    def as_dict(self) -> dict[str, Any]:
        """Return the shape on the wire."""
        return {key: _plain(getattr(self, key)) for key in self.__slots__}


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A setting worth running next.

    Attributes
    ----------
    predictor : float or tuple of float
    cores : float
    elapsed_s : float
        Predicted time of the run, seconds.
    cost_core_s : float
        What it costs: cores times that time.
    narrower : float or None
        Share by which the answers' intervals should narrow; None where nothing is modelled yet.
    why : str
    """

    predictor: Any
    cores: float
    elapsed_s: float
    cost_core_s: float
    narrower: float | None
    why: str

    def as_dict(self) -> dict[str, Any]:
        """Return the shape on the wire."""
        plain = {key: getattr(self, key) for key in self.__slots__}
        vector: Any = plain["predictor"]
        return plain | {"predictor": list(vector) if isinstance(vector, tuple) else vector}  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Curves:
    """Curves of components as a bundle.

    Attributes
    ----------
    version : int
        What `since` takes.
    bundle : bytes
        As `advisor.domain.bundle` has it; `advisor.Bundle` reads it.
    more : int
        Components that changed and did not fit in; who watches gets them with the next push, who does not asks again for them.
    """

    version: int
    bundle: bytes
    more: int = 0


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


@dataclass(frozen=True, slots=True)
class Allocation:
    """Cores for each component of a network.

    Attributes
    ----------
    cores : mapping
        Key (box name, ``name#k`` where it recurs) to whole cores per instance.
    instances : mapping
        Key to instances; cores are per instance.
    spare : int
        Cores of the request that the answer leaves free.
    groups : tuple of (cores, keys)
        Where components share cores (fewer cores than components): the cores of each group and who takes turns on
        them; empty when each component has its own.
    throughput_per_s, latency_s : float
        Records per second, and seconds a record spends in the network, without queueing.
    bottleneck : tuple of str
        The keys that bound the throughput.
    why : tuple of Reason
    """

    cores: Mapping[str, int]
    instances: Mapping[str, int]
    spare: int
    throughput_per_s: float
    latency_s: float
    bottleneck: tuple[str, ...]
    why: tuple[Reason, ...] = ()
    groups: tuple[tuple[int, tuple[str, ...]], ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """Return the shape on the wire."""
        return {
            "cores": dict(self.cores),
            "instances": dict(self.instances),
            "spare": self.spare,
            "groups": [{"cores": cores, "components": list(keys)} for cores, keys in self.groups],
            "throughput_per_s": self.throughput_per_s,
            "latency_s": self.latency_s,
            "bottleneck": list(self.bottleneck),
            "why": [reason.as_dict() for reason in self.why],
        }


@dataclass(frozen=True, slots=True)
class Refusals:
    """Rows that were refused: how many, by code, and the first with row, code and value."""

    count: int = 0
    by_code: Mapping[str, int] = field(default_factory=dict[str, int])
    first: tuple[tuple[int, str, Any], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the shape on the wire, `{count, by_code, first: [[row, code, value]]}`."""
        return {"count": self.count, "by_code": dict(self.by_code), "first": [list(row) for row in self.first]}


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a batch: accepted + refused.count rows were sent."""

    accepted: int
    refused: Refusals = Refusals()
    sequence: int | None = None
    replayed: bool = False  # the number was applied before: nothing was folded now

    def as_dict(self) -> dict[str, Any]:
        """Return the shape on the wire."""
        answer: dict[str, Any] = {"accepted": self.accepted, "refused": self.refused.as_dict()}
        if self.sequence is not None:
            answer["sequence"] = self.sequence
        if self.replayed:
            answer["replayed"] = True
        return answer


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value
