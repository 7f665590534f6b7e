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


class Document(NamedTuple):
    """A page, and the policy that it names itself, for a server to send along."""

    html: str
    policy: str


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


def _part(name: str) -> str:
    return resources.files("advisor.pictures").joinpath("page", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"
