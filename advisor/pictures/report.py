"""A report: what an advisor has learned, as one HTML file drawn by the same program as the live page."""

from __future__ import annotations

from advisor.engine import Advisor
from advisor.pictures import views
from advisor.pictures.pages import board

COMPONENTS_MAX = 500  # those of most runs: 6 to 10 KB each


def report(advisor: Advisor, source: str, foot: str) -> str:
    """Return the page.

    `source`: where it learned from: stands in the title. `foot`: last line: by what and when the report was made.
    """
    components = advisor.components
    slots: list[int] = views.found(advisor, "", len(components.slots.names)).tolist()
    names = [components.slots.owner(slot) for slot in slots]
    shown = [views.view(advisor, name) for name in names[:COMPONENTS_MAX]]
    left = (
        f"These are the {COMPONENTS_MAX:,} components of most runs, of {len(names):,}."
        if len(names) > len(shown)
        else None
    )
    data = {"about": _about(advisor, len(names)), "views": shown, "left": left, "foot": foot}
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
