"""The picture of a sweep: throughput and latency by the cores given out, the knee marked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from advisor.domain.answers import Allocation
from advisor.pictures.charts import Panel, Series, draw

PLAIN_RATIO = 256.0  # of the most cores to the fewest: a wider sweep is drawn on a logarithmic axis


def draw_sweep(path: Path, title: str, found: Sequence[tuple[int, Allocation]], knee: int) -> Path:
    """Draw throughput and latency against cores; raises as `advisor.pictures.charts.draw`.

    Parameters
    ----------
    found : sequence of (cores, Allocation)
    knee : int
        The cores marked, with a line from top to bottom.
    """
    cores = np.array([count for count, _ in found], np.float64)
    rate = np.array([each.throughput_per_s for _, each in found])
    latency = np.array([each.latency_s for _, each in found])
    log = bool(cores[-1] > PLAIN_RATIO * cores[0])
    mark = {float(knee): f"{knee} core{'' if knee == 1 else 's'}: 99 % of the best"}
    panels = [
        Panel("Throughput", "cores", "records/s", [Series("", cores, rate)], log_x=log, marks_x=mark, from_zero=True),
        Panel("Latency", "cores", "seconds of a record in the network", [Series("", cores, latency, colour=1)],
              log_x=log, marks_x=mark, from_zero=True),
    ]  # fmt: skip
    return draw(path, title, panels)
