"""A profile as one HTML file: an icicle that one clicks into and searches. No server, network or library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from advisor.domain.wording import seconds
from advisor.errors import InvalidValue
from advisor.pictures.pages import document
from advisor.profile import layout as at
from advisor.profile.diagnosis import diagnose
from advisor.profile.tree import Profile
from advisor.simulation.words import reported_time

HELP = (
    "A box is as wide as its time, with all that it called below it. A click shows it alone, Escape all; pointing or the tab "
    "key names it."
)
# Okabe and Ito's colours, most lightened, as far from each other as colour-blind readers need them, and from white.
WORK, OVERHEAD, WAITING, STUB, OTHER = "#8fc1e3", "#f0a884", "#f3d98b", "#cc79a7", "#d0d0d0"
COLOURS: Final = {
    **dict.fromkeys((at.TASK, at.REGION, at.PARALLEL, at.PARAMETER), WORK),
    **dict.fromkeys((at.CREATION, at.MANAGEMENT), OVERHEAD),
    **dict.fromkeys((at.TASKWAIT, at.BARRIER, at.TASKGROUP, at.WAIT, at.IDLE), WAITING),
    at.STUB: STUB,
    at.THREAD: OTHER,
    at.OVERFLOW: OTHER,
}
LEGEND: Final = (
    ("work", WORK), ("creation, management", OVERHEAD), ("waiting", WAITING), ("tasks run there", STUB), ("thread", OTHER),
)  # fmt: skip
BANDS: Final = (("tasks", (at.TASK,)), ("threads", (at.THREAD,)), ("beyond the cap", (at.OVERFLOW,)))
ROWS_SHOWN = 200  # of a table below the chart
ROW = 20  # dots of a level of calls
WORDS = {colour: words for words, colour in LEGEND}
NOTHING = "Nothing stands out that costs much time."
NO_TASK = "No task yet: what tasks did appears as their events arrive, in the order of their times."
NO_VISITS = -1.0  # of a band, which is no node


def draw_profile(path: Path, title: str, profile: Profile) -> Path:
    """Draw the trees of a profile as an HTML page that zooms; return its path.

    Raises InvalidValue when the file is no .html, or cannot be written.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        raise InvalidValue("picture", str(path), "a file that ends in .html")
    try:
        path.write_text(profile_page(title, profile), encoding="utf-8")
    except OSError as error:
        raise InvalidValue("picture", str(path), f"a file that can be written ({error.strerror})") from error
    return path


def profile_page(title: str, profile: Profile) -> str:
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
    columns = {
        "start": start, "end": end, "own": own, "row": depth, "kind": kind, "label": label,
        "visits": visits,
    }  # fmt: skip
    data = {
        "rows": levels, "tall": ROW, "end": left or 1.0, "palette": palette,
        "kinds": [words for words, _ in LEGEND], "bands": bands, "names": list(names),
        "boxes": {name: values.astype(np.int64).tolist() for name, values in columns.items()},
        "reasons": [finding.text for finding in diagnose(profile)] or [NOTHING if profile.measures.creates else NO_TASK],
        "tables": [*_measures(profile), _paths(profile)],
    }  # fmt: skip
    reported = ", ".join(f"{heading} {seconds((right - left) * 1e-9)}" for heading, left, right in bands)
    texts = {"TITLE": f"{title}: {reported}" if reported else title, "HELP": HELP}
    return document("page", ("words", "icicle"), texts, data).html


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
        _shortened("Task types", ["type", "instances", "each", "in all", "verdict", "why"], types),
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
    return _shortened(
        "Call paths, most time of their own first", ["call path", "kind", "visits", "inclusive", "own", "own, of all"],
        rows, len(order),
    )  # fmt: skip


def _shortened(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], many: int | None = None) -> Any:
    """Return a table: its first rows, of `many`, and in its title how many there are."""
    many = len(rows) if many is None else many
    return f"{title}, the first {ROWS_SHOWN} of {many}" if many > ROWS_SHOWN else title, heads, rows[:ROWS_SHOWN]


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
