"""Batches onto the wire: rows and columns to bytes. The client's side: works without numpy, and with its arrays.

A batch is packed once, without its number: the same bytes are sent again after a cut, under the same number or, when
the service has lost its state, under a new one.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from advisor.domain import limits
from advisor.domain.rows import FIELDS, KILLED, killed_codes, texts_as_labels
from advisor.errors import InvalidValue, TooLarge, not_one_of
from advisor.protocol.framing import map_header, pack
from advisor.protocol.points import flattened
from advisor.protocol.verbs import MEASURES, METHODS

_HEADER_BYTES = 512  # of a request around its body: method, producer, incarnation, sequence
# Of a column's type, as numpy writes it: as array.array does, bytes a value, and the kinds of numpy's arrays that it takes.
_TYPES = {
    "<u4": ("I" if array("I").itemsize == 4 else "L", 4, "iu"), "<u8": ("Q", 8, "iu"), "<f8": ("d", 8, "fiu"),
    "u1": ("B", 1, "biu"),
}  # fmt: skip
_COLUMNS = {
    "index": "<u4", "predictor": "<f8", "cores": "<f8", "elapsed_s": "<f8",
    **{name: field.column for name, field in FIELDS.items() if field.column},
}  # fmt: skip


class Body(NamedTuple):
    """A request's map, packed but for its number: `keys` keys in `data`; `rows` is what it counts for."""

    method: str
    keys: int
    data: bytes
    rows: int


EMPTY = Body("observe_rows", 1, pack("rows") + pack([]), 0)  # stands in for a batch that is refused for ever


def encode_numbered(msgid: int, body: Body, producer: str, incarnation: bytes, sequence: int) -> bytes:
    """Return the bytes of a call with a numbered body."""
    return b"".join((
        b"\x94\x00", pack(msgid), pack(body.method), b"\x91", map_header(body.keys + 3),
        b"\xa8producer", pack(producer), b"\xabincarnation", pack(incarnation), b"\xa8sequence", pack(sequence),
        body.data,
    ))  # fmt: skip


def body_of(method: str, params: Mapping[str, Any], rows: int = 0) -> Body:
    """Return the body of any numbered method."""
    return Body(method, len(params), b"".join(pack(key) + pack(value) for key, value in params.items()), rows)


def body_of_events(records: Any, **header: Any) -> Body:
    """Return task events as a body: records as bytes or a numpy array, the rest of the header as `task_events` has it.

    Raises InvalidValue when a value has no form on the wire; TooLarge when it exceeds a message.
    """
    data = records if isinstance(records, bytes) else bytes(records.tobytes())
    given = {key: value for key, value in header.items() if value is not None}
    try:
        body = body_of("task_events", {**given, "records": data}, len(data) // 32)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidValue("task_events", str(error), "text, numbers, and lists and maps of them") from error
    if len(body.data) + _HEADER_BYTES > limits.MESSAGE_BYTES_MAX:
        raise TooLarge("bytes of a batch", len(body.data), limits.MESSAGE_BYTES_MAX, "cut the batch")
    return body


def bodies_of_rows(rows: Sequence[Sequence[Any]], rows_max: int) -> list[Body]:
    """Return `rows` as bodies of at most `rows_max` rows, each within the limits of a message. Cost O(bytes).

    Raises InvalidValue when a row holds what the wire has no form for; TooLarge when a single row exceeds a message.
    """
    bodies: list[Body] = []
    parts = [rows[start : start + rows_max] for start in range(0, len(rows), rows_max)]
    while parts:
        part = parts.pop(0)
        try:
            data = b"\xa4rows" + pack(part)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidValue("rows", str(error), "rows of text, numbers and maps of them") from error
        if len(data) + _HEADER_BYTES <= limits.STRUCTURE_BYTES_MAX:
            bodies.append(Body("observe_rows", 1, data, len(part)))
        elif len(part) == 1:
            raise TooLarge("bytes of a row", len(data), limits.STRUCTURE_BYTES_MAX)
        else:
            parts[:0] = [part[: len(part) // 2], part[len(part) // 2 :]]
    return bodies


def bodies_of_columns(columns: Mapping[str, Any], rows_max: int = limits.ROWS_BATCH_MAX) -> list[Body]:
    """Return a batch of columns as bodies of at most `rows_max` rows and NAMES_BATCH_MAX names. Cost O(bytes).

    Raises InvalidValue, TooLarge.

    Parameters
    ----------
    columns : mapping
        Keys as `observe_columns` has them; None is absent. A column is a numpy array, an array.array, a list, or
        little-endian bytes; `predictor` may have rows of up to four values, or be flat with `dimensions`.
        `components` and `labels` are lists of text; `network` and `machine` are numbers of labels (2**32 - 1 for
        none), or lists of text or None, which then make the labels; `measures` is a map of columns.
    """
    given = _checked_keys(columns)
    dimensions = given.get("dimensions", 1)
    measures = given.pop("measures", {})
    names: Any = given.pop("components", None)
    most = {key: 1 for key, field in FIELDS.items() if isinstance(field.absent, bool)} | {"killed": len(KILLED)}
    if names is not None:
        if type(names) not in (list, tuple) or {*map(type, names)} - {str}:
            raise InvalidValue("components", names, "a list of names")
        most["index"] = len(names) - 1  # the service would wait for the name of what counts beyond
    packed = {
        key: column_bytes(key, given.pop(key), kind, most.get(key)) for key, kind in _COLUMNS.items() if key in given
    }
    measured = {
        key: column_bytes(f"measures.{key}", values, "<f8") for key, values in measures.items() if values is not None
    }
    rows = len(packed["index"]) // 4
    widths = {key: _TYPES[_COLUMNS[key]][1] for key in packed} | dict.fromkeys(measured, 8)
    if "predictor" in packed:
        widths["predictor"] *= dimensions
    for key, data in (packed | measured).items():
        if len(data) != rows * widths[key]:
            raise InvalidValue(key, f"{len(data) / widths[key]:g} values", f"{rows} values, as index has")
    bodies: list[Body] = []
    index = packed.pop("index")
    texts = body_of("observe_columns", given)
    for start, end, own_names, own_index in _parts(index, names, rows_max):
        cut: dict[str, Any] = {"index": own_index}
        cut |= {key: data[start * widths[key] : end * widths[key]] for key, data in packed.items()}
        if own_names is not None:
            cut["components"] = own_names
        if measured:
            cut["measures"] = {key: data[start * 8 : end * 8] for key, data in measured.items()}
        body = body_of("observe_columns", cut, end - start)
        body = Body(body.method, texts.keys + body.keys, texts.data + body.data, body.rows)
        if len(body.data) + _HEADER_BYTES > limits.ROWS_BYTES_MAX:
            raise TooLarge(
                "bytes of a batch", len(body.data), limits.ROWS_BYTES_MAX, "use fewer or shorter labels and names"
            )
        bodies.append(body)
    return bodies


def _parts(
    index: bytes, names: Sequence[str] | None, rows_max: int
) -> Iterator[tuple[int, int, Sequence[str] | None, bytes]]:
    """Cut the rows of a batch: (first row, end, names, index that counts in these names).

    Names that fit one batch go with each part, others only with the rows that use them.
    """
    rows = len(index) // 4
    if names is None or len(names) <= limits.NAMES_BATCH_MAX:
        for start in range(0, max(rows, 1), rows_max):
            end = min(start + rows_max, rows)
            yield start, end, names, index[4 * start : 4 * end]
        return
    numbers = struct.unpack(f"<{rows}I", index)
    if rows and max(numbers) >= len(names):
        raise InvalidValue("index", max(numbers), f"below {len(names)}, the number of components")
    start = 0
    while start < rows:
        own: dict[int, int] = {}
        end = start
        while end < min(start + rows_max, rows) and (numbers[end] in own or len(own) < limits.NAMES_BATCH_MAX):
            own.setdefault(numbers[end], len(own))
            end += 1
        renumbered = struct.pack(f"<{end - start}I", *(own[number] for number in numbers[start:end]))
        yield start, end, [names[number] for number in own], renumbered
        start = end


def _checked_keys(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that are given, texts as numbers of labels, and a predictor of several values flat.

    Raises InvalidValue when a key is unknown, or missing.
    """
    given = texts_as_labels({key: value for key, value in columns.items() if value is not None})
    if "killed" in given:
        given["killed"] = killed_codes(given["killed"])
    for key in given:
        if key not in METHODS["observe_columns"].keys:
            raise not_one_of("columns", key, METHODS["observe_columns"].keys)
    for key in ("index", "cores", "elapsed_s"):
        if key not in given:
            raise InvalidValue(key, None, "given")
    measures = given.setdefault("measures", {})
    if not isinstance(measures, Mapping):
        raise InvalidValue("measures", measures, f"a map with the keys {', '.join(MEASURES)}")
    for key in cast("Mapping[Any, Any]", measures):
        if key not in MEASURES:
            raise InvalidValue("measures", key, " or ".join(MEASURES))
    flat, dimensions = flattened(given.get("predictor"), given.get("dimensions"))
    if flat is not None:
        given["predictor"] = flat
    return given | {"dimensions": dimensions} if dimensions > 1 else given


def column_bytes(field: str, values: Any, kind: str, most: int | None = None) -> bytes:
    """Return a column's little-endian bytes; `kind` is its type, as numpy writes it. Bytes are returned as they are.

    Raises InvalidValue when a value does not fit the type, or is above `most`.
    """
    if isinstance(values, bytes):
        return values
    code, width, kinds = _TYPES[kind]
    bound = 256**width - 1 if most is None else most
    if hasattr(values, "astype"):  # a numpy array, without importing numpy
        if hasattr(values, "mask"):
            raise InvalidValue(field, "a masked array", "a vector without a mask", "leave the masked rows out")
        if values.ndim != 1 or (values.size and values.dtype.kind not in kinds):
            raise InvalidValue(field, f"{values.ndim}-dimensional {values.dtype}", "a vector of numbers")
        if kind != "<f8" and values.size and not 0 <= int(values.min()) <= int(values.max()) <= bound:
            raise InvalidValue(field, int(values.max()), f"integers from 0 to {bound}")
        return cast("bytes", values.astype(kind, copy=False).tobytes())
    try:
        column = cast("array[Any]", values if isinstance(values, array) else array(code, values))
        if column.typecode != code:
            column = array(code, column)
    except (TypeError, OverflowError, ValueError) as error:
        raise InvalidValue(field, str(error), f"numbers that fit {8 * width} bits") from error
    if kind != "<f8" and max(column, default=0) > bound:
        raise InvalidValue(field, max(column), f"integers from 0 to {bound}")
    if sys.byteorder == "big":
        column = array(code, column)
        column.byteswap()
    return column.tobytes()
