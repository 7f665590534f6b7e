"""The shortest form of a batch, looked at in a microsecond: a numbered `observe_rows` with a few rows; and its answer."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from advisor.protocol.framing import pack
from advisor.protocol.verbs import NO_INCARNATION

FEW_ROWS = 64  # of a batch that is looked at row by row; for more, columns cost less
# [1, msgid, nil, {accepted, refused, sequence}], its numbers in one width each: what stands between msgid and sequence, by
# rows. Never a format: 37 rows are a per cent sign.
_NONE_REFUSED = b"\xa7refused" + pack({"count": 0, "by_code": {}, "first": []}) + b"\xa8sequence\xcf"
_COUNTED = tuple(b"\xc0\x83\xa8accepted" + pack(rows) + _NONE_REFUSED for rows in range(FEW_ROWS + 1))
_U32, _U64 = struct.Struct(">I").pack, struct.Struct(">Q").pack


class FewRows(NamedTuple):
    """A batch whose form is as it should be; its rows are not looked at yet."""

    key: tuple[str, bytes]
    sequence: int
    rows: list[Any]


def few_rows(params: Sequence[Any]) -> FewRows | None:
    """Return the parameters of an `observe_rows` that is numbered, and has a few rows; None: `check_params` looks closely."""
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
        and 0 < len(cast("list[Any]", rows)) <= FEW_ROWS
    ):
        return FewRows((producer, incarnation), sequence, cast("list[Any]", rows))
    return None


def encode_accepted(msgid: int, rows: int, sequence: int) -> bytes:
    """Return the bytes of the answer to a numbered batch of at most FEW_ROWS rows, all accepted."""
    return b"\x94\x01\xce" + _U32(msgid) + _COUNTED[rows] + _U64(sequence)
