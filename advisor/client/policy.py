"""What becomes of rows beyond a client's buffer."""

from __future__ import annotations

from typing import Literal, get_args

from advisor.errors import InvalidValue, Unavailable

WhenFull = Literal["drop_newest", "drop_oldest", "block", "raise"]
POLICIES = get_args(WhenFull)


def check_policy(when_full: WhenFull) -> WhenFull:
    """Return the policy; raises InvalidValue when there is no such policy."""
    if when_full not in POLICIES:
        raise InvalidValue("when_full", when_full, ", ".join(POLICIES))
    return when_full


def buffer_full(held: int, rows: int) -> Unavailable:
    """Return the error of rows that find no room beside `held` others in a buffer of `rows`."""
    return Unavailable(
        "the client's buffer is full", field="buffer_rows", value=held, bound=rows,
        hint="the service does not keep up, or does not answer",
    )  # fmt: skip
