"""The load of networks, as a Prometheus reports it: what arrived, and what is unfinished.

Applications export two metrics with the label `network`: `advisor_arrived_total`, records that came, and
`advisor_unfinished`, records that wait or run. Their instances are added up.
"""

from __future__ import annotations

import json
import math
import urllib.request
from collections import defaultdict
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import quote

from advisor.planning.load import ObservedLoad
from advisor.service.option_types import FollowedLoad

LOOK_S: Final = 15.0  # between two queries: what Prometheus scrapes by default is no newer
ANSWER_S: Final = 5.0  # that a query may take
BYTES_MAX: Final = 4 << 20  # of an answer: 20,000 series
ARRIVED, UNFINISHED = "advisor_arrived_total", "advisor_unfinished"
STEP: Final = 1.1  # between two rates that are planned for: a smaller change is not worth a plan
REST_PER_S: Final = 1.0 / 3600.0  # that a network without load is planned for

Totals = dict[str, dict[str, float]]  # by metric and network


def read_load(url: str) -> Totals:
    """Return both metrics of all networks; raises OSError or ValueError. Blocks for a query."""
    query = quote(f'sum by (__name__, network) ({{__name__=~"{ARRIVED}|{UNFINISHED}"}})')
    asked = f"{url.rstrip('/')}/api/v1/query?query={query}"
    try:
        with urllib.request.urlopen(asked, timeout=ANSWER_S) as answer:  # noqa: S310 - http(s), checked
            found: Any = json.loads(answer.read(BYTES_MAX))
    except HTTPException as error:
        raise ValueError(f"no answer in HTTP: {error!r}") from error
    totals: Totals = {ARRIVED: defaultdict(float), UNFINISHED: defaultdict(float)}
    try:
        for series in found["data"]["result"]:
            labels, value = series["metric"], float(series["value"][1])
            if 0.0 <= value < math.inf:
                totals[labels["__name__"]][labels.get("network", "")] += value
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"no answer to a query: {error!r}") from error
    return totals


class NetworkLoad:
    """The load of one network, and the rate that it is planned for."""

    def __init__(self, follow: FollowedLoad) -> None:
        self.follow = follow
        self.rate_per_s: float | None = None  # None: no load was read yet
        self.observed = ObservedLoad(follow.change_s)
        self._total: float | None = None
        self._read_at = 0.0

    def add_reading(self, now_s: float, totals: Totals, network: str, latency_s: float | None) -> None:
        """Add a reading, if it has this network; `latency_s` is that of a record without waiting, where it is known."""
        total = totals[ARRIVED].get(network)
        if total is None:
            return
        # What came before the first reading is no arrival of now; a counter that fell began anew at 0.
        arrived = 0.0 if self._total is None else total - self._total if total >= self._total else total
        self._total, self._read_at = total, now_s
        self.observed.report(now_s, round(arrived), round(totals[UNFINISHED].get(network, 0.0)))
        rate = self.observed.required_per_s(now_s, latency_s or self.follow.wait_s or 1.0, self.follow.wait_s)
        step = math.ceil(math.log(max(rate, REST_PER_S)) / math.log(STEP) - 1e-9)
        self.rate_per_s = STEP**step

    def report(self, now_s: float) -> dict[str, float | None]:
        """Return what is known, as an answer has it."""
        return {
            "arrivals_per_s": self.observed.arrivals_per_s(now_s), "unfinished": self.observed.unfinished,
            "planned_per_s": self.rate_per_s, "age_s": now_s - self._read_at,
        }  # fmt: skip
