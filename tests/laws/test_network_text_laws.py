"""Laws of network texts: whatever the grammar writes reads, and what is read is written so that it reads back equal."""

from __future__ import annotations

import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from snet_grammar import EXPRESSION, FILTER, MODULE, PATTERN, texts

from advisor.domain.networks import Network, network_from_nodes
from advisor.errors import AdvisorError, NetworkSyntax
from advisor.network import parse, parse_any, write

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
        assert network_from_nodes(network.as_nodes()) == network


@given(texts(EXPRESSION))
@COUNT
def test_any_expression_reads_back_equal_in_every_form(text: str) -> None:
    network = parse(text)
    assert parse(write(network)) == network
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


def _filter(text: str) -> str:
    return parse(text).nodes[0].text


def _pattern(text: str) -> str:
    return parse(f"a * {text}").nodes[-1].patterns[0]


@given(texts(FILTER), texts(PATTERN))
@COUNT
def test_filters_and_patterns_stay_as_written_and_read_back_equal(text: str, pattern: str) -> None:
    for read, given_text in ((_filter, text), (_pattern, pattern)):
        kept = read(given_text)
        assert read(kept) == kept
        bare = re.sub(r"/\*.*?\*/|//[^\n]*|\s+", "", given_text, flags=re.DOTALL)
        assert kept.replace(" ", "") == bare
