"""What the live page shows of a running service: a few topics as JSON, each bounded, sent again only where it changed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from advisor import __version__
from advisor.service.answers import RecentAnswer
from advisor.service.hub import Hub

NAMES_REPORTED = 4  # of networks, of bottlenecks of one answer


class PageTopics:
    """The topics of a service."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._began = time.monotonic()

    def topics(self) -> Iterator[tuple[str, Any]]:
        """Yield each topic by name; others may have their turn between two."""
        yield "now", self._now()
        yield "answers", self._answers()

    def _now(self) -> dict[str, Any]:
        hub = self._hub
        health, (known, most, *_, ledger) = hub.health(), hub.backend.held()
        return {
            "version": __version__, "at": time.time(), "uptime_s": round(time.monotonic() - self._began, 1),
            "counts": {"rows_accepted": int(hub.engine.advisor.components.totals["rows_accepted"])},
            "rows_per_s": health["rows_per_s"], "components": known, "components_max": most,
            "coverage": ledger["covered"] / ledger["scores"] if ledger["scores"] else None,
            "health": {key: health[key] for key in (
                "producers", "producers_live", "storage", "storage_failure", "stopping", "commits", "commit_mean_s",
            )},
            "socket": None if hub.config.socket is None else str(hub.config.socket),
        }  # fmt: skip

    def _answers(self) -> dict[str, Any]:
        answers = self._hub.planner.answers
        return {
            "answers": [self._answer(kept) for kept in answers.newest()],
            "choices": answers.choices(),
        }

    @staticmethod
    def _answer(kept: RecentAnswer) -> dict[str, Any]:
        answer = kept.allocation
        reported: dict[str, Any] = {
            "id": kept.id, "at": kept.at, "why": kept.why,
            "objective": kept.request.get("objective", "throughput"), "cores": kept.request.get("cores"),
        }  # fmt: skip
        if kept.network is None:
            return reported | {
                "networks": [part["name"] for part in answer["networks"][:NAMES_REPORTED]],
                "boxes": None,
            }
        return reported | {
            "boxes": len(answer["instances"]),
            "throughput_per_s": answer["throughput_per_s"], "latency_s": answer["latency_s"],
            "bottleneck": list(answer["bottleneck"])[:NAMES_REPORTED],
        }  # fmt: skip
