"""The board: components with their curves, networks, answers, how predictions fare; live, or as one file that stands alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.pictures.pages import Document, document

PROGRAMS = ("words", "chart", "board")


def board(title: str, data: Mapping[str, Any] | None) -> Document:
    """Return the page: with `data` it stands alone, without it asks the service that it came from.

    `data`: ``topics`` as the service sends them, ``cards`` and ``views`` of components (`advisor.pictures.views`), ``networks``
    by name (`advisor.pictures.boxes`), and ``about``: what the file tells of, in words.
    """
    return document("board", PROGRAMS, {"TITLE": title}, data, "" if data is not None else "; connect-src 'self'")
