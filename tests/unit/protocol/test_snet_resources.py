"""The text protocol of S-Net's resource server: split anywhere, hostile bytes, the topology as clients read it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.protocol.snet_resources import (
    COMMANDS,
    MESSAGE_BYTES_MAX,
    BadCommand,
    Frames,
    ResourceCommand,
    Unknown,
    grant,
    revoke,
    state,
    system,
    systems,
)

SAID = b"{ list }{ access 0 } \n{ topology 0 }\t{ local 12 }{ accept 0 0 1 } \r\n{ return 0 1 }{quit}"
MEANT = [
    ResourceCommand("list"), ResourceCommand("access", (0,)), ResourceCommand("topology", (0,)),
    ResourceCommand("local", (12,)), ResourceCommand("accept", (0, 0, 1)), ResourceCommand("return", (0, 1)),
    ResourceCommand("quit"),
]  # fmt: skip


@given(st.lists(st.integers(0, len(SAID)), max_size=12))
def test_however_the_bytes_are_split_the_commands_are_the_same(cuts: list[int]) -> None:
    frames, found = Frames(), []
    ends = sorted({0, *cuts, len(SAID)})
    for start, end in pairwise(ends):
        found += frames.receive(SAID[start:end])
    assert found == MEANT


@given(
    st.lists(st.binary(max_size=40) | st.sampled_from([b"{", b"}", b"{ local ", b"9" * 30, b" }", SAID]), max_size=30)
)
def test_no_bytes_break_it_and_a_violation_ends_it(pieces: list[bytes]) -> None:
    frames, found = Frames(), []
    for piece in pieces:
        found += frames.receive(piece)
    assert all(not isinstance(each, BadCommand) for each in found[:-1])
    for each in found:
        if isinstance(each, ResourceCommand):
            low, high = COMMANDS[each.verb]
            assert low <= len(each.numbers) <= high


@pytest.mark.parametrize("bytes_", [b"hello { list }", b"{ list { list } }", b"}", b"{" + b" " * MESSAGE_BYTES_MAX])
def test_what_is_no_message_is_a_violation(bytes_: bytes) -> None:
    frames = Frames()
    found = frames.receive(bytes_)
    assert len(found) == 1
    assert isinstance(found[0], BadCommand)
    assert frames.receive(b"{ list }") == []


@pytest.mark.parametrize(
    "inside", ["", "dance 1", "local", "local -1", "local 1 2", "accept 0", "local 9999999999", "LIST", "local 1x"]
)
def test_a_message_that_reads_but_means_nothing_is_told_apart(inside: str) -> None:
    assert isinstance(Frames().receive(f"{{ {inside} }}{{ list }}".encode())[0], Unknown)
    assert Frames().receive(f"{{ {inside} }}{{ list }}".encode())[1] == ResourceCommand("list")


def test_answers_are_the_runtimes_verbs() -> None:
    assert systems() == b"{ systems 0 }\n"
    assert grant([0, 1]) == b"{ grant 0 0 1 }\n"
    assert revoke([3]) == b"{ revoke 0 3 }\n"
    assert state({"local": 2, "granted": 1}) == b"{ state { client local 2 granted 1 } }\n"


def test_the_topology_has_the_form_that_clients_read() -> None:
    assert system("two.local", [4, 6]) == (
        b"{ system 0 hostname two.local children 1"
        b" { numa 0 children 1 { cache 0 children 2"
        b" { core 0 logical 0 physical 0 children 1 { proc 0 logical 0 physical 4 } }"
        b" { core 1 logical 1 physical 1 children 1 { proc 0 logical 1 physical 6 } } } } }\n"
    )


def test_the_largest_topology_is_a_message_that_clients_take() -> None:
    assert len(system("n" * 64, range(100, 163))) < MESSAGE_BYTES_MAX
