"""JSON as it stands in states and their journals."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def read_json(data: bytes, object_hook: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    """Return what JSON in UTF-8 says, all of whose text can be written again; raises ValueError where it is not. Cost O(bytes).

    `json.loads` of bytes takes halves of surrogate pairs, encoded or escaped, which no state can be written with.
    """
    text = bytes(data).decode()
    found = json.loads(text, object_hook=object_hook)
    if "\\u" in text:
        json.dumps(found, ensure_ascii=False, default=str).encode()
    return found
