"""A profile as one HTML file: an icicle or a flame graph that one clicks into and searches. No server, network or library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from advisor.domain.wording import seconds
from advisor.errors import InvalidValue
from advisor.pictures.pages import packed, page
from advisor.pictures.roles import BANDS, COLOURS, LEGEND, OTHER
from advisor.profile.diagnosis import diagnose
from advisor.profile.tree import Profile

HELP = (
    "A click shows a box alone, Escape all; wheel or + and − zoom, drag or arrow keys move, pointing or n and p name a box. "
    "A box is as wide as its time, with all that it called below it."
)
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
    bands = [(heading, [root for role in roles for root in profile.roots(role)]) for heading, roles in BANDS]
    bands = [(heading, roots) for heading, roots in bands if roots]
    spans = [float(sum(int(profile.inclusive_ns[root]) for root in roots)) for _, roots in bands]
    labels: dict[str, int] = {}
    rows: list[tuple[float, float, float, int, int, int, float, int]] = []
    left = 0.0
    for place, ((heading, roots), span) in enumerate(zip(bands, spans, strict=True)):
        own = labels.setdefault(heading, len(labels))
        rows.append((left, span, 0.0, 0, palette.index(OTHER), own, NO_VISITS, place))
        for node, start, depth in _preorder(profile, roots, left):
            inclusive, exclusive = float(profile.inclusive_ns[node]), float(profile.exclusive_ns[node])
            kind = palette.index(COLOURS[int(profile.role[node])])
            text = labels.setdefault(profile.label(node), len(labels))
            rows.append((start, inclusive, exclusive, depth, kind, text, float(profile.count[node]), place))
        left += span
    before, inclusive, exclusive, depth, kind, label, visits, band = np.array(rows, np.float64).reshape(-1, 8).T
    data = {
        "flame": flame,
        "whole": left,
        "palette": palette,
        "kinds": [words for words, _ in LEGEND],
        "labels": list(labels),
        "diagnosis": [finding.text for finding in diagnose(profile)],
        "bands": [(heading, span) for (heading, _), span in zip(bands, spans, strict=True)],
        "before": packed(before),
        "inclusive": packed(inclusive),
        "exclusive": packed(exclusive),
        "depth": packed(depth.astype(np.uint32)),
        "kind": packed(kind.astype(np.uint8)),
        "label": packed(label.astype(np.uint32)),
        "visits": packed(visits),
        "band": packed(band.astype(np.uint8)),
    }
    reported = ", ".join(f"{heading} {seconds(span * 1e-9)}" for (heading, _), span in zip(bands, spans, strict=True))
    return page(f"{title}: {reported}" if reported else title, "profile", data, HELP)


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
