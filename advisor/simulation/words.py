"""Times of a graph as people read them."""

from __future__ import annotations

from advisor.domain.task_graphs import TICKS

SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
WHOLE_SECONDS_FROM = 1e4  # from there on fractions of a second tell nothing


def scaled(value: float, unit: str) -> tuple[float, str]:
    """Return the factor and the name of the unit that suit a time of this size; of a unit without a name 1 and nothing."""
    if unit == "unit":
        return 1.0, ""
    seconds = TICKS[unit] / TICKS["s"]  # a tick of a named unit is a nanosecond
    scale, name = next((pair for pair in SCALES if value * seconds >= pair[0]), SCALES[0] if not value else SCALES[-1])
    return seconds / scale, name


def reported_time(value: float, unit: str) -> str:
    """Return a time of a graph in words: four digits and the unit that suits them."""
    factor, name = scaled(value, unit)
    if not name:
        return f"{value:,.4f}".rstrip("0").rstrip(".")
    if value * factor >= WHOLE_SECONDS_FROM:
        return f"{value * factor:.0f} {name}"
    return f"{value * factor:.4g} {name}"
