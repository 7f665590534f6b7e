"""Pictures of plans by cores: a sweep with its knee, and the front that no plan betters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advisor.domain.allocations import Allocation, FrontPoint
from advisor.errors import InvalidValue
from advisor.pictures.charts import Panel, Series, draw

PLAIN_RATIO = 256.0  # of the most cores to the fewest: a wider sweep is drawn on a logarithmic axis

Line = tuple[str, NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def draw_sweep(path: Path, title: str, found: Sequence[tuple[int, Allocation]], knee: int | None) -> Path:
    """Draw throughput and latency against cores; raises as `advisor.pictures.charts.draw`.

    `found`: sequence of (cores, Allocation). `knee`: the cores marked, with a line from top to bottom, where there is a knee.
    """
    cores = np.array([count for count, _ in found], np.float64)
    rate = np.array([each.throughput_per_s for _, each in found])
    latency = np.array([each.latency_s for _, each in found])
    mark = {} if knee is None else {float(knee): f"{knee} core{'' if knee == 1 else 's'}: 99 % of the best"}
    return _draw(path, title, [("as planned", cores, rate, latency)], mark)


def draw_front(path: Path, title: str, points: Sequence[FrontPoint]) -> Path:
    """Draw a front against cores: with at most so many, the fastest plan and the one of least latency.

    Raises InvalidValue where there are no points; and as `advisor.pictures.charts.draw`.
    """
    if not points:
        raise InvalidValue("plot", str(path), "of a front that could be worked out", "ask for fewer --cores")
    used = sorted({point.used for point in points})
    within = [[point for point in points if point.used <= count] for count in used]
    fast = [max(found, key=lambda point: point.throughput_per_s) for found in within]
    short = [min(found, key=lambda point: point.latency_s) for found in within]
    named = [("most throughput", fast), ("least latency", short)] if fast != short else [("both at best", fast)]
    lines = [
        (name, np.array(used, np.float64), np.array([each.throughput_per_s for each in found]),
         np.array([each.latency_s for each in found]))
        for name, found in named
    ]  # fmt: skip
    return _draw(path, title, lines, {})


def _draw(path: Path, title: str, lines: Sequence[Line], mark: Mapping[float, str]) -> Path:
    """Draw throughput and latency side by side; a line is (label, cores, records/s, seconds)."""
    cores = lines[0][1]
    log = bool(cores[-1] > PLAIN_RATIO * cores[0])
    rates = [Series(name, x, rate, colour=place) for place, (name, x, rate, _) in enumerate(lines)]
    latencies = [Series(name, x, latency, colour=place) for place, (name, x, _, latency) in enumerate(lines)]
    panels = [
        Panel("Throughput", "cores", "records/s", rates, log_x=log, marks_x=mark, from_zero=True),
        Panel(
            "Latency", "cores", "seconds of a record in the network", latencies, log_x=log, marks_x=mark, from_zero=True
        ),
    ]
    return draw(path, title, panels)
