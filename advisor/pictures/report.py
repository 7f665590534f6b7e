"""A report: what an advisor has learned, as one HTML file drawn by the same program as the live page."""

from __future__ import annotations

from typing import Any

from advisor.engine import Advisor
from advisor.errors import AdvisorError
from advisor.pictures import views
from advisor.pictures.boxes import boxes_shown
from advisor.pictures.pages import board

VIEWS_MAX = 200  # components with all their charts, those of most runs: 6 KB each
CARDS_MAX = 2_000  # with a small picture: 2 KB each, so that a file stays below 6 MB


def report(advisor: Advisor, source: str, foot: str, *, cores: int | None = None) -> str:
    """Return the page.

    `source`: where it learned from: stands in the title. `foot`: last line: by what and when the report was made.
    `cores`: cores of the machine: networks are shown with what each box would be given of them.
    """
    components = advisor.components
    slots: list[int] = views.found(advisor, "", "runs", len(components.slots.names)).tolist()
    names = [components.slots.owner(slot) for slot in slots]
    shown = {name: views.view(advisor, name) for name in names[:VIEWS_MAX]}
    cards = [{**views.card(advisor, name), "slot": slot} for slot, name in zip(slots[:CARDS_MAX], names, strict=False)]
    networks = {
        name: _network(advisor, name, cores)
        for name, kept in components.flows.kept.items()
        if kept.definition is not None
    }
    data = {
        "topics": {"networks": [{"network": name} for name in networks]},
        "about": _about(advisor, len(names)),
        "cards": cards,
        "views": shown,
        "networks": networks,
        "left": _left(len(names)),
        "foot": foot,
    }  # fmt: skip
    return board(f"Advisor: {source}", data).html


def _about(advisor: Advisor, known: int) -> list[list[str]]:
    """Return the figures that a reader sees first: name, value, what it is of."""
    totals, ledger = advisor.components.totals, advisor.ledger()
    scores = ledger["scores"]
    return [
        ["Components", f"{known:,}", ""],
        ["Runs learned", f"{totals['rows_accepted']:,}", f"{totals['rows_refused']:,} rows refused"],
        ["Scored", f"{scores:,}", "predicted before they were learned"],
        ["Coverage", f"{ledger['covered'] / scores:.1%}" if scores else "–", "90 % promised"],
    ]


def _left(known: int) -> str | None:
    if known <= VIEWS_MAX:
        return None
    reported = f"The {VIEWS_MAX:,} components of most runs have their charts here, of {known:,}"
    return f"{reported}; {min(known, CARDS_MAX):,} have a card."


def _network(advisor: Advisor, name: str, cores: int | None) -> dict[str, Any]:
    """Return a network, with what is given to its boxes where that is asked for and known."""
    network = advisor.components.flows.defined(name)
    definition = advisor.components.flows.definition(name)
    text = definition if isinstance(definition, str) else None
    allocation: dict[str, Any] | None = None
    why: str | None = None
    if cores is not None:
        try:
            allocation = advisor.allocate(name, cores=cores).as_dict()
        except AdvisorError as error:
            why = str(error)
    answer = allocation and {key: allocation[key] for key in ("cores_used", "spare", "throughput_per_s", "latency_s")}
    reasons = [reason["text"] for reason in allocation["why"]] if allocation is not None else []
    return {
        **boxes_shown(network, allocation),
        "network": name,
        "text": text,
        "answer": answer,
        "why": reasons,
        "failed": why,
    }
