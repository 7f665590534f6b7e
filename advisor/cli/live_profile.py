"""`advisor profile` of a running service: what it knows of runs of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from advisor.cli import show, source, tables

if TYPE_CHECKING:
    from advisor.profile.tree import Profile


def runs(asked: Mapping[str, Any], *, as_json: bool) -> None:
    """Print the runs whose profile a service keeps, the one that spoke last first."""
    with source.connected(asked) as client:
        found: list[dict[str, Any]] = client.profile()["runs"]
    for run in found:
        run["incarnation"] = run["incarnation"].hex()
    if as_json:
        show.put_json({"runs": found})
        return
    if not found:
        tables.say("no run of tasks was sent yet")
        return
    columns = tables.table("producer", "incarnation", "events", "notes", text_columns=2, words=("notes",))
    for run in found:
        notes = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in run["notes"].items())
        columns.add_row(escape(run["producer"]) or "(none)", run["incarnation"], f"{run['events']:,}", notes)
    tables.put(columns)


def profile_now(asked: Mapping[str, Any], producer: str) -> Profile:
    """Return the profile of a producer's newest run, up to the last event that the service has."""
    from advisor.profile.tree import Profile

    with source.connected(asked) as client:
        return Profile.from_dict(client.profile(producer, ended=True, diagnosis=False)["profile"])
