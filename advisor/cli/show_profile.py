"""Profiles as trees for people, or as JSON for programs."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.markup import escape

from advisor.cli import show
from advisor.profile import layout as at
from advisor.profile.tree import Profile

NOT_SHOWN = "[dim]"


def profiles(found: list[tuple[str, Profile]], depth: int, least: float, *, as_json: bool) -> None:
    """Print profiles, one or several."""
    if as_json:
        print(json.dumps({"profiles": [{"name": name, "profile": profile.as_dict()} for name, profile in found]}))
        return
    console = Console(highlight=False)
    if not console.is_terminal:  # a file or a pipe has no width: a row stays one line
        console = Console(highlight=False, width=show.PIPE_COLUMNS)
    for name, profile in found:
        console.print(f"[bold]{escape(name)}[/bold]")
        tree(console, profile, depth, least)


def tree(console: Console, profile: Profile, depth: int, least: float) -> None:
    """Print the trees of a profile, tasks first."""
    columns = show.table("call path", "visits", "inclusive", "exclusive", "mean", "min", "max", "sd")
    total = max(int(profile.exclusive_ns[profile.role != at.STUB].sum()), 1)
    hidden = 0
    for root in (*profile.roots(at.TASK), *profile.roots(at.THREAD), *profile.roots(at.OVERFLOW)):
        for node, level in profile.walk(root):
            if (depth and level >= depth) or profile.inclusive_ns[node] < least * total:
                hidden += 1
                continue
            columns.add_row("  " * level + escape(_label(profile, node)), *_numbers(profile, node))
    console.print(columns)
    if hidden:
        console.print(f"[dim]{show.several(hidden, 'node')} not shown, see --depth and --least[/dim]")


def _label(profile: Profile, node: int) -> str:
    role = int(profile.role[node])
    label = profile.label(node)
    if role in (at.REGION, at.PARAMETER, at.THREAD, at.IDLE, at.OVERFLOW):
        return label
    return f"{label} ({'task' if role == at.TASK else at.ROLE_NAMES[role]})"


def _numbers(profile: Profile, node: int) -> list[Any]:
    count = int(profile.count[node])
    told = [f"{count:,}" + (f"+{int(profile.open[node])}" if profile.open[node] else "")]
    told += [show.seconds(int(ns) * 1e-9) for ns in (profile.inclusive_ns[node], profile.exclusive_ns[node])]
    if not count:
        return [*told, "–", "–", "–", "–"]
    spread = float(profile.variance_ns2[node]) ** 0.5
    each = (float(profile.mean_ns[node]), int(profile.least_ns[node]), int(profile.most_ns[node]), spread)
    return [*told, *(show.seconds(ns * 1e-9) for ns in each)]
