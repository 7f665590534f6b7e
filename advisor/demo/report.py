"""What the demo measured, as tables for people, as a mapping for programs, and as pictures."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from advisor.demo.paper import LABELS, MODELS, SIZE_SMALL, WINDOWS, Streamed
from advisor.demo.paper_setting import CORES, PIPELINE
from advisor.demo.real import POLICIES, REPEATS, TOLERANCE, JudgedRuns
from advisor.pictures import Bars, Panel, Series, draw

Floats = NDArray[np.float64]

SIZE_BINS = 9  # of the slowdown picture: enough runs in each for a mean
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


def draw_real(path: Path, judged: JudgedRuns) -> Path:
    """Draw part (a): where each policy loses by size, and what that sums to by component."""
    sides = np.array([run.side for run in judged.invocations])
    edges = cast("Floats", np.geomspace(sides.min(), sides.max() * 1.001, SIZE_BINS + 1))
    place = np.digitize(sides, edges) - 1
    filled = [b for b in range(SIZE_BINS) if (place == b).any()]
    middles = np.sqrt(edges[:-1] * edges[1:])[filled]
    compared = POLICIES[:-1]
    lines = [
        Series(policy, middles, np.array([np.exp(np.log(ratios[place == b]).mean()) for b in filled]), colour=number)
        for number, policy in enumerate(compared)
        for ratios in (judged.ratios(policy),)
    ]
    totals = {
        policy: [judged.total_s(policy, name) / judged.total_s("hindsight best", name) for name in judged.components]
        for policy in compared
    }
    slowdown = Panel(
        "Where each policy loses", "side of the matrix (predictor)", "time / hindsight best (geometric mean)", lines,
        log_x=True, x_ticks=[tick for tick in (16, 32, 64, 128, 256, 512) if tick <= sides.max()],
    )  # fmt: skip
    names = [name.replace("_", "\n") for name in judged.components]
    sums = Panel("What it sums to", "", "total seconds / hindsight best", bars=Bars(names, totals))
    return draw(path, f"Real components on {judged.cores} cores: advice followed, call by call", [slowdown, sums])


def draw_paper(path: Path, streamed: Streamed) -> Path:
    """Draw part (b): the online error of both models, and the allocations."""
    edges = np.unique(np.geomspace(6, WINDOWS[-1], 22).astype(int))
    middles = np.sqrt(edges[:-1] * (edges[1:] - 1.0))
    lines: list[Series] = []
    for number, model in enumerate(MODELS):
        errors = np.where(np.isnan(streamed.error[model]), 1.0, streamed.error[model])
        windows = [errors[(streamed.row >= low) & (streamed.row < high)] for low, high in pairwise(edges)]
        low, middle, high = (np.array([np.quantile(w, share) for w in windows]) for share in (0.25, 0.5, 0.75))
        lines.append(Series(f"{LABELS[model]}: median, quartiles", middles, middle, colour=number, band=(low, high)))
    error = Panel(
        "Online error against the true curve", "rows of a component seen", "relative error", lines,
        log_x=True, log_y=True, percent_y=True, marks_y={PAPER_BOUND: "10 %"},
        x_ticks=(10, 30, 100, 300, 1000, 4000),
    )  # fmt: skip
    shown = [shares for shares in streamed.shares if "latency" not in shares.label]
    bars = Bars(
        [shares.label.replace(", throughput", "").replace(" ", "\n") for shares in shown],
        {"records per second": [shares.throughput_per_s for shares in shown]},
    )
    plans = Panel(
        f"The pipeline on {CORES} cores, on the true curves", "", "throughput (records per second)", bars=bars
    )
    return draw(path, "The paper's setting, streamed through the service", [error, plans])


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place else "left")
    return table
