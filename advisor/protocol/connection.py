"""MessagePack-RPC over a byte stream, sans-IO: bytes in, events out. `receive` never raises on what a peer sent.

Two kinds of fault. A message that is well formed but asks for something wrong (an unknown method, a bad parameter) is
answered with an error, and the connection lives. A byte stream that is no sequence of messages, or breaks a limit, is a
`Violation`: its reply is sent, then the connection is closed, for what follows may be garbage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast

import msgspec

from advisor.domain import limits
from advisor.domain.shapes import plain_form
from advisor.errors import AdvisorError, MalformedMessage, TooLarge, from_dict
from advisor.protocol.framing import Framing, call_id, is_msgid, pack
from advisor.protocol.verbs import NO_INCARNATION

REQUEST: Final = 0
RESPONSE: Final = 1
NOTIFICATION: Final = 2
METHOD_CHARACTERS_MAX = 64  # the longest method name has 15
_ENCODE = msgspec.msgpack.Encoder(enc_hook=plain_form).encode  # answers as they are, in a microsecond


class RpcRequest(NamedTuple):
    """A call (`msgid` given) or a notification (`msgid` None); `params` is as it came, not checked yet."""

    msgid: int | None
    method: str
    params: list[Any]


class PlainBatch(NamedTuple):
    """A batch whose form is as it should be; its rows are not looked at yet."""

    msgid: int
    key: tuple[str, bytes]  # name and incarnation of the producer
    sequence: int
    rows: list[Any]


class Singles(NamedTuple):
    """The parameters of consecutive `observe` notifications, not checked yet: rows to fold together, without reply."""

    rows: list[Any]


class Violation(NamedTuple):
    """The peer broke the protocol: send `reply`, close. It is the last event of its connection.

    The reply answers the msgid of the message at fault where that is known; otherwise its msgid is nil.
    """

    reply: bytes
    error: AdvisorError


class Reply(NamedTuple):
    """The answer to a call: a result, or an error. `msgid` None: the service gives up on the whole connection."""

    msgid: int | None
    error: AdvisorError | None
    result: Any


class Notice(NamedTuple):
    """What the service tells by itself: news that this connection has subscribed to."""

    method: str
    params: list[Any]


class ServerConnection:
    """What one client sends, as events.

    Consecutive `observe` notifications come out as one `Singles`, at a third of the cost of a `RpcRequest` each.
    """

    __slots__ = ("_dead", "_framing", "pending_bytes")

    def __init__(self) -> None:
        self._framing = Framing()
        self._dead = False
        self.pending_bytes = 0  # received of a message that is not whole yet

    def receive_requests(self, data: bytes | bytearray | memoryview) -> list[RpcRequest | Singles | Violation]:
        """Return the events that `data` completes; nothing more after a `Violation`. Never raises on bad input."""
        if self._dead:
            return []
        messages, fault, head = self._framing.read_messages(data)
        self.pending_bytes = self._framing.pending_bytes
        events: list[RpcRequest | Singles | Violation] = []
        if messages and type(messages[0]) is list and len(messages[0]) == 3 and (rows := _only_singles(messages)):  # type: ignore[arg-type]
            events.append(Singles(rows))
            messages = []
        for message in messages:
            try:
                request = _request(message)
            except (MalformedMessage, TooLarge) as error:
                self._dead = True
                events.append(Violation(encode_error(_msgid_of(message), error), error.detached()))
                return events
            if request.msgid is None and request.method == "observe":
                if events and isinstance(events[-1], Singles):
                    events[-1].rows.append(request.params)
                else:
                    events.append(Singles([request.params]))
            else:
                events.append(request)
        if fault is not None:
            self._dead = True
            events.append(Violation(encode_error(call_id(head), fault), fault))
        return events


class ClientConnection:
    """What the service sends, as replies and notices. A service that breaks the protocol raises: the client gives up on it."""

    __slots__ = ("_framing",)

    def __init__(self) -> None:
        self._framing = Framing(limits.MESSAGE_BYTES_MAX)  # an answer is as long as its question asked for

    def receive_replies(self, data: bytes | bytearray | memoryview) -> list[Reply | Notice]:
        """Return the replies and notices that `data` completes.

        Raises MalformedMessage, TooLarge when the bytes are no replies; the connection is of no use any more.
        """
        messages, fault, _ = self._framing.read_messages(data)
        replies = [_reply(message) for message in messages]
        if fault is not None:
            try:
                raise fault
            finally:
                del fault  # an error that a frame of its own traceback holds stays until the collector comes
        return replies


def plain_batch(request: RpcRequest) -> PlainBatch | None:
    """Return a numbered batch of rows that says no more than it has to; None: `check_params` looks closely. Cost O(1)."""
    params = request.params
    if request.method != "observe_rows" or len(params) != 1 or type(params[0]) is not dict or request.msgid is None:
        return None
    given = cast("dict[Any, Any]", params[0])
    producer, sequence, rows = map(given.get, ("producer", "sequence", "rows"))
    incarnation = given.get("incarnation", NO_INCARNATION)
    whole = type(producer) is str and type(sequence) is int and type(incarnation) is bytes and type(rows) is list
    if not whole or len(given) != 3 + ("incarnation" in given):
        return None
    if not 0 < len(cast("list[Any]", rows)) <= limits.ROWS_BATCH_MAX:
        return None
    return PlainBatch(
        request.msgid, (cast("str", producer), incarnation), cast("int", sequence), cast("list[Any]", rows)
    )


def encode_request(msgid: int, method: str, params: Sequence[Any]) -> bytes:
    """Return the bytes of a call."""
    return pack([REQUEST, msgid, method, params])


def encode_notification(method: str, params: Sequence[Any]) -> bytes:
    """Return the bytes of a notification."""
    return pack([NOTIFICATION, method, params])


def encode_response(msgid: int, result: Any) -> bytes:
    """Return the bytes of the answer to a call; arrays and the like in `result` become lists."""
    return _ENCODE((RESPONSE, msgid, None, result))


def encode_error(msgid: int | None, error: AdvisorError) -> bytes:
    """Return the bytes of an error's answer to a call, or to nothing in particular (None)."""
    return pack([RESPONSE, msgid, error.as_dict(), None])


def _only_singles(messages: list[Any]) -> list[Any]:
    """Return the parameters of `messages` when they are `observe` notifications throughout, otherwise nothing."""
    try:
        kinds, methods, params = zip(*messages, strict=True)
    except (TypeError, ValueError):  # not three each, or nothing at all
        return []
    n = len(messages)
    if (
        kinds.count(NOTIFICATION) == n == methods.count("observe")
        and {*map(type, kinds)} == {int}  # 2.0 is no 2
        and {*map(type, params)} == {list}
    ):
        return list(params)
    return []


def _request(message: Any) -> RpcRequest:
    """Return the request that a message is; raises MalformedMessage, TooLarge."""
    parts = cast("list[Any]", message) if isinstance(message, list) else []
    kind, msgid = parts[0] if parts and type(parts[0]) is int else None, None  # True is no 1
    if len(parts) == 4 and kind == REQUEST and type(parts[1]) is int and 0 <= parts[1] < 2**32:
        _, msgid, method, params = parts
    elif len(parts) == 3 and kind == NOTIFICATION:
        _, method, params = parts
    else:
        raise MalformedMessage(
            "a message that is neither a request nor a notification", field="message", value=(parts or [message])[0],
            bound="[0, msgid, method, params] with msgid an integer below 2**32, or [2, method, params]",
        )  # fmt: skip
    if isinstance(method, bytes):  # older libraries have one type for text and bytes; pynvim's session sends both
        method = method.decode("utf-8", "replace")
    if not isinstance(method, str) or len(method) > METHOD_CHARACTERS_MAX:
        raise MalformedMessage("a method that is no short text", field="method", value=method, bound="text")
    if not isinstance(params, list):
        raise MalformedMessage("parameters that are no array", field="params", value=params, bound="an array")
    values = cast("list[Any]", params)
    if not _within_depth(values):
        raise TooLarge("depth of a message", f"more than {limits.DEPTH_MAX}", limits.DEPTH_MAX)
    return RpcRequest(msgid, method, values)


def _reply(message: Any) -> Reply | Notice:
    """Return the reply, or the notice, that a message is; raises MalformedMessage."""
    parts = _parts(message)
    if (
        len(parts) == 3
        and _is_kind(parts[0], NOTIFICATION)
        and isinstance(parts[1], str)
        and isinstance(parts[2], list)
    ):
        return Notice(parts[1], parts[2])
    if len(parts) != 4 or not _is_kind(parts[0], RESPONSE) or not (parts[1] is None or is_msgid(parts[1])):
        raise MalformedMessage("the service sent what is no answer", field="message", value=(parts or [message])[0])
    _, msgid, error, result = parts
    if error is None:
        return Reply(msgid, None, result)
    words = cast("dict[str, Any]", error) if isinstance(error, dict) else {"message": str(error)}
    return Reply(msgid, from_dict(words), None)


def _parts(message: Any) -> list[Any]:
    return cast("list[Any]", message) if isinstance(message, list) else []


def _is_kind(value: Any, kind: int) -> bool:
    return type(value) is int and value == kind  # True is no 1


def _msgid_of(message: Any) -> int | None:
    parts = _parts(message)
    return parts[1] if len(parts) == 4 and _is_kind(parts[0], REQUEST) and is_msgid(parts[1]) else None


def _within_depth(params: list[Any]) -> bool:
    """True when the message of `params` nests no deeper than DEPTH_MAX. Rows are left out: each is checked as a row."""
    level: list[Any] = [params]
    for _ in range(limits.DEPTH_MAX - 1):
        level = [value for each in level for value in _items_of(each) if type(value) in _CONTAINERS]
        if not level:
            return True
    return False


def _items_of(container: Any) -> Any:
    if isinstance(container, dict):
        return [value for key, value in cast("dict[Any, Any]", container).items() if key != "rows"]
    return container


_CONTAINERS = frozenset((list, dict))
