"""What the advisor answers about components and rows: frozen values, each with its shape on the wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from advisor.domain.shapes import Answer, converted


class Basis(Answer, frozen=True):
    """What an answer rests on: it is computed again from this alone, see `advisor.replay_answer`.

    Attributes
    ----------
    verb : str
        What was asked.
    request : mapping
        With what: each option that was given or has a default; of a network that is kept by id its definition, and what was
        learned of its flow.
    curves : bytes
        What was learned of the components in question, from which their curves are solved: a part of a state.
    versions : mapping
        Of the program that answered, and of the format of its state.
    """

    verb: str
    request: Mapping[str, Any]
    curves: bytes
    versions: Mapping[str, str]


class Prediction(Answer, frozen=True):
    """The elapsed time of one run, with an interval for it.

    Attributes
    ----------
    elapsed_s, low_s, high_s : float, or float64 array of the shape asked for
        Expected time in seconds, and the interval of one run at the level asked for (0.9 by default).
    model : str
        What answers, e.g. ``learner``.
    notes : tuple of str
        What the caller should know: a dropped degree, too narrow a band, few rows.
    observations : int or int64 array
        Runs learned for the component; an array where several were asked for.
    extrapolates : float or float64 array
        Distance outside the seen ranges of predictor and cores in log2, 0.0 inside.
    nearest : tuple of str or None
        Of a component that was never observed: the known names that are most like its own.
    basis : Basis or None
        What the answer rests on, where that was asked for by `evidence`.
    """

    elapsed_s: Any
    low_s: Any
    high_s: Any
    model: str
    notes: tuple[str, ...]
    observations: Any
    extrapolates: Any
    nearest: tuple[str, ...] | None = None
    basis: Basis | None = None


class CoreChoice(Answer, frozen=True):
    """How many cores to give one invocation, and what to expect of it.

    Attributes
    ----------
    fastest_cores, fastest_s : int and float
        The fastest count, as predicted.
    extrapolates : float
        Distance of what was chosen outside of what was seen, in log2; 0.0 inside.
    why : str
        The choice in words.
    seen : tuple of (cores, runs)
        The core counts that runs were on, ascending, and how many runs: at most 16 counts, near ones then together.
    assumed : tuple of str
        What the choice assumes without having seen it; for an unknown component also the names like its own.
    trial : bool
        The run is proposed for what it teaches; of runs that begin at once, those at the front of `counts`.
    counts : tuple of int
        A count for each of the runs that were asked for; `cores` is that of all but trials.
    nearest : tuple of str or None
        Of a component that was never observed: the known names that are most like its own.
    """

    cores: int
    elapsed_s: float
    low_s: float
    high_s: float
    model: str
    fastest_cores: int
    fastest_s: float
    extrapolates: float
    why: str
    seen: tuple[tuple[float, int], ...]
    assumed: tuple[str, ...]
    trial: bool
    counts: tuple[int, ...]
    nearest: tuple[str, ...] | None = None
    basis: Basis | None = None


class Suggestion(Answer, frozen=True):
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

    predictor: float | tuple[float, ...]
    cores: float
    elapsed_s: float
    cost_core_s: float
    narrower: float | None
    why: str


class Suggestions(list[Suggestion]):
    """Settings worth running next, the best first; `basis` where it was asked for."""

    def __init__(self, found: Iterable[Suggestion] = (), basis: Basis | None = None) -> None:
        super().__init__(found)
        self.basis = basis

    def as_wire(self) -> Any:
        """Return the shape on the wire: a list, with evidence a map of it and its basis."""
        found = [each.as_dict() for each in self]
        return found if self.basis is None else {"suggestions": found, "basis": self.basis.as_dict()}

    @classmethod
    def of_wire(cls, given: Any) -> Suggestions:
        """Return suggestions from their shape on the wire. Raises MalformedMessage."""
        if not isinstance(given, Mapping):
            return cls(converted(list[Suggestion], given))
        with_basis = cast("Mapping[str, Any]", given)
        return cls(
            converted(list[Suggestion], with_basis.get("suggestions")), converted(Basis, with_basis.get("basis"))
        )


class Curves(Answer, frozen=True):
    """Curves of components as a bundle.

    Attributes
    ----------
    version : int
        What `since` takes.
    bundle : bytes
        As `advisor.domain.bundle` has it; the client in C reads it.
    more : int
        Components that changed and did not fit in.
    next : str or None
        What `after` takes for the following page; None after the last.
    """

    version: int
    bundle: bytes
    more: int = 0
    next: str | None = None


class Refusals(Answer, frozen=True, omit_defaults=False):
    """Rows that were refused: how many, by code, and the first with row, code and value."""

    count: int = 0
    by_code: Mapping[str, int] = {}
    first: tuple[tuple[int, str, Any], ...] = ()


class Receipt(Answer, frozen=True, omit_defaults=False):
    """What became of a batch: accepted + refused.count rows were sent."""

    accepted: int
    refused: Refusals = Refusals()
