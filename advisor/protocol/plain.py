"""The plain form of a batch, looked at in a microsecond: a numbered `observe_rows` and no more; and its answer."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from advisor.domain.limits import ROWS_BATCH_MAX
from advisor.protocol.framing import pack
from advisor.protocol.verbs import NO_INCARNATION

# [1, msgid, nil, {accepted, refused, sequence}], msgid and sequence in one width each.
_NONE_REFUSED = b"\xa7refused" + pack({"count": 0, "by_code": {}, "first": []}) + b"\xa8sequence\xcf"
_ACCEPTED = tuple(b"\xc0\x83\xa8accepted" + pack(rows) + _NONE_REFUSED for rows in range(ROWS_BATCH_MAX + 1))
_U32, _U64 = struct.Struct(">I").pack, struct.Struct(">Q").pack


class PlainBatch(NamedTuple):
    """A batch whose form is as it should be; its rows are not looked at yet."""

    key: tuple[str, bytes]
    sequence: int
    rows: list[Any]


def plain_batch(params: Sequence[Any]) -> PlainBatch | None:
    """Return the parameters of an `observe_rows` that is numbered, and says no more; None: `check_params` looks closely."""
    if len(params) != 1 or type(params[0]) is not dict:
        return None
    batch = cast("dict[Any, Any]", params[0])
    producer, sequence, rows = batch.get("producer"), batch.get("sequence"), batch.get("rows")
    incarnation = batch.get("incarnation", NO_INCARNATION)
    if (
        type(rows) is list
        and type(producer) is str
        and type(sequence) is int
        and type(incarnation) is bytes
        and len(batch) == 3 + ("incarnation" in batch)
        and 0 < len(cast("list[Any]", rows)) <= ROWS_BATCH_MAX
    ):
        return PlainBatch((producer, incarnation), sequence, cast("list[Any]", rows))
    return None


def encode_accepted(msgid: int, rows: int, sequence: int) -> bytes:
    """Return the bytes of the answer to a numbered batch of at most ROWS_BATCH_MAX rows, all accepted."""
    return b"\x94\x01\xce" + _U32(msgid) + _ACCEPTED[rows] + _U64(sequence)
