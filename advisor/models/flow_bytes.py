"""The counts of a network as bytes, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from advisor.domain.json_bytes import read_json
from advisor.models.flow import KEY_FIELDS, FlowCounts, Open

FORMAT = 1


def to_bytes(counts: FlowCounts) -> bytes:
    """Return the state; equal states give equal bytes. Cost O(keys + open records)."""
    k = len(counts.keys)
    header = {
        "format": FORMAT, "places": counts.places, "keys": counts.keys, "n": counts.n,
        "entered_square": counts.entered_square.hex(),
        "passes": [[c, sorted(known.items())] for c, known in sorted(counts.passes.items())],
        "replicas": [[key, sorted(known.items())] for key, known in sorted(counts.replicas.runs.items())],
        "closed": list(counts.closed.items()),
        "open": [[record, one.plain()] for record, one in counts.open.items()],
    }  # fmt: skip
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    columns = [counts.counts[field][:k].astype("<i8").tobytes() for field in KEY_FIELDS]
    return len(text).to_bytes(4, "little") + text + b"".join(columns) + counts.square[:k].astype("<f8").tobytes()


def from_bytes(name: str, data: bytes) -> FlowCounts:
    """Return the counts of network `name` whose `to_bytes` gave `data`; ValueError, KeyError, TypeError where it is none."""
    size = int.from_bytes(data[:4], "little")
    header: dict[str, Any] = read_json(data[4 : 4 + size])
    if header["format"] != FORMAT:
        raise ValueError(f"flow of format {header['format']}; this version reads {FORMAT}")
    found = FlowCounts(name, header["places"])
    found.numbers_of(header["keys"])
    k = len(found.keys)
    words = np.frombuffer(data, "<i8", (len(KEY_FIELDS) + 1) * k, 4 + size).reshape(len(KEY_FIELDS) + 1, k)
    for field, column in zip(KEY_FIELDS, words, strict=False):
        found.counts[field][:k] = column
    found.square[:k] = words[-1].view("<f8")
    found.entered_square = float.fromhex(header["entered_square"])
    found.n = {field: int(cast("Mapping[str, int]", header["n"])[field]) for field in found.n}
    found.passes = {c: dict(map(tuple, known)) for c, known in header["passes"]}
    found.replicas.runs = {key: dict(map(tuple, known)) for key, known in header["replicas"]}
    found.closed = dict(map(tuple, header["closed"]))
    for record, (weight, last, passes, waiting) in header["open"]:
        one = found.open[record] = Open(last)
        one.weight, one.passes, one.waiting = weight, dict(map(tuple, passes)), list(waiting)
    return found
