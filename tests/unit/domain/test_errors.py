"""Errors repeat the value at fault so that it is recognised, and never more of it than is good for a log."""

from __future__ import annotations

from typing import Any

import pytest

from advisor.errors import TEXT_CHARACTERS_MAX, InvalidValue, shorten


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (True, True),
        (2.5, 2.5),
        (7, 7),
        (10**30, "integer of 100 bits"),
        ("a\nb", "a\\u000ab"),
        (b"ab", "b'ab'"),
        ([0.5], "[0.5]"),
        ({"latency_s": 3}, "{'latency_s': 3}"),
    ],
)
def test_a_value_is_shown_as_it_is(value: Any, shown: Any) -> None:
    assert shorten(value) == shown


@pytest.mark.parametrize(
    "value",
    ["x" * 10**6, b"x" * 10**6, list(range(10**6)), [[["x" * 10**6] * 10] * 10] * 10, {"x" * 10**6: "y" * 10**6}],
    ids=["text", "bytes", "list", "nested", "map"],
)
def test_a_hostile_value_is_cut(value: Any) -> None:
    assert len(str(InvalidValue("field", value, "small"))) <= TEXT_CHARACTERS_MAX + 100
