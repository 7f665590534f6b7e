"""A profile as one HTML file: an icicle or a flame graph that one clicks into and searches. No server, network or library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from advisor.domain.wording import seconds
from advisor.errors import InvalidValue
from advisor.pictures.pages import ROWS_SHOWN, packed, page, shortened_table
from advisor.pictures.roles import BANDS, COLOURS, LEGEND, OTHER
from advisor.profile.diagnosis import diagnose
from advisor.profile.tree import Profile
from advisor.simulation.words import reported_time

HELP = (
    "A click shows a box alone, Escape all; wheel or + and − zoom, drag or arrow keys move, pointing or n and p name a box. "
    "A box is as wide as its time, with all that it called below it."
)
MARGINS = (14, 14)  # left and right of the boxes
ROW = 20  # dots of a level of calls
WORDS = {colour: words for words, colour in LEGEND}
NOTHING = "Nothing stands out that costs much time."
NO_TASK = "No task yet: what tasks did appears as their events arrive, in the order of their times."
NO_VISITS = -1.0  # of a band, which is no node


def draw_profile(path: Path, title: str, profile: Profile, *, flame: bool = False) -> Path:
    """Draw the trees of a profile as an HTML page that zooms; return its path.

    Raises InvalidValue when the file is no .html, or cannot be written.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        raise InvalidValue("picture", str(path), "a file that ends in .html")
    try:
        path.write_text(profile_page(title, profile, flame=flame), encoding="utf-8")
    except OSError as error:
        raise InvalidValue("picture", str(path), f"a file that can be written ({error.strerror})") from error
    return path


def profile_page(title: str, profile: Profile, *, flame: bool = False) -> str:
    """Return the page of a profile: tasks, threads and what is beyond the cap side by side, about 60 bytes a node."""
    palette = [colour for _, colour in LEGEND]
    found = [(heading, [root for role in roles for root in profile.roots(role)]) for heading, roles in BANDS]
    bands: list[tuple[str, float, float]] = []
    names: dict[str, int] = {}
    rows: list[tuple[int, float, float, float, int, int, float]] = []
    left = 0.0
    for heading, roots in found:
        if not roots:
            continue
        nodes = list(_preorder(profile, roots, left))
        right = left + float(profile.inclusive_ns[roots].sum())
        bands.append((heading, left, right))
        rows.append((0, left, right, 0.0, palette.index(OTHER), names.setdefault(heading, len(names)), NO_VISITS))
        for node, start, depth in nodes:
            end, kind = start + float(profile.inclusive_ns[node]), palette.index(COLOURS[int(profile.role[node])])
            name = names.setdefault(profile.label(node), len(names))
            rows.append((depth, start, end, float(profile.exclusive_ns[node]), kind, name, float(profile.count[node])))
        left = right
    depth, start, end, own, kind, label, visits = np.array(rows, np.float64).reshape(-1, 7).T
    levels = int(depth.max(initial=0.0)) + 1
    row = levels - 1 - depth if flame else depth
    order = np.lexsort((start, row))
    data = {
        "rows": levels, "tall": ROW, "fromBelow": flame, "rowName": "", "noun": "boxes", "margins": MARGINS, "lengths": True,
        "end": left or 1.0, "least": min(left or 1.0, 1.0),
        "unit": "ns", "seconds": 1e-9, "decimals": 0,
        "palette": palette, "kinds": [words for words, _ in LEGEND], "bands": bands,
        "from": packed(start[order]), "to": packed(end[order]), "own": packed(own[order]), "visits": packed(visits[order]),
        "row": packed(row[order].astype(np.uint32)), "kind": packed(kind[order].astype(np.uint8)),
        "names": list(names), "label": packed(label[order].astype(np.uint32)),
        "reasons": [finding.text for finding in diagnose(profile)] or [NOTHING if profile.measures.creates else NO_TASK],
        "tables": [*_measures(profile), _paths(profile)],
    }  # fmt: skip
    reported = ", ".join(f"{heading} {seconds((right - left) * 1e-9)}" for heading, left, right in bands)
    return page(f"{title}: {reported}" if reported else title, data, HELP)


def _measures(profile: Profile) -> list[Any]:
    """Return in words where the workers' time went, what the run was, and its task types, those with most time first."""
    m = profile.measures
    times = (
        ("work", m.work_s), ("creation, management", m.creation_s + m.management_s),
        ("waits though tasks are ready", m.delay_s), ("nothing to do", m.no_work_s),
    )  # fmt: skip
    went = [(name, seconds(time), f"{100 * time / (m.workers_s or 1.0):.1f} %") for name, time in times]
    run = [
        ("elapsed", seconds(m.elapsed_s)), ("workers", f"{m.workers_max:,}"), ("tasks", f"{m.ends:,} of {m.creates:,} ended"),
        ("longest path: no number of cores ends sooner", seconds(m.span_s)),
        ("parallelism: work over the longest path", f"{m.parallelism:.3g}"),
    ]  # fmt: skip
    types = [
        (name, f"{kind['count']:,}", seconds(kind["mean_s"]), seconds(kind["total_s"]), kind["verdict"], kind["why"])
        for name, kind in sorted(profile.types.items(), key=lambda each: -each[1]["total_s"])
    ]
    return [
        ("Where the workers' time went", ["", "time", "of all"], went), ("The run", ["", ""], run),
        shortened_table("Task types", ["type", "instances", "each", "in all", "verdict", "why"], types),
    ]  # fmt: skip


def _paths(profile: Profile) -> Any:
    """Return the call paths with most time of their own, in words."""
    order: list[int] = np.argsort(-profile.exclusive_ns, kind="stable").tolist()

    rows: list[list[str]] = []
    for node in order[:ROWS_SHOWN]:
        labels, root = [profile.label(node)], node
        while profile.parent[root] >= 0:
            root = int(profile.parent[root])
            labels.append(profile.label(root))
        heading, roles = next(band for band in BANDS if int(profile.role[root]) in band[1])
        whole = float(sum(profile.inclusive_ns[each] for role in roles for each in profile.roots(role)))
        inclusive, own = float(profile.inclusive_ns[node]), float(profile.exclusive_ns[node])
        rows.append([
            " › ".join([heading, *reversed(labels)]), WORDS[COLOURS[int(profile.role[node])]], f"{profile.count[node]:,}",
            reported_time(inclusive, "ns"), reported_time(own, "ns"), f"{100 * own / whole:.1f} %" if whole else "–",
        ])  # fmt: skip
    return shortened_table(
        "Call paths, most time of their own first", ["call path", "kind", "visits", "inclusive", "own", "own, of all"],
        rows, len(order),
    )  # fmt: skip


def _preorder(profile: Profile, roots: list[int], left: float) -> Iterator[tuple[int, float, int]]:
    """Yield (node, nanoseconds before it, depth), each node before those that are part of it."""
    stack: list[tuple[int, float, int]] = []
    for root in roots:
        stack.append((root, left, 1))
        left += float(profile.inclusive_ns[root])
        while stack:
            node, start, depth = stack.pop()
            yield node, start, depth
            below: list[tuple[int, float, int]] = []
            for child in profile.children[node]:
                below.append((child, start, depth + 1))
                start += float(profile.inclusive_ns[child])
            stack.extend(reversed(below))
