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
from collections.abc import Mapping
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray


def page(title: str, chart: str, data: Mapping[str, Any], help_text: str) -> str:
    """Return a page.

    Parameters
    ----------
    title : str
    chart : str
        Which program draws: ``gantt`` or ``profile``.
    data : mapping
        What it draws, as JSON has it; arrays `packed`.
    help_text : str
        What the reader is told first, one line.
    """
    script, style = f"\n{_part('page.js')}{_part(f'{chart}.js')}", f"\n{_part('page.css')}"
    places = {
        "TITLE": html.escape(title),
        "HELP": html.escape(help_text),
        "STYLE": style,
        "STYLE_HASH": _digest(style),
        "SCRIPT": script,
        "SCRIPT_HASH": _digest(script),
        # No tag can begin in it, and JSON reads it as the same.
        "DATA": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
    }
    # In one pass: what a title or a name says is never taken for a place of the page.
    return re.sub(r"\{\{([A-Z_]+)\}\}", lambda found: places[found.group(1)], _part("page.html"))


def packed(values: NDArray[np.generic]) -> str:
    """Return an array's bytes, little-endian, in base64."""
    little = values.astype(values.dtype.newbyteorder("<"))
    return base64.b64encode(np.ascontiguousarray(little).tobytes()).decode("ascii")


def _part(name: str) -> str:
    return resources.files("advisor.pictures").joinpath("page", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"
