"""A profile as a picture: an icicle (roots above) or a flame graph (roots below), one SVG file that needs no script.

Widths are inclusive times: of a tree's nodes below each other, so that what is exclusive stays bare. Written by hand, without
matplotlib: a picture of a thousand boxes is text, and a browser shows names and times where the pointer rests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from advisor.errors import InvalidValue
from advisor.profile import layout as at
from advisor.profile.tree import Profile

WIDTH: Final = 1200
ROW: Final = 18
GAP: Final = 10  # between trees
LETTER: Final = 6.6  # wide, at 11 px
LEAST_WIDTH: Final = 0.5  # of a box; narrower ones are left out, and those below them
# Okabe and Ito's colours, lightened: work, overhead, waiting, stubs and threads.
COLOURS: Final = {
    **dict.fromkeys((at.TASK, at.REGION, at.PARALLEL, at.PARAMETER), "#8fc1e3"),
    **dict.fromkeys((at.CREATION, at.MANAGEMENT), "#f0a884"),
    **dict.fromkeys((at.TASKWAIT, at.BARRIER, at.TASKGROUP, at.WAIT, at.IDLE), "#f3d98b"),
    at.STUB: "#bfe3d4",
    at.THREAD: "#d5d5d5",
    at.OVERFLOW: "#d5d5d5",
}


@dataclass(frozen=True, slots=True)
class Box:
    """A node's place: left and width in pixels, and its depth."""

    node: int
    left: float
    width: float
    depth: int


def draw_profile(path: Path, title: str, profile: Profile, *, flame: bool = False) -> Path:
    """Draw the trees of a profile one after another, tasks first, into an SVG file; return its path.

    Raises
    ------
    InvalidValue
        When the file is no .svg, or cannot be written.
    """
    if path.suffix != ".svg":
        raise InvalidValue("picture", str(path), "a file that ends in .svg")
    try:
        path.write_text(svg(title, profile, flame=flame), encoding="utf-8")
    except OSError as error:
        raise InvalidValue("picture", str(path), f"a file that can be written ({error.strerror})") from error
    return path


def svg(title: str, profile: Profile, *, flame: bool = False) -> str:
    """Return the picture as SVG text."""
    top = 28.0
    parts: list[str] = []
    for root in (*profile.roots(at.TASK), *profile.roots(at.THREAD), *profile.roots(at.OVERFLOW)):
        boxes = list(layout(profile, root))
        if not boxes:
            continue
        levels = 1 + max(box.depth for box in boxes)
        for box in boxes:
            row = levels - 1 - box.depth if flame else box.depth
            parts.append(_drawn(profile, box, top + row * ROW))
        top += levels * ROW + GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top:.0f}" viewBox="0 0 {WIDTH} {top:.0f}" '
        'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="4" y="17" font-size="14">{escape(title)}</text>'
    )
    return head + "".join(parts) + "</svg>\n"


def layout(profile: Profile, root: int) -> Iterator[Box]:
    """Yield the boxes of a tree, each as wide as its share of the longest tree's inclusive time."""
    roots = (*profile.roots(at.TASK), *profile.roots(at.THREAD))
    longest = max((int(profile.inclusive_ns[each]) for each in roots), default=0)
    if longest <= 0:
        return
    scale = WIDTH / longest
    stack = [Box(root, 0.0, int(profile.inclusive_ns[root]) * scale, 0)]
    while stack:
        box = stack.pop()
        if box.width < LEAST_WIDTH:
            continue
        yield box
        left = box.left
        for below in profile.children[box.node]:
            width = int(profile.inclusive_ns[below]) * scale
            stack.append(Box(below, left, width, box.depth + 1))
            left += width


def _drawn(profile: Profile, box: Box, top: float) -> str:
    label = profile.label(box.node)
    role = at.ROLE_NAMES[int(profile.role[box.node])]
    inclusive_s, exclusive_s = (int(ns[box.node]) * 1e-9 for ns in (profile.inclusive_ns, profile.exclusive_ns))
    visits = int(profile.count[box.node])
    told = f"{label} ({role}): {visits:,} visits, {inclusive_s:.4g} s inclusive, {exclusive_s:.4g} s exclusive"
    room = int((box.width - 6) / LETTER)
    text = label if len(label) <= room else f"{label[: room - 1]}…" if room > 2 else ""
    words = f'<text x="{box.left + 3:.2f}" y="{top + 13:.1f}">{escape(text)}</text>' if text else ""
    return (
        f'<g><title>{escape(told)}</title><rect x="{box.left:.2f}" y="{top:.1f}" width="{box.width:.2f}" height="{ROW - 1}" '
        f'fill="{COLOURS[int(profile.role[box.node])]}" stroke="white" stroke-width="0.5"/>{words}</g>'
    )
