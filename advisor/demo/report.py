"""What the demo measured, as tables for people and as a mapping for programs."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from advisor.demo.real import POLICIES, REPEATS, TOLERANCE, JudgedRuns


def real_as_dict(judged: JudgedRuns) -> dict[str, Any]:
    """Return it as a mapping that JSON can hold."""
    return {
        "cores": judged.cores,
        "runs_learned": judged.learned,
        "invocations": len(judged.invocations),
        "load_average": judged.load,
        "ask_median_s": float(np.median(judged.ask_s)),
        "policies": {
            policy: {
                "total_s": judged.total_s(policy),
                "core_s": judged.core_s(policy),
                "regret": judged.regret(policy),
                "slowdown": judged.slowdown(policy),
                "right_share": judged.right_share(policy),
                "components_s": {name: judged.total_s(policy, name) for name in judged.components},
            }
            for policy in POLICIES
        },
    }


def print_real(console: Console, judged: JudgedRuns) -> None:
    """Print it."""
    console.print(
        f"[bold]Real components, {judged.cores} cores here.[/] {judged.learned} runs to learn from, then "
        f"{len(judged.invocations)} invocations judged: each input ran with every policy's cores, interleaved, "
        f"median of {REPEATS}."
    )
    table = _table("policy", "seconds", "regret", "core-seconds", "mean slowdown", "right choices")
    for policy in POLICIES:
        table.add_row(
            policy,
            f"{judged.total_s(policy):.3f}",
            f"{judged.regret(policy):+.1%}",
            f"{judged.core_s(policy):.3f}",
            f"{judged.slowdown(policy):.3f}x",
            f"{judged.right_share(policy):.0%}",
            style="bold" if policy == "advised" else None,
        )
    console.print(table)
    console.print(
        "Regret: seconds over the hindsight best. Mean slowdown: geometric, every invocation counts alike. "
        f"Right: within {TOLERANCE:.0%} of the best. "
        "The hindsight best picks the luckier of noisy times: nobody reaches it. "
        f"Asking took {np.median(judged.ask_s) * 1e6:.0f} µs (median), which is not in the table."
    )
    if judged.load > judged.cores / 2:
        console.print(f"The machine was busy with other work (load {judged.load:.1f}): the noise is large.")
    each = _table("seconds of", *POLICIES, "advised right")
    for name in judged.components:
        totals = [f"{judged.total_s(policy, name):.3f}" for policy in POLICIES]
        each.add_row(name, *totals, f"{judged.right_share('advised', name):.0%}")
    console.print(each)


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place else "left")
    return table
