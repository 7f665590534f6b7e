"""A profile as a picture: an icicle (roots above) or a flame graph (roots below), one SVG file that needs no script, or a page.

Widths are inclusive times, nodes below the one that they are part of, so that what is exclusive stays bare. Trees of tasks
stand side by side, and so do those of threads: their band is p · time wide. Written by hand, without
matplotlib: a picture of a thousand boxes is text, and a browser shows names and times where the pointer rests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from advisor.domain.wording import seconds
from advisor.errors import InvalidValue
from advisor.pictures.profile_page import profile_page
from advisor.pictures.roles import BANDS, COLOURS, LEGEND
from advisor.profile import layout as at
from advisor.profile.tree import Profile

WIDTH: Final = 1200
ROW: Final = 18
HEAD: Final = 46  # of title and legend
GAP: Final = 10  # between bands
LETTER: Final = 6.6  # wide, at 11 px
LEAST_WIDTH: Final = 0.5  # of a box; narrower ones are left out, and those below them


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A node's place: left and width in pixels, and its depth."""

    node: int
    left: float
    width: float
    depth: int


def draw_profile(path: Path, title: str, profile: Profile, *, flame: bool = False) -> Path:
    """Draw the trees of a profile into an SVG file, tasks above threads, or into an HTML page that zooms; return its path.

    Raises InvalidValue when the file is no .svg or .html, or cannot be written.
    """
    if path.suffix.lower() not in (".svg", ".html", ".htm"):
        raise InvalidValue("picture", str(path), "a file that ends in .svg or .html")
    drawn = svg if path.suffix.lower() == ".svg" else profile_page
    try:
        path.write_text(drawn(title, profile, flame=flame), encoding="utf-8")
    except OSError as error:
        raise InvalidValue("picture", str(path), f"a file that can be written ({error.strerror})") from error
    return path


def svg(title: str, profile: Profile, *, flame: bool = False) -> str:
    """Return the picture as SVG text: a band of the tasks' trees, one of the threads', on one scale."""
    top = float(HEAD)
    parts: list[str] = [_legend()]
    scale = _scale(profile)
    for heading, roles in BANDS:
        boxes = list(_band(profile, roles, scale))
        if not boxes:
            continue
        ns = sum(int(profile.inclusive_ns[root]) for role in roles for root in profile.roots(role))
        parts.append(f'<text x="4" y="{top + 12:.0f}" fill="#555">{escape(heading)}: {seconds(ns * 1e-9)}</text>')
        top += ROW
        levels = 1 + max(box.depth for box in boxes)
        for box in boxes:
            row = levels - 1 - box.depth if flame else box.depth
            parts.append(_drawn(profile, box, top + row * ROW))
        top += levels * ROW + GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top:.0f}" viewBox="0 0 {WIDTH} {top:.0f}" '
        f'role="img" font-family="sans-serif" font-size="11"><title>{escape(title)}</title>'
        '<rect width="100%" height="100%" fill="white"/>'
        f'<text x="4" y="17" font-size="14">{escape(title)}</text>'
    )
    return head + "".join(parts) + "</svg>\n"


def _scale(profile: Profile) -> float:
    """Return pixels a nanosecond: the longest band has the whole width."""
    widest = max(
        sum(int(profile.inclusive_ns[root]) for role in roles for root in profile.roots(role)) for _, roles in BANDS
    )
    return WIDTH / widest if widest > 0 else 0.0


def _legend() -> str:
    """Return what the colours mean, below the title, which may be long."""
    parts: list[str] = []
    left = 4.0
    for words, colour in LEGEND:
        parts.append(
            f'<rect x="{left:.1f}" y="26" width="11" height="11" fill="{colour}"/>'
            f'<text x="{left + 15:.1f}" y="35">{escape(words)}</text>'
        )
        left += 30 + LETTER * len(words)
    return "".join(parts)


def _band(profile: Profile, roles: tuple[int, ...], scale: float) -> Iterator[Rectangle]:
    """Yield the boxes of all trees of some roles, side by side."""
    left = 0.0
    for role in roles:
        for root in profile.roots(role):
            yield from layout(profile, root, left, scale)
            left += int(profile.inclusive_ns[root]) * scale


def layout(profile: Profile, root: int, left: float, scale: float) -> Iterator[Rectangle]:
    """Yield the boxes of a tree from `left` on, each as wide as its inclusive time by a scale of pixels a nanosecond."""
    stack = [Rectangle(root, left, int(profile.inclusive_ns[root]) * scale, 0)]
    while stack:
        box = stack.pop()
        if box.width < LEAST_WIDTH:
            continue
        yield box
        left = box.left
        for below in profile.children[box.node]:
            width = int(profile.inclusive_ns[below]) * scale
            stack.append(Rectangle(below, left, width, box.depth + 1))
            left += width


def _drawn(profile: Profile, box: Rectangle, top: float) -> str:
    label = profile.label(box.node)
    role = at.ROLE_NAMES[int(profile.role[box.node])]
    inclusive, exclusive = (seconds(int(ns[box.node]) * 1e-9) for ns in (profile.inclusive_ns, profile.exclusive_ns))
    told = f"{label} ({role}): {int(profile.count[box.node]):,} visits, {inclusive} inclusive, {exclusive} exclusive"
    room = int((box.width - 6) / LETTER)
    text = f"{label}  {inclusive}"
    if len(text) > room:
        text = label if len(label) <= room else f"{label[: room - 1]}…" if room > 2 else ""
    words = f'<text x="{box.left + 3:.2f}" y="{top + 13:.1f}">{escape(text)}</text>' if text else ""
    return (
        f'<g><title>{escape(told)}</title><rect x="{box.left:.2f}" y="{top:.1f}" width="{box.width:.2f}" height="{ROW - 1}" '
        f'fill="{COLOURS[int(profile.role[box.node])]}" stroke="white" stroke-width="0.5"/>{words}</g>'
    )
