"""JSON: what states and their journals hold, what commands and pages show."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from advisor.domain.shapes import plain_form


def read_json(data: bytes, object_hook: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    """Return what JSON in UTF-8 says, all of whose text can be written again; raises ValueError where it is not. Cost O(bytes).

    `json.loads` of bytes takes halves of surrogate pairs, encoded or escaped, which no state can be written with.
    """
    text = bytes(data).decode()
    found = json.loads(text, object_hook=object_hook)
    if "\\u" in text:
        json.dumps(found, ensure_ascii=False, default=str).encode()
    return found


def as_json(value: Any) -> bytes:
    """Return a value as JSON in UTF-8, on one line: what is not finite is null, bytes are base64. Cost O(size)."""
    return msgspec.json.encode(value, enc_hook=plain_form)
