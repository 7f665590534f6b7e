"""Buckets of names: how components are shared out, the same in every process, on every machine and in every version."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from advisor.domain.names import checked_name

BUCKETS: Final = 4096  # enough for hundreds of shards to differ by a few per cent, few enough for a map in each message


def bucket_of(name: str) -> int:
    """Return the bucket, 0 to 4095, of a name: the first 12 bits of the BLAKE2b-64 of its normal form in UTF-8.

    Raises InvalidValue when it is no name.
    """
    digest = blake2b(checked_name("name", name).encode(), digest_size=8).digest()
    return int.from_bytes(digest[:2], "big") >> 4
