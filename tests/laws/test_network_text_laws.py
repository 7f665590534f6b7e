"""Laws of network texts: whatever the grammar writes reads, and what is read is written so that it reads back equal."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from snet_grammar import EXPRESSION, MODULE, texts

from advisor.domain.networks import Network, network_from_nodes
from advisor.errors import AdvisorError, NetworkSyntax
from advisor.network import as_plain, from_plain, parse, parse_any, write
from advisor.network.reader import read_pattern

COUNT = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def error_of(text: str) -> AdvisorError | None:
    try:
        parse(text)
    except AdvisorError as error:
        return error
    return None


def expanded(text: str) -> Network | None:
    """The network, or None where a net contains itself: the only thing that a text of the grammar may get wrong."""
    error = error_of(text)
    if error is None:
        return parse(text)
    assert "contains itself" in str(error)
    return None


@given(texts(MODULE))
@COUNT
def test_any_module_reads_and_is_written_to_read_back_equal(text: str) -> None:
    network = expanded(text)
    if network is not None:
        written = write(network)
        again = parse(written)
        assert again == network
        assert again.keys == network.keys
        assert write(again) == written
        assert from_plain(as_plain(network)) == network
        assert network_from_nodes(network.as_nodes()) == network


@given(texts(EXPRESSION))
@COUNT
def test_any_expression_reads_back_equal_in_every_form(text: str) -> None:
    network = parse(text)
    assert parse(write(network)) == network
    assert from_plain(as_plain(network)) == network
    assert network_from_nodes(network.as_nodes()) == network
    assert parse_any(text) == network


@given(texts(MODULE), st.integers(0, 2**16), st.sampled_from([*"{}()[]<>|;,.!@*\\=#\x00x0 ", "", "then", "net "]))
@COUNT
def test_a_damaged_text_reads_or_is_an_error_with_a_place_in_it(text: str, where: int, put: str) -> None:
    place = where % (len(text) + 1)
    damaged = f"{text[:place]}{put}{text[place + 1 :]}"
    error = error_of(damaged)
    if isinstance(error, NetworkSyntax):
        lines = damaged.split("\n")
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1


# Tag expressions: as tightly as each binds, stated here anew; all but ?: and the signs are left associative.
LEVELS = [["?:"], ["||"], ["&&"], ["==", "!="], ["<", "<=", ">", ">="], ["+", "-"], ["*", "/", "%"], ["min", "max"]]
TIGHTNESS = {sign: level for level, signs in enumerate(LEVELS) for sign in signs}
SIGNS = {"!": "not", "-": "negative", "abs": "abs"}
TREES = st.recursive(
    st.integers(0, 99) | st.sampled_from(["a", "b", "#c"]),
    lambda inner: (
        st.tuples(st.sampled_from([sign for signs in LEVELS[1:] for sign in signs]), inner, inner)
        | st.tuples(st.just("?:"), inner, inner, inner)
        | st.tuples(st.sampled_from(sorted(SIGNS)), inner)
    ),
    max_leaves=12,
)


def shortest(tree: Any) -> tuple[str, int]:
    """The text with brackets only where the levels ask for them, and how tightly it binds."""
    if not isinstance(tree, tuple):
        return str(tree), 9
    sign, *parts = tree
    each = [shortest(part) for part in parts]
    if len(parts) == 1:
        return f"{sign} {bracketed(each[0], 8)}", 8
    if len(parts) == 3:
        return f"{bracketed(each[0], 1)} ? {each[1][0]} : {each[2][0]}", 0
    level = TIGHTNESS[sign]
    return f"{bracketed(each[0], level)} {sign} {bracketed(each[1], level + 1)}", level


def bracketed(part: tuple[str, int], level: int) -> str:
    return part[0] if part[1] >= level else f"({part[0]})"


def postfix(tree: Any) -> tuple[int | str, ...]:
    if isinstance(tree, int):
        return (tree,)
    if isinstance(tree, str):
        return (f"<{tree}>",)
    sign, *parts = tree
    return (*itertools.chain(*map(postfix, parts)), SIGNS[sign] if len(parts) == 1 else sign)


@given(TREES)
@COUNT
def test_tag_expressions_bind_as_the_levels_say(tree: Any) -> None:
    text = shortest(tree)[0]
    pattern = read_pattern(f"{{x}} if <{text}>")
    assert pattern.guard == postfix(tree)
    assert read_pattern(pattern.text) == pattern
