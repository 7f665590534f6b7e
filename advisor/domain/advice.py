"""What a watch tells of a network's allocation: frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from advisor.domain.answers import Allocation


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing that a watch tells.

    Attributes
    ----------
    kind : str
        ``first`` (enough is known for a first allocation), ``advice`` (a better one is worth the change), ``withdrawn`` (the last
        advice has become wrong: do not apply it), ``outcome`` (what an applied advice did), ``failed`` (no allocation can be
        found; `why` says what forbids it).
    allocation : Allocation or None
        What to do; of ``withdrawn`` the best known now.
    gain : float or None
        Of the objective, as a share: 0.2 is 20 % more throughput, a latency 20 % lower, or 20 % of the cores saved.
    probability : float or None
        That it is a gain at all.
    cost_s, break_even_s : float or None
        Expected seconds of the change, and after how many seconds it is repaid.
    changed : tuple of str
        The keys whose cores or instances change.
    figures : mapping
        ``best``, ``present``, ``advised`` and ``actual``, as far as there are such: each throughput_per_s, latency_s and cores.
    paid : bool or None
        Of ``outcome``.
    why : str
    watch : int
    """

    kind: str
    allocation: Allocation | None = None
    gain: float | None = None
    probability: float | None = None
    cost_s: float | None = None
    break_even_s: float | None = None
    changed: tuple[str, ...] = ()
    figures: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    paid: bool | None = None
    why: str = ""
    watch: int = 0
