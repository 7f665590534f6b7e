"""The page: components with their curves, answers; live, or as one file that stands alone.

It is one HTML file with its style and its program, which asks no network and no library. Its policy lets exactly the program
and the style run whose digests it names, and nothing be loaded, so that a name stays text even where an escape was forgotten.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any, NamedTuple

PROGRAMS = ("words.js", "chart.js", "board.js")  # in the order in which they run


class Document(NamedTuple):
    """A page, and the policy that it names itself, for a server to send along."""

    html: str
    policy: str


def board(title: str, data: Mapping[str, Any] | None) -> Document:
    """Return the page: with `data` it stands alone, without it asks the service that it came from.

    `data`: ``views`` of components (`advisor.pictures.views`), and
    ``about``: what the file tells of, in words.
    """
    script = "\n" + "".join(map(_part, PROGRAMS))
    style = "\n" + _part("board.css")
    connected = "" if data is not None else "; connect-src 'self'"
    policy = (
        f"default-src 'none'; img-src data:; script-src '{_digest(script)}'; style-src '{_digest(style)}'; base-uri 'none';"
        f" form-action 'none'{connected}"
    )
    places = {
        "TITLE": html.escape(title),
        "STYLE": style,
        "SCRIPT": script,
        "POLICY": policy,
        # No tag can begin in it, and JSON reads it as the same.
        "DATA": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
    }
    # In one pass: what a title or a name says is never taken for a place of the page.
    text = re.sub(r"\{\{([A-Z_]+)\}\}", lambda found: places[found[1]], _part("head.html") + _part("board.html"))
    return Document(text, policy)


def _part(name: str) -> str:
    return resources.files("advisor.pictures").joinpath("page", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"
