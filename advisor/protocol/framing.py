"""Cuts a byte stream into whole MessagePack messages without building any of them, and decodes whole ones.

A decoder believes an array's header before it has seen the elements: 2.5 kB of nested headers make it allocate 38 MB, and a
thousand connections may do that and wait. So a message is first skipped over, which allocates nothing, and decoded only
when all of it is here; by then every header has been kept. Skipping costs an eighth of decoding.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar, cast

import msgpack
import msgspec
from msgspec import Raw

from advisor.domain import limits
from advisor.errors import AdvisorError, MalformedMessage, TooLarge

SLICE_BYTES = 2**20  # taken in at a time: a decoder holds at most one message and one slice
RETAINED_BYTES = 2**17  # of buffers: those of longer messages are given back, or a thousand connections keep a gigabyte
PAYLOAD_MAP_ITEMS_MAX = 64  # a map that carries columns has a key a column; a larger one is structure as a whole
PAYLOAD_DEPTH_MAX = 2  # columns lie in the map of parameters, or in a map in it

HEAD_BYTES = 64  # of a faulty message: enough to find its msgid
WHOLE_BYTES_MAX = 2**9  # of a read that may be one message: nested headers in it claim 0.7 MB, and nothing stays

_BINS = frozenset((0xC4, 0xC5, 0xC6))
_COLUMNS_METHOD = b"\xafobserve_columns"  # as MessagePack has it
_REQUEST_START = b"\x94"  # an array of four
_LENGTH_WORDS = {"str": "a text", "bin": "a bin", "array": "an array", "map": "a map"}
_LENGTH_ERROR = re.compile(r"(\d+) exceeds max_(str|bin|array|map|ext)_len\((\d+)\)")
_DECODE_ERRORS: tuple[type[Exception], ...] = (
    ValueError,
    TypeError,
    MalformedMessage,
    msgpack.exceptions.UnpackException,
)


class Unpacker(Protocol):
    """What is used of msgpack.Unpacker, whose package has no type hints."""

    def feed(self, next_bytes: bytes) -> None: ...
    def skip(self) -> None: ...
    def tell(self) -> int: ...
    def unpack(self) -> Any: ...
    def read_array_header(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...


_UnpackerType = Callable[..., Unpacker]
Parts = TypeVar("Parts", list[Raw], dict[str, Raw])


def new_unpacker() -> Unpacker:
    """Return a decoder with this protocol's limits, with room for a message and a slice."""
    return cast(_UnpackerType, msgpack.Unpacker)(
        max_buffer_size=limits.MESSAGE_BYTES_MAX + SLICE_BYTES,
        read_size=2**16,  # its buffer begins so large, and grows
        max_array_len=limits.ARRAY_ITEMS_MAX,
        max_map_len=limits.MAP_ITEMS_MAX,
        max_str_len=limits.STRING_BYTES_MAX,
        max_bin_len=limits.MESSAGE_BYTES_MAX,
        max_ext_len=0,
        ext_hook=_refuse_extension,
    )


def one_message(data: bytes | bytearray | memoryview) -> list[Any]:
    """Return the message that bytes are; none where they are less, more, or at fault. No length in it is above theirs."""
    try:
        return [cast("Any", msgpack).unpackb(data, max_ext_len=0)]
    except _DECODE_ERRORS:
        return []


def pack(value: Any) -> bytes:
    """Return the bytes of a message."""
    return cast("bytes", msgpack.packb(value))


def map_header(items: int) -> bytes:
    """Return the bytes that begin a map of `items` keys."""
    return cast("bytes", msgpack.Packer(autoreset=True).pack_map_header(items))


class Framing:
    """The whole messages of a byte stream, decoded; memory is bounded by one message and one slice.
    Between messages `RETAINED_BYTES` stay.

    After `take` has returned a fault the stream is lost: what follows may be garbage.

    `structure_bytes_max`: bytes of a message outside the `bin` values of its parameters.
    """

    __slots__ = ("_cutter", "_decoder", "_origin", "_pending", "_structure_bytes_max", "pending_bytes")

    def __init__(self, structure_bytes_max: int = limits.STRUCTURE_BYTES_MAX) -> None:
        self._structure_bytes_max = structure_bytes_max
        self._begin()

    def _begin(self) -> None:
        self._cutter = new_unpacker()
        self._decoder = new_unpacker()
        self._pending: list[bytes] = []  # bytes of the message that is not whole yet
        self.pending_bytes = 0  # of them
        self._origin = 0  # offset in the stream of the first of them

    def read_messages(self, data: bytes | bytearray | memoryview) -> tuple[list[Any], AdvisorError | None, bytes]:
        """Return the messages that `data` completes; a fault, or None; the first bytes of the faulty message."""
        if not self._pending and len(data) <= WHOLE_BYTES_MAX and (whole := one_message(data)):
            return whole, None, b""
        if len(data) > SLICE_BYTES:
            several: list[Any] = []
            for start in range(0, len(data), SLICE_BYTES):
                found, fault, head = self.read_messages(data[start : start + SLICE_BYTES])
                several += found
                if fault is not None:
                    return several, fault, head
            return several, None, b""
        data = bytes(data)
        self._pending.append(data)
        self.pending_bytes += len(data)
        messages: list[Any] = []
        ends: list[int] = []  # of messages, as offsets in the pending bytes
        fault, head = None, b""
        skip, tell, end = self._cutter.skip, self._cutter.tell, 0
        try:
            self._cutter.feed(data)
            while end < self.pending_bytes:
                skip()
                ends.append(end := tell() - self._origin)
        except msgpack.OutOfData:
            pass
        except _DECODE_ERRORS as error:
            fault = _fault(error)
        if ends:
            stream = data if len(self._pending) == 1 else b"".join(self._pending)
            end = ends[-1]
            self._pending = [stream[end:]] if end < len(stream) else []
            self.pending_bytes = len(stream) - end
            self._origin += end
            messages, wrong, head = self._decode(stream, ends)
            if wrong is not None:
                return messages, wrong, head
            if len(stream) > RETAINED_BYTES and not self.pending_bytes:
                self._begin()  # gives the memory of a large message back
        if fault is None and self.pending_bytes > limits.MESSAGE_BYTES_MAX:
            fault = TooLarge("bytes of a message", self.pending_bytes, limits.MESSAGE_BYTES_MAX, "cut the batch")
        if fault is not None:
            head, self._pending = b"".join(self._pending)[:HEAD_BYTES], []
        return messages, fault, head

    def _decode(self, stream: bytes, ends: Sequence[int]) -> tuple[list[Any], AdvisorError | None, bytes]:
        """Return the messages of `stream` that end at `ends`."""
        if len(stream) <= self._structure_bytes_max:  # so is every message in it
            try:
                self._decoder.feed(stream if ends[-1] == len(stream) else stream[: ends[-1]])
                return list(self._decoder), None, b""
            except _DECODE_ERRORS:
                pass  # one by one below, with a new decoder: one that has raised is never used again
        messages: list[Any] = []
        decoder = new_unpacker()
        for start, end in zip((0, *ends), ends, strict=False):
            message = stream[start:end]
            try:
                check_size(message, self._structure_bytes_max)
                decoder.feed(message)
                messages.append(decoder.unpack())
            except (*_DECODE_ERRORS, TooLarge) as error:
                return messages, _fault(error), message[:HEAD_BYTES]
        self._decoder = decoder
        return messages, None, b""


def check_size(message: bytes, structure_bytes_max: int) -> None:
    """Check a whole message against MESSAGE_BYTES_MAX, and what is not column payload against its own bound.

    Raises TooLarge.
    """
    if len(message) > limits.MESSAGE_BYTES_MAX:
        raise TooLarge("bytes of a message", len(message), limits.MESSAGE_BYTES_MAX, "cut the batch")
    if len(message) <= structure_bytes_max:
        return
    parts = _parts_of(message, list[Raw])
    if _COLUMNS_METHOD in map(bytes, parts[:-1]) and len(message) > limits.ROWS_BYTES_MAX:
        raise TooLarge("bytes of a batch", len(message), limits.ROWS_BYTES_MAX, "cut the batch")
    payload = sum(_payload_bytes(each, PAYLOAD_DEPTH_MAX) for last in parts[-1:] for each in _parts_of(last, list[Raw]))
    if len(message) - payload > structure_bytes_max:
        raise TooLarge(
            "bytes of a message outside its columns", len(message) - payload, structure_bytes_max,
            "cut the batch, or send it as columns",
        )  # fmt: skip


def _payload_bytes(part: Raw, depth: int) -> int:
    """Return the bytes of `bin` in a part of a message, in it or in the values of its map."""
    values = _parts_of(part, dict[str, Raw]) if depth else {}
    if 0 < len(values) <= PAYLOAD_MAP_ITEMS_MAX:
        return sum(_payload_bytes(each, depth - 1) for each in values.values())
    data = memoryview(part)
    return len(data) if data[0] in _BINS else 0


def _parts_of(data: bytes | Raw, shape: type[Parts]) -> Parts:
    """Return the parts of an array or a map, undecoded; none where it is another thing."""
    try:
        return msgspec.msgpack.decode(data, type=shape)
    except (msgspec.DecodeError, RecursionError):  # what it is, is looked at later
        return shape()


def call_id(head: bytes) -> int | None:
    """Return the msgid of the request that begins with `head`, or None when it is no request or not that far."""
    reader = new_unpacker()
    try:
        reader.feed(head[:HEAD_BYTES])
        if head[:1] != _REQUEST_START:
            return None
        reader.read_array_header()
        kind, msgid = reader.unpack(), reader.unpack()
    except (*_DECODE_ERRORS, msgpack.OutOfData):
        return None
    return msgid if type(kind) is int and kind == 0 and is_msgid(msgid) else None


def is_msgid(value: object) -> bool:
    """True for an integer from 0 to 2**32 - 1."""
    return type(value) is int and 0 <= value < 2**32


def _refuse_extension(code: int, data: bytes) -> Any:
    raise MalformedMessage(
        "extension types are not part of this protocol", field="extension type", value=code,
        hint="send numbers, text, bin, arrays and maps",
    )  # fmt: skip


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
        return TooLarge(f"length of {_LENGTH_WORDS[too_long[2]]}", int(too_long[1]), int(too_long[3]))
    reason = str(error) or type(error).__name__
    return MalformedMessage(f"bytes that are no MessagePack: {reason}", field="message")
