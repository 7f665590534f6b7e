"""Profiles as trees for people, or as JSON for programs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from rich.markup import escape
from rich.text import Text

from advisor.cli import show, tables
from advisor.profile import layout as at
from advisor.profile.comparison import Comparison, compare
from advisor.profile.diagnosis import diagnose
from advisor.profile.measures import Measures
from advisor.profile.tree import Profile

ERROR_OF = {
    "support points": "refined_points",
    "clusters": "clusters",
}  # of the total, by model; else of the first's time
BOUNDED_CORES = (1, 2, 4, 8, 16, 32, 64)
IN_LINE = 1.05  # parallelism below which a run of one worker tells nothing of what could run beside


def profiles(found: list[tuple[str, Profile]], depth: int, least: float, *, as_json: bool) -> None:
    """Print one profile, its measures and what is wrong with it; several side by side."""
    beside = compare(found) if len(found) > 1 else None
    if as_json:
        listed = [
            {"name": name, "profile": profile.as_dict(), "diagnosis": [each.as_dict() for each in diagnose(profile)]}
            for name, profile in found
        ]
        show.put_json({"profiles": listed} | ({"comparison": beside.as_dict()} if beside else {}))
        return
    if beside is not None:
        _comparison(beside)
        return
    ((_, profile),) = found
    tree(profile, depth, least)
    measures(profile)
    task_types(profile)
    for finding in diagnose(profile):
        tables.say(Text.assemble((finding.code, "bold"), f": {finding.text}"))
    if profile.notes:
        notes = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in profile.notes.items())
        tables.say(f"missing or put right: {notes}", "dim")


def tree(profile: Profile, depth: int, least: float) -> None:
    """Print the trees of a profile, tasks first."""
    headings = ("call path", "visits", "inclusive", "exclusive", "mean", "min", "max", "sd", "active")
    columns = tables.table(*headings, *profile.metrics)
    total = max(int(profile.exclusive_ns[profile.role != at.STUB].sum()), 1)
    hidden = 0
    for root in (*profile.roots(at.TASK), *profile.roots(at.THREAD), *profile.roots(at.OVERFLOW)):
        for node, level in profile.walk(root):
            if (depth and level >= depth) or profile.inclusive_ns[node] < least * total:
                hidden += 1
                continue
            columns.add_row("  " * level + escape(_label(profile, node)), *_numbers(profile, node))
    tables.put(columns)
    if hidden:
        tables.say(f"{show.several(hidden, 'node')} not shown, see --depth and --least", "dim")


def measures(profile: Profile) -> None:
    """Print where the workers' time went, and how far more cores would carry."""
    m = profile.measures
    parts = (
        ("work", m.work_s), ("creation", m.creation_s), ("management", m.management_s), ("delay", m.delay_s),
        ("no work", m.no_work_s), ("unaccounted", m.unaccounted_s),
    )  # fmt: skip
    shares = ", ".join(f"{name} {show.percent(part / m.workers_s)}" for name, part in parts if m.workers_s)
    workers = show.several(m.workers_max, "worker")
    tables.say(f"{show.several(m.ends, 'task')} in {show.seconds(m.elapsed_s)} on {workers}: {shares}")
    for line in _paths(m):
        tables.say(line)


def _paths(m: Measures) -> Iterator[str]:
    """Yield what the longest path says, and where it comes from."""
    if m.span_s > 0.0 and m.summed:
        yield (
            f"span at least {show.seconds(m.span_s)}, parallelism at most {m.parallelism:.3g}: {m.summed:,} of "
            f"{show.several(m.ends, 'task')} came as sums, which tell no path through them (--mode full tells all)"
        )
    elif m.span_s > 0.0:
        yield (
            f"span {show.seconds(m.span_s)}, burdened {show.seconds(m.burdened_span_s)}: "
            f"parallelism {m.parallelism:.3g}, burdened {m.burdened_parallelism:.3g}"
        )
        bounds = ", ".join(
            f"{bound.cores}: {bound.speedup_low:.3g} to {bound.speedup_high:.3g}" for bound in m.bounds(BOUNDED_CORES)
        )
        yield f"speedup on cores, at least and at most: {bounds}"
    if m.at_once and not m.summed:
        yield (
            f"{m.at_once:,} of {show.several(m.creates, 'task')} ran within their creation, as OpenMP runs those of a team "
            "of one thread: span and parallelism are the program's own, as if they had been deferred"
        )
    if m.in_order:
        yield (
            f"{show.several(m.in_order, 'task')} with dependences, which OpenMP does not report on one thread: they count as "
            "run in the order of their creation, the parallelism is at least what is said; two threads show them"
        )
    elif m.ends and not m.at_once and not m.summed and m.workers_max == 1 and m.parallelism < IN_LINE:
        yield (
            "one worker ran each task within its creation, as OpenMP does on one thread: the span is that of this run. For the "
            "program's own, record it (--record FILE) and ask `advisor simulate FILE`"
        )


def task_types(profile: Profile) -> None:
    """Print what instances of each task type take, and which model says so best (paper 2)."""
    if not profile.types:
        return
    rows = tables.table(
        "task type", "verdict", "instances", "mean", "varies", "one time", "ask for", "errs", text_columns=2,
    )  # fmt: skip
    ended = {profile.names[root]: int(profile.count[root]) for root in profile.roots(at.TASK)}
    for name, kind in profile.types.items():
        errors = kind["errors"]
        error = errors.get(ERROR_OF.get(kind["model"], "first"))
        ask = kind.get("ask", kind["model"])
        rows.add_row(
            escape(name), kind["verdict"], _seen(kind, ended.get(name)), show.seconds(kind["mean_s"]),
            show.percent(kind["deviation"]), show.percent(errors.get("first")), ask, show.percent(error),
        )  # fmt: skip
    tables.put(rows)
    for name, kind in profile.types.items():
        if kind["verdict"] != "regular":
            tables.say(f"{name}: {kind['why']}{_question(name, kind)}", "dim")


def _question(name: str, kind: Mapping[str, Any]) -> str:
    """Return how a service is asked for the model that a type's report names."""
    if "ask" not in kind:
        return ""  # a profile that was written before
    workers = " --active-cores W" if kind["verdict"] == "contended" else ""
    size = " --predictor SIZE" if kind["sized"] else ""
    return f"; advisor predict {shlex.quote(name)}{size}{workers} --model {shlex.quote(kind['ask'])}"


def _seen(kind: Mapping[str, Any], ended: int | None) -> str:
    """Return how many instances there were, which the tree knows, and how many were looked at where these are a sample."""
    count = kind["count"]
    seen = kind.get("seen", count)
    return f"{count:,}" if seen == count else f"{ended or count:,} (from {seen:,})"


def _comparison(beside: Comparison) -> None:
    headings = [f"{name} ({threads})" for name, threads in zip(beside.names, beside.threads, strict=True)]
    columns = tables.table("exclusive time", "inside", *headings, "", text_columns=2)
    for line in beside.lines:
        name = line.name if line.role == line.name else f"{line.name} ({line.role})"
        texts = [show.seconds(seconds) for seconds in line.seconds]
        columns.add_row(escape(name), escape(line.inside), *texts, "grows" if line.grows else "")
    tables.put(columns)
    tables.say(beside.text)


def _label(profile: Profile, node: int) -> str:
    role = int(profile.role[node])
    label = profile.label(node)
    plain = role in (at.REGION, at.PARAMETER, at.THREAD, at.IDLE, at.OVERFLOW) or label == at.ROLE_NAMES[role]
    return label if plain else f"{label} ({at.ROLE_NAMES[role]})"


def _numbers(profile: Profile, node: int) -> list[Any]:
    count = int(profile.count[node])
    texts = [f"{count:,}" + (f"+{int(profile.open[node])}" if profile.open[node] else "")]
    texts += [show.seconds(int(ns) * 1e-9) for ns in (profile.inclusive_ns[node], profile.exclusive_ns[node])]
    active = f"{int(profile.active_max[node])}" if profile.active_max[node] else ""
    counted = [f"{values[node]:.4g}" for values in profile.metrics.values()]
    if not count:
        return [*texts, "–", "–", "–", "–", active, *counted]
    spread = float(profile.variance_ns2[node]) ** 0.5
    each = (float(profile.mean_ns[node]), int(profile.least_ns[node]), int(profile.most_ns[node]), spread)
    return [*texts, *(show.seconds(ns * 1e-9) for ns in each), active, *counted]
