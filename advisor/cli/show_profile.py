"""Profiles as trees and tables."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from advisor.cli.tables import Column, Printed, dim, format_count, percent, seconds, several, table
from advisor.profile import layout as at
from advisor.profile.diagnosis import Finding
from advisor.profile.measures import Measures
from advisor.profile.tree import Profile

BOUNDED_CORES = (1, 2, 4, 8, 16, 32, 64)


def one(profile: Profile, findings: Sequence[Finding], depth: int, least: float) -> Iterator[Printed]:
    """Yield what is wrong with a run, its measures, and its trees."""
    for finding in findings:
        yield Text.assemble((finding.code, "bold"), f": {finding.text}")
    yield from _measures(profile.measures)
    yield from _task_types(profile)
    if profile.notes:
        notes = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in profile.notes.items())
        yield dim(f"missing or put right: {notes}")
    yield from _tree(profile, depth, least)


def _tree(profile: Profile, depth: int, least: float) -> Iterator[Printed]:
    """Yield the trees of a profile, tasks first."""
    total = max(int(profile.exclusive_ns[profile.role != at.STUB].sum()), 1)
    roots = (*profile.roots(at.TASK), *profile.roots(at.THREAD), *profile.roots(at.OVERFLOW))
    nodes = [found for root in roots for found in profile.walk(root)]
    shown = [(node, level) for node, level in nodes
             if (not depth or level < depth) and profile.inclusive_ns[node] >= least * total]  # fmt: skip
    times = {
        "inclusive": profile.inclusive_ns, "exclusive": profile.exclusive_ns, "mean": profile.mean_ns,
        "min": profile.least_ns, "max": profile.most_ns, "sd": profile.variance_ns2**0.5,
    }  # fmt: skip

    def visits(row: tuple[int, int]) -> str:
        ended, running = int(profile.count[row[0]]), int(profile.open[row[0]])
        return f"{ended:,}" + (f"+{running}" if running else "")

    def of(name: str) -> Column:
        def time(row: tuple[int, int]) -> float | None:
            known = profile.count[row[0]] or name.endswith("clusive")
            return float(times[name][row[0]]) * 1e-9 if known else None

        return Column(name, time, seconds)

    yield table(
        [
            Column("call path", lambda row: "  " * row[1] + _label(profile, row[0])), Column("visits", visits, str),
            *map(of, times), Column("active", lambda row: int(profile.active_max[row[0]]) or "", str),
        ],
        shown,
    )  # fmt: skip
    if hidden := len(nodes) - len(shown):
        yield dim(f"{several(hidden, 'node')} not shown, see --depth and --least")


def _label(profile: Profile, node: int) -> str:
    role = int(profile.role[node])
    label = profile.label(node)
    plain = role in (at.REGION, at.PARAMETER, at.THREAD, at.IDLE, at.OVERFLOW) or label == at.ROLE_NAMES[role]
    return label if plain else f"{label} ({at.ROLE_NAMES[role]})"


def _measures(m: Measures) -> Iterator[str]:
    """Yield where the workers' time went, and how far more cores would carry."""
    parts = (
        ("work", m.work_s), ("creation", m.creation_s), ("management", m.management_s), ("delay", m.delay_s),
        ("no work", m.no_work_s), ("unaccounted", m.unaccounted_s),
    )  # fmt: skip
    shares = ", ".join(f"{name} {percent(part / m.workers_s)}" for name, part in parts if m.workers_s)
    yield f"{several(m.ends, 'task')} in {seconds(m.elapsed_s)} on {several(m.workers_max, 'worker')}: {shares}"
    yield from _paths(m)


def _paths(m: Measures) -> Iterator[str]:
    """Yield what the longest path says, and where it comes from."""
    if m.span_s > 0.0 and m.summed:
        yield (
            f"span at least {seconds(m.span_s)}, parallelism at most {m.parallelism:.3g}: {m.summed:,} of "
            f"{several(m.ends, 'task')} came as sums, which tell no path through them (--mode full tells all)"
        )
    elif m.span_s > 0.0:
        yield (
            f"span {seconds(m.span_s)}, burdened {seconds(m.burdened_span_s)}: "
            f"parallelism {m.parallelism:.3g}, burdened {m.burdened_parallelism:.3g}"
        )
        bounds = ", ".join(
            f"{bound.cores}: {bound.speedup_low:.3g} to {bound.speedup_high:.3g}" for bound in m.bounds(BOUNDED_CORES)
        )
        yield f"speedup on cores, at least and at most: {bounds}"
    if m.at_once and not m.summed:
        yield (
            f"{m.at_once:,} of {several(m.creates, 'task')} ran within their creation, as OpenMP runs those of a team "
            "of one thread: span and parallelism are the program's own, as if they had been deferred"
        )
    if m.in_order:
        yield (
            f"{several(m.in_order, 'task')} with dependences, which OpenMP does not report on one thread: they count as "
            "run in the order of their creation, the parallelism is at least what is said; two threads show them"
        )


def _task_types(profile: Profile) -> Iterator[Printed]:
    """Yield what instances of each task type take, and which model says so best (paper 2)."""
    if not profile.types:
        return
    ended = {profile.names[root]: int(profile.count[root]) for root in profile.roots(at.TASK)}
    rows = [
        {"name": name, **kind, "seen_of": _seen(kind, ended.get(name)), "first": kind["errors"].get("first"),
         "error": kind["errors"].get(kind["ask"], kind["errors"].get("first"))}
        for name, kind in profile.types.items()
    ]  # fmt: skip
    yield table(
        [
            Column("task type", "name"), Column("verdict", "verdict"), Column("instances", "seen_of", str),
            Column("mean", "mean_s", seconds), Column("varies", "deviation", percent),
            Column("one time", "first", percent), Column("ask for", "ask", str), Column("errs", "error", percent),
        ],
        rows,
    )  # fmt: skip
    for name, kind in profile.types.items():
        if kind["verdict"] != "regular":
            yield dim(f"{name}: {kind['why']}{_question(name, kind)}")


def _question(name: str, kind: Mapping[str, Any]) -> str:
    """Return how a service is asked for the model that a type's report names."""
    size = " --predictor SIZE" if kind["sized"] else ""
    return f"; advisor predict {shlex.quote(name)}{size} --model {shlex.quote(kind['ask'])}"


def _seen(kind: Mapping[str, Any], ended: int | None) -> str:
    """Return how many instances there were, which the tree knows, and how many were looked at where these are a sample."""
    known, seen = kind["count"], kind["seen"]
    return f"{known:,}" if seen == known else f"{ended or known:,} (from {seen:,})"


RUNS = (
    Column("producer", lambda run: run["producer"] or "(none)"), Column("incarnation", "incarnation"),
    Column("events", "events", format_count),
    Column("notes", lambda run: ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in run["notes"].items())),
)  # fmt: skip


def runs(found: Sequence[Mapping[str, Any]]) -> Iterator[Printed]:
    """Yield the runs whose profile a service keeps."""
    yield table(RUNS, found) if found else "no run of tasks was sent yet"
