"""`advisor profile --socket`: what a running service knows of runs of tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from advisor.cli import source, tables

if TYPE_CHECKING:
    from advisor.profile.tree import Profile


def runs(socket: Path | None, *, as_json: bool) -> None:
    """Print the runs whose profile a service keeps, the one that spoke last first."""
    with source.connected({"socket": socket}) as client:
        found: list[dict[str, Any]] = client.profile()["runs"]
    for run in found:
        run["incarnation"] = run["incarnation"].hex()
    if as_json:
        print(json.dumps({"runs": found}))
        return
    console = Console(highlight=False)
    if not found:
        console.print("no run of tasks was sent yet")
        return
    columns = tables.table(
        "producer", "incarnation", "events", "notes", text_columns=2, least=("incarnation",), words=("notes",)
    )
    for run in found:
        notes = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in run["notes"].items())
        columns.add_row(escape(run["producer"]) or "(none)", run["incarnation"], f"{run['events']:,}", notes)
    console.print(columns)


def profile_now(socket: Path | None, producer: str) -> Profile:
    """Return the profile of a producer's newest run, up to the last event that the service has."""
    from advisor.profile.tree import Profile

    with source.connected({"socket": socket}) as client:
        return Profile.from_dict(client.profile(producer, ended=True, diagnosis=False)["profile"])
