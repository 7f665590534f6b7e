"""Inputs that are nearly legal, drawn from a seed: what a run without coverage tries."""

from __future__ import annotations

import random
from collections.abc import Sequence

STRANGE = (
    b"\0", b"\xff", b"\x7f", b"\x80", b"\xff" * 4, b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"\xcb\x7f\xf8" + bytes(6),
    b"\xcb\x7f\xf0" + bytes(6), b"\xcf" + b"\xff" * 8, b"\xc0", b"\x90", b"\x80", b"nan", b"1e999", b"-1", b"9" * 40, b"\"",
    b"{", b"[" * 30, b"\xc2", b"\xed\xa0\x80", b"\r\n", b";", b"inf",
)  # fmt: skip
BYTES_MAX = 2**16


def mutated(rng: random.Random, known: Sequence[bytes]) -> bytes:
    """Return one of the known inputs, changed in some places."""
    data = bytearray(rng.choice(known)[:BYTES_MAX])
    for _ in range(1 + int(rng.expovariate(0.4))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(7):
            case 0:
                data[at:at] = rng.choice(STRANGE)
            case 1:
                strange = rng.choice(STRANGE)
                data[at : at + len(strange)] = strange
            case 2:
                del data[at : at + 1 + int(rng.expovariate(0.1))]
            case 3:
                other = rng.choice(known)
                begin = rng.randrange(len(other) + 1)
                data[at:at] = other[begin : begin + int(rng.expovariate(0.05))]
            case 4:
                end = at + int(rng.expovariate(0.1))
                data[at:at] = data[at:end]
            case _ if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case _:
                pass
    return bytes(data)
