"""What the demo measured, as tables for people and as a mapping for programs."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from advisor.demo.paper import LABELS, MODELS, SIZE_SMALL, WINDOWS, Streamed
from advisor.demo.paper_setting import CORES, PIPELINE
from advisor.demo.real import POLICIES, REPEATS, TOLERANCE, JudgedRuns

PAPER_BOUND = 0.10  # "within 10 % of the observed runtime"


def real_as_dict(judged: JudgedRuns) -> dict[str, Any]:
    """Return part (a) as a mapping that JSON can hold."""
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


def paper_as_dict(streamed: Streamed) -> dict[str, Any]:
    """Return part (b) as a mapping that JSON can hold."""
    return {
        "rows": len(streamed.row),
        "error": {
            LABELS[model]: [
                {
                    "rows": [WINDOWS[window], WINDOWS[window + 1] - 1],
                    "median": streamed.quantile(model, 0.5, window),
                    "p90": streamed.quantile(model, 0.9, window),
                    "median_large": streamed.quantile(model, 0.5, window, SIZE_SMALL),
                    "within_10_percent_large": streamed.within(model, PAPER_BOUND, window, SIZE_SMALL),
                }
                for window in range(len(WINDOWS) - 1)
            ]
            for model in MODELS
        },
        "allocations": [
            {
                "label": shares.label,
                "cores": dict(zip((c.name for c in PIPELINE), shares.cores, strict=True)),
                "throughput_per_s": shares.throughput_per_s,
                "latency_s": shares.latency_s,
            }
            for shares in streamed.shares
        ],
    }


def print_real(console: Console, judged: JudgedRuns) -> None:
    """Print part (a)."""
    console.print(
        f"[bold](a) Real components, {judged.cores} cores here.[/] {judged.learned} runs to learn from, then "
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


def print_paper(console: Console, streamed: Streamed) -> None:
    """Print part (b)."""
    console.print(
        f"[bold](b) The paper's setting, {CORES} cores, generated.[/] {len(streamed.row)} rows of {len(PIPELINE)} "
        "components in random order; each row predicted, then learned; error against the true curve."
    )
    table = _table("rows of each", "model", "median", "90th pct.", f"median, x > {SIZE_SMALL}", "of these within 10 %")
    for window in range(len(WINDOWS) - 1):
        for model in MODELS:
            table.add_row(
                f"{WINDOWS[window]}–{WINDOWS[window + 1] - 1}" if model is MODELS[0] else "",
                LABELS[model],
                f"{streamed.quantile(model, 0.5, window):.1%}",
                f"{streamed.quantile(model, 0.9, window):.1%}",
                f"{streamed.quantile(model, 0.5, window, SIZE_SMALL):.1%}",
                f"{streamed.within(model, PAPER_BOUND, window, SIZE_SMALL):.0%}",
            )
    console.print(table)
    plans = _table(f"cores, of {CORES}", *(component.name for component in PIPELINE), "records/s", "latency")
    for shares in streamed.shares:
        plans.add_row(
            shares.label, *map(str, shares.cores), f"{shares.throughput_per_s:.3f}", f"{shares.latency_s:.3f} s",
            style="bold" if shares.label.startswith("advised") else None,
        )  # fmt: skip
    console.print(plans)


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place else "left")
    return table
