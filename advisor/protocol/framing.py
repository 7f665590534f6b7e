"""Cuts a byte stream into whole MessagePack messages without building any of them, and decodes whole ones.

A decoder believes an array's header before it has seen the elements: 2.5 kB of nested headers make it allocate 38 MB, and a
thousand connections may do that and wait. So a message is first skipped over, which allocates nothing, and decoded only
when all of it is here; by then every header has been kept. Skipping costs an eighth of decoding.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Protocol, TypeVar, cast

import msgpack
import msgspec
from msgspec import Raw

from advisor.domain import limits
from advisor.errors import AdvisorError, MalformedMessage, TooLarge

RETAINED_BYTES = 2**17  # of buffers: those of longer messages are given back, or a thousand connections keep a gigabyte
PAYLOAD_DEPTH_MAX = 2  # columns lie in the map of parameters, or in a map in it
HEAD_BYTES = 64  # of a faulty message: enough to find its msgid
WHOLE_BYTES_MAX = 2**9  # of a read that may be one message: nested headers in it claim 0.7 MB, and nothing stays

_BINS = frozenset((0xC4, 0xC5, 0xC6))
# How a request begins: an array of four, the kind, the msgid in as many bytes as it takes.
_CALL = re.compile(rb"\x94\x00(?:([\x00-\x7f])|\xcc(.)|\xcd(..)|\xce(....))", re.DOTALL)
_LENGTH_ERROR = re.compile(r"(\d+) exceeds max_(\w+)_len\((\d+)\)")
_DECODE_ERRORS: tuple[type[Exception], ...] = (
    ValueError,
    TypeError,
    MalformedMessage,
    msgpack.exceptions.UnpackException,
)


def _refuse_extension(*_: object) -> Any:
    raise MalformedMessage(
        "extension types are not part of this protocol", field="extension type",
        hint="send numbers, text, bin, arrays and maps",
    )  # fmt: skip


class Unpacker(Protocol):
    """What is used of msgpack.Unpacker, whose package has no type hints."""

    def feed(self, next_bytes: bytes) -> None: ...
    def skip(self) -> None: ...
    def tell(self) -> int: ...
    def unpack(self) -> Any: ...


_LIMITS: dict[str, Any] = {
    "max_array_len": limits.ARRAY_ITEMS_MAX, "max_map_len": limits.MAP_ITEMS_MAX, "max_ext_len": 0,
    "ext_hook": _refuse_extension,
}  # fmt: skip
Parts = TypeVar("Parts", list[Raw], dict[str, Raw])


def whole_message(data: bytes | bytearray | memoryview) -> list[Any]:
    """Return the message that bytes are; none where they are less, more, or at fault."""
    try:
        return [cast("Any", msgpack).unpackb(data, **_LIMITS)]
    except _DECODE_ERRORS:
        return []


def pack(value: Any) -> bytes:
    """Return the bytes of a message."""
    return cast("bytes", msgpack.packb(value))


def map_header(items: int) -> bytes:
    """Return the bytes that begin a map of `items` keys."""
    return cast("bytes", msgpack.Packer(autoreset=True).pack_map_header(items))


class Framing:
    """The whole messages of a byte stream, decoded; memory is bounded by one message and what is read at a time.

    After `read_messages` has returned a fault the stream is lost: what follows may be garbage.

    `structure_bytes_max`: bytes of a message outside the `bin` values of its parameters.
    """

    __slots__ = ("_cutter", "_decoder", "_origin", "_pending", "_structure_bytes_max", "pending_bytes")

    def __init__(self, structure_bytes_max: int = limits.STRUCTURE_BYTES_MAX) -> None:
        self._structure_bytes_max = structure_bytes_max
        self._begin()

    def _begin(self) -> None:
        new_unpacker = cast("Callable[..., Unpacker]", msgpack.Unpacker)
        # Their buffers begin at `read_size`, and grow with a message. After a fault neither is used again.
        self._cutter, self._decoder = (new_unpacker(max_buffer_size=0, read_size=2**16, **_LIMITS) for _ in range(2))
        self._pending: list[bytes] = []  # bytes of the message that is not whole yet
        self.pending_bytes = 0  # of them
        self._origin = 0  # offset in the stream of the first of them

    def read_messages(self, data: bytes | bytearray | memoryview) -> tuple[list[Any], AdvisorError | None, bytes]:
        """Return the messages that `data` completes; a fault, or None; the first bytes of the faulty message."""
        if not self._pending and len(data) <= WHOLE_BYTES_MAX and (whole := whole_message(data)):
            return whole, None, b""
        data = bytes(data)
        self._pending.append(data)
        self.pending_bytes += len(data)
        ends: list[int] = [0]  # of messages, as offsets in the pending bytes
        fault: AdvisorError | None = None
        skip, tell = self._cutter.skip, self._cutter.tell
        try:
            self._cutter.feed(data)
            while ends[-1] < self.pending_bytes:
                skip()
                ends.append(tell() - self._origin)
        except msgpack.OutOfData:
            pass
        except _DECODE_ERRORS as error:
            fault = _fault(error)
        messages: list[Any] = []
        if len(ends) > 1:
            stream = data if len(self._pending) == 1 else b"".join(self._pending)
            end = ends[-1]
            self._pending = [stream[end:]] if end < len(stream) else []
            self.pending_bytes = len(stream) - end
            self._origin += end
            self._decoder.feed(stream[:end])
            for start, end in pairwise(ends):
                try:
                    if end - start > self._structure_bytes_max:
                        check_size(stream[start:end], self._structure_bytes_max)
                    messages.append(self._decoder.unpack())
                except (*_DECODE_ERRORS, TooLarge) as error:
                    return messages, _fault(error), stream[start : min(end, start + HEAD_BYTES)]
            if len(stream) > RETAINED_BYTES and not self.pending_bytes:
                self._begin()  # gives the memory of a large message back
        if fault is None and self.pending_bytes > limits.MESSAGE_BYTES_MAX:
            fault = TooLarge("bytes of a message", self.pending_bytes, limits.MESSAGE_BYTES_MAX, "cut the batch")
        if fault is None:
            return messages, None, b""
        head, self._pending = b"".join(self._pending)[:HEAD_BYTES], []
        return messages, fault, head


def check_size(message: bytes, structure_bytes_max: int) -> None:
    """Check a whole message of more than `structure_bytes_max`: what is not column payload has that bound.

    Raises TooLarge.
    """
    if len(message) > limits.MESSAGE_BYTES_MAX:
        raise TooLarge("bytes of a message", len(message), limits.MESSAGE_BYTES_MAX, "cut the batch")
    params = _parts_of(message, list[Raw])[-1:]
    payload = sum(_payload_bytes(each, PAYLOAD_DEPTH_MAX) for last in params for each in _parts_of(last, list[Raw]))
    if len(message) - payload > structure_bytes_max:
        raise TooLarge(
            "bytes of a message outside its columns", len(message) - payload, structure_bytes_max,
            "cut the batch, or send it as columns",
        )  # fmt: skip


def _payload_bytes(part: Raw, depth: int) -> int:
    """Return the bytes of `bin` in a part of a message, in it or in the values of its map."""
    data = memoryview(part)
    if data[0] in _BINS:
        return len(data)
    return sum(_payload_bytes(each, depth - 1) for each in _parts_of(part, dict[str, Raw]).values()) if depth else 0


def _parts_of(data: bytes | Raw, shape: type[Parts]) -> Parts:
    """Return the parts of an array or a map, undecoded; none where it is another thing."""
    try:
        return msgspec.msgpack.decode(data, type=shape)
    except (msgspec.DecodeError, RecursionError):  # what it is, is looked at later
        return shape()


def call_id(head: bytes) -> int | None:
    """Return the msgid of the request that begins with `head`, or None when it is no request or not that far."""
    begun = _CALL.match(head)
    return None if begun is None else int.from_bytes(begun[begun.lastindex or 0])


def is_msgid(value: object) -> bool:
    """True for an integer from 0 to 2**32 - 1."""
    return type(value) is int and 0 <= value < 2**32


def _fault(error: Exception) -> AdvisorError:
    """Return what a decoder's exception says, in this protocol's words."""
    if isinstance(error, AdvisorError):
        return error.detached()
    if isinstance(error, UnicodeDecodeError):
        return MalformedMessage("text that is not UTF-8", field="message", hint="send bytes as bin")
    if isinstance(error, msgpack.exceptions.StackError):
        return TooLarge("depth of a message", "more than 500", limits.DEPTH_MAX)
    too_long = _LENGTH_ERROR.search(str(error))
    if too_long and too_long[2] == "ext":
        return MalformedMessage("extension types are not part of this protocol", field="extension type")
    if too_long:
        return TooLarge(f"items of one {too_long[2]}", int(too_long[1]), int(too_long[3]))
    reason = str(error) or type(error).__name__
    return MalformedMessage(f"bytes that are no MessagePack: {reason}", field="message")
