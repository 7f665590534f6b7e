"""Bytes to events: whatever the cut, whatever the garbage, within bounds."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import msgpack
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from advisor.domain import limits
from advisor.errors import InvalidValue, MalformedMessage, SequenceGap, TooLarge
from advisor.protocol.connection import (
    ClientConnection,
    Reply,
    RpcRequest,
    ServerConnection,
    Singles,
    Violation,
    encode_error,
    encode_notification,
    encode_request,
    encode_response,
)

pack = msgpack.packb
ROW = ["c", 1.0, 2.0, 3.0]


def violation(data: bytes) -> tuple[int | None, str]:
    """Return msgid and code of the violation that `data` ends in, after a good request."""
    connection = ServerConnection()
    *before, last = connection.receive_requests(encode_request(1, "status", []) + data)
    assert before == [RpcRequest(1, "status", [])]
    assert isinstance(last, Violation)
    kind, msgid, error, result = msgpack.unpackb(last.reply)
    assert (kind, result) == (1, None)
    assert error == last.error.as_dict()
    assert connection.receive_requests(encode_request(2, "status", [])) == []
    return msgid, error["code"]


def deep(levels: int) -> bytes:
    return b"\x94\x00\x07\xa7predict" + b"\x91" * levels + b"\xc0"


VIOLATIONS = {
    "a byte that MessagePack does not use": (b"\xc1", None, "malformed"),
    "a number": (b"\x05", None, "malformed"),
    "text": (pack("hello"), None, "malformed"),
    "a map": (pack({"a": 1}), None, "malformed"),
    "an empty array": (b"\x90", None, "malformed"),
    "an answer": (pack([1, 1, None, None]), None, "malformed"),
    "a kind that is true": (pack([False, 1, "status", []]), None, "malformed"),
    "a kind that is a float": (pack([2.0, "observe", ROW]), None, "malformed"),
    "a request without parameters": (pack([0, 1, "status"]), None, "malformed"),
    "a msgid of 2**32": (pack([0, 2**32, "status", []]), None, "malformed"),
    "a msgid below zero": (pack([0, -1, "status", []]), None, "malformed"),
    "a msgid that is true": (pack([0, True, "status", []]), None, "malformed"),
    "a method that is a list": (pack([0, 7, [], []]), 7, "malformed"),
    "a method of 65 letters": (pack([0, 7, "m" * 65, []]), 7, "malformed"),
    "parameters that are a map": (pack([0, 7, "status", {}]), 7, "malformed"),
    "parameters that are nil": (pack([2, "observe", None]), None, "malformed"),
    "text that is not UTF-8": (b"\x94\x00\x07\xa2\xff\xfe\x90", 7, "malformed"),
    "a map with a number for a key": (pack([0, 7, "status", [{1: 1}]]), 7, "malformed"),
    "a map with a list for a key": (b"\x94\x00\x07\xa6status\x91\x81\x90\x01", 7, "malformed"),
    "an extension type": (pack([0, 7, "status", [msgpack.ExtType(5, b"x")]]), 7, "malformed"),
    "an extension type without data": (pack([0, 7, "status", [msgpack.ExtType(5, b"")]]), 7, "malformed"),
    "a timestamp": (pack([0, 7, "status", [msgpack.Timestamp(1)]]), 7, "malformed"),
    "eleven levels": (deep(10), 7, "too_large"),
    "six hundred levels": (deep(600), 7, "too_large"),
    "an array beyond its limit": (
        b"\x94\x00\x07\xa7predict\xdd" + (limits.ARRAY_ITEMS_MAX + 1).to_bytes(4) + b"\xc0" * 2**18, 7, "too_large"
    ),
    "a text beyond its limit": (pack([0, 7, "status", ["x" * (limits.STRING_BYTES_MAX + 1)]]), 7, "too_large"),
    "structure beyond its limit": (pack([0, 7, "status", [["x" * 1000] * 1100]]), 7, "too_large"),
    "a message beyond its limit": (pack([0, 7, "status", [bytes(limits.MESSAGE_BYTES_MAX)]]), 7, "too_large"),
    "an announcement of four gigabytes, kept": (
        b"\x94\x00\x07\xa6status\x91\xc6\xff\xff\xff\xff" + bytes(limits.MESSAGE_BYTES_MAX), 7, "too_large"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VIOLATIONS)
def test_what_is_no_message_is_answered_and_ends_the_connection(name: str) -> None:
    data, msgid, code = VIOLATIONS[name]
    assert violation(data) == (msgid, code)


@pytest.mark.parametrize(
    "params",
    [
        [{"index": bytes(4 * limits.ROWS_BATCH_MAX), "elapsed_s": bytes(7 * 2**20)}],
        [{"measures": {"peak_bytes": bytes(3 * 2**20), "energy_j": bytes(3 * 2**20)}, "labels": ["x" * 2**19]}],
        [[[[[[["eight levels"]]]]]]],
        ["x" * (limits.STRING_BYTES_MAX - 100)],
        [{"rows": [[[[[[[[[["deep, but a row: refused as one"]]]]]]]]]]}],
    ],
)
def test_what_is_within_the_limits_is_a_request(params: list) -> None:
    connection = ServerConnection()
    assert connection.receive_requests(encode_request(7, "m", params)) == [RpcRequest(7, "m", params)]


def test_a_large_message_leaves_no_buffer_behind() -> None:
    connection = ServerConnection()
    connection.receive_requests(b"")
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    connection.receive_requests(encode_request(1, "m", [bytes(limits.MESSAGE_BYTES_MAX - 100)]))
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert kept < 2**18


def test_headers_that_lie_make_nothing_grow() -> None:
    # Nested headers of the longest legal array: a decoder that believes them takes 38 MB a connection.
    lie = b"\x94\x00\x07\xa7predict" + (b"\xdd" + limits.ARRAY_ITEMS_MAX.to_bytes(4)) * 500
    connections = [ServerConnection() for _ in range(10)]
    tracemalloc.start()
    for connection in connections:
        assert connection.receive_requests(lie) == []
    grown = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert grown < 2**20


MESSAGES = st.lists(
    st.one_of(
        st.builds(lambda i, m, p: pack([0, i, m, p]), st.integers(0, 2**32 - 1), st.text(max_size=9), st.just([])),
        st.just(encode_notification("observe", ROW)),
        st.builds(lambda n: encode_request(3, "columns", [{"index": bytes(n)}]), st.integers(0, 5000)),
        st.just(encode_notification("other", [{"rows": [ROW]}])),
        st.sampled_from([data for data, *_ in VIOLATIONS.values() if len(data) < 1000]),
    ),
    max_size=8,
)


def flat(events: list) -> list:
    """Singles one by one: how many come together depends on the cut."""
    found = []
    for event in events:
        found += event.rows if isinstance(event, Singles) else [event]
    return [event if not isinstance(event, Violation) else event.reply for event in found]


@given(MESSAGES, st.lists(st.integers(0, 6000), max_size=12))
def test_events_do_not_depend_on_where_the_bytes_are_cut(messages: list[bytes], cuts: list[int]) -> None:
    data = b"".join(messages)
    whole = flat(ServerConnection().receive_requests(data))
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    parts = ServerConnection()
    pieces = [parts.receive_requests(memoryview(data)[a:b]) for a, b in pairwise(bounds)]
    assert flat([event for piece in pieces for event in piece]) == whole


@given(
    st.one_of(st.binary(max_size=300), st.binary(max_size=40).map(lambda tail: b"\x94\x00\x01\xa7predict\x91" + tail))
)
@example(b"\x94\x00\x01\xa7predict\x91\x81\xa1a")
@settings(max_examples=500)
def test_garbage_never_raises(data: bytes) -> None:
    connection = ServerConnection()
    events = connection.receive_requests(data) + connection.receive_requests(data)
    assert all(isinstance(event, (RpcRequest, Singles, Violation)) for event in events)
    assert not any(isinstance(event, Violation) for event in events[:-1])
    assert len(connection.receive_requests(b"\xc1")) <= 1


def test_consecutive_singles_come_together() -> None:
    single, other = encode_notification("observe", ROW), encode_request(1, "status", [])
    assert ServerConnection().receive_requests(single * 3) == [Singles([ROW] * 3)]
    assert ServerConnection().receive_requests(single + other + single * 2) == [
        Singles([ROW]),
        RpcRequest(1, "status", []),
        Singles([ROW] * 2),
    ]
    assert ServerConnection().receive_requests(encode_notification("observe", [])) == [Singles([[]])]
    assert ServerConnection().receive_requests(encode_notification("hello", [])) == [RpcRequest(None, "hello", [])]


def test_a_reply_is_what_was_sent() -> None:
    gap = SequenceGap(7, 5)
    data = encode_response(3, {"a": [1.5, None]}) + encode_error(4, gap) + encode_error(None, InvalidValue("x", 1, "2"))
    good, refused, lost = ClientConnection().receive_replies(data)
    assert good == Reply(3, None, {"a": [1.5, None]})
    assert refused.msgid == 4
    assert isinstance(refused.error, SequenceGap)
    assert refused.error.as_dict() == gap.as_dict()
    assert lost.msgid is None
    assert isinstance(lost.error, InvalidValue)


def test_an_answer_may_be_longer_than_a_question() -> None:
    answer = {"elapsed_s": [0.5] * limits.PREDICT_POINTS_MAX, "low_s": [0.5] * limits.PREDICT_POINTS_MAX}
    assert ClientConnection().receive_replies(encode_response(1, answer)) == [Reply(1, None, answer)]


@pytest.mark.parametrize("data", [b"\xc1", pack([0, 1, "status", []]), pack([1, "1", None, None]), pack([1, 1, None])])
def test_a_service_that_breaks_the_protocol_is_given_up(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        ClientConnection().receive_replies(data)


def test_a_foreign_error_is_still_an_error() -> None:
    assert str(ClientConnection().receive_replies(pack([1, 1, "no such method", None]))[0].error) == "no such method"


def test_a_service_may_not_send_more_than_a_message() -> None:
    with pytest.raises(TooLarge):
        ClientConnection().receive_replies(b"\x94\x01\x01\xc0\xc6\xff\xff\xff\xff" + bytes(limits.MESSAGE_BYTES_MAX))
