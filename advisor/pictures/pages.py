"""Pages that stand alone: one HTML file with its data, its style and its program, which asks no network and no library.

The page's policy lets exactly the program and the style run whose digests it names, and nothing be loaded, so that what a
task is called stays text even where a page that is made from here were to forget an escape.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ROWS_SHOWN = 200  # of a table beside a chart


class Document(NamedTuple):
    """A page, and the policy that it names itself, for a server to send along."""

    html: str
    policy: str


def page(title: str, data: Mapping[str, Any], help_text: str) -> str:
    """Return a page of bars over time.

    `data`: what `page/timeline.js` draws, as JSON has it; arrays `packed`. `help_text`: one line for the reader.
    """
    return document("page", ("words", "timeline"), {"TITLE": title, "HELP": help_text}, data).html


def shortened_table(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], many: int | None = None
) -> tuple[str, Sequence[str], Sequence[Sequence[str]]]:
    """Return a table as a page has it: its first rows, of `many`, and in its title how many there are."""
    many = len(rows) if many is None else many
    return f"{title}, the first {ROWS_SHOWN} of {many}" if many > ROWS_SHOWN else title, heads, rows[:ROWS_SHOWN]


def document(frame: str, programs: Sequence[str], texts: Mapping[str, str], data: Any, more: str = "") -> Document:
    """Return a page of a frame and its style, with programs, texts and data in their places.

    Parameters
    ----------
    frame : str
        Which body and which style.
    programs : sequence of str
        In the order in which they run.
    texts : mapping
        What stands at ``{{NAME}}``.
    data
        As JSON has it.
    more : str
        What the policy allows beside the page's own program and style.
    """
    script = "\n" + "".join(_part(f"{name}.js") for name in programs)
    style = f"\n{_part(f'{frame}.css')}"
    policy = (
        f"default-src 'none'; img-src data:; script-src '{_digest(script)}'; style-src '{_digest(style)}'; base-uri 'none';"
        f" form-action 'none'{more}"
    )
    places = {
        **{name: html.escape(text) for name, text in texts.items()},
        "STYLE": style,
        "SCRIPT": script,
        "POLICY": policy,
        # No tag can begin in it, and JSON reads it as the same.
        "DATA": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
    }
    # In one pass: what a title or a name says is never taken for a place of the page.
    text = re.sub(
        r"\{\{([A-Z_]+)\}\}", lambda found: places[found.group(1)], _part("head.html") + _part(f"{frame}.html")
    )
    return Document(text, policy)


def packed(values: NDArray[np.generic]) -> str:
    """Return an array's bytes, little-endian, in base64."""
    little = values.astype(values.dtype.newbyteorder("<"))
    return base64.b64encode(np.ascontiguousarray(little).tobytes()).decode("ascii")


def _part(name: str) -> str:
    return resources.files("advisor.pictures").joinpath("page", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"
