"""States whose words no rows lead to, under checksums that fit: refused with words, or harmless; never a crash."""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from advisor import Advisor
from advisor.engine import Engine
from advisor.engine.state_bytes import MAGIC
from advisor.errors import AdvisorError, StateDamaged
from advisor.models import domains, layout
from advisor.models.contention import FIELDS as CONTENTION_FIELDS
from advisor.models.learner_layout import fields_of

POINTS: dict[str, Any] = {"plain": 3.0, "machines": 3.0, "contended": 3.0, "two": (3.0, 4.0)}
NAN, INF = float("nan"), float("inf")
STRANGE = (NAN, INF, -INF, -1.0, -1e60, 1e60, 1e308, -1e308, 5e-324, 1e18)
STRANGE_INTEGERS = (-1, -(2**63), 2**63 - 1, 2**62, 10**6, 64)


def observed(advisor: Advisor, rows: int, seed: int) -> Advisor:
    rng = np.random.default_rng(seed)
    for number in range(rows):
        name = list(POINTS)[number % 4]
        x, p = float(rng.uniform(1, 50)), float(rng.choice([1, 2, 4, 8]))
        further: dict[str, Any] = {
            "machines": {"machine": f"m{number % 3}"},
            "contended": {"active_cores": p + 2.0},
        }.get(name, {})
        point = (x, float(rng.uniform(1, 9))) if name == "two" else x
        advisor.observe(
            name, predictor=point, cores=p, elapsed_s=1e-3 * x / p * float(rng.lognormal(0, 0.1)), **further
        )
    return advisor


@cache
def taught() -> bytes:
    return observed(Advisor(), 400, 1).to_bytes()


def places() -> Iterator[tuple[str, str, str, int]]:
    """Yield (table, field, kind, offset in the bytes) of each word."""
    data = taught()
    (length,) = struct.unpack_from("<I", data, len(MAGIC))
    at = len(MAGIC) + 4 + length
    header = json.loads(data[len(MAGIC) + 4 : at])
    for field, width, kind, _ in layout.FIELDS:  # one statistic after the other
        for _ in range(width * header["slots"]):
            yield "base", field, kind, at
            at += 8
    for table, _, _, size in header["supports"]:
        fields = CONTENTION_FIELDS if table == "contention" else fields_of(int(table.split("-")[1]))
        for _ in range(size):
            for field, width, kind, _ in fields:
                for _ in range(width):
                    yield table, field, kind, at
                    at += 8


def with_words(*changes: tuple[str, int, float]) -> bytes:
    """Return the state with words (kind, offset, value) changed, and its checksum mended."""
    data = bytearray(taught())
    for kind, at, value in changes:
        struct.pack_into("<q" if kind == "i" else "<d", data, at, value)
    return bytes(data[:-4]) + struct.pack("<I", zlib.crc32(data[:-4]))


def use(advisor: Advisor) -> None:
    """Ask and teach: what comes is an answer that is a number, or an error with words."""
    for _ in range(2):
        for name, point in POINTS.items():
            try:
                told = np.asarray(advisor.predict(name, predictor=point, cores=2).elapsed_s)
                assert np.isfinite(told).all()
                assert (told > 0).all()
                advisor.choose_cores(name, predictor=point, cores_max=8)
            except AdvisorError:
                continue
        advisor.status()
        try:
            observed(advisor, 40, 2)
        except AdvisorError:
            continue
    other = Advisor.from_bytes(taught())
    try:
        other.merge(advisor)
    except AdvisorError:
        return


def test_a_word_outside_its_domain_is_refused_with_its_name() -> None:
    seen: set[tuple[str, str]] = set()
    known = {"base": domains.BASE, "contention": domains.CONTENTION}
    for table, field, kind, at in places():
        if (table, field) in seen or field == "component":
            continue
        seen.add((table, field))
        low, high, further = known.get(table, domains.LEARNER)[field]
        for value in STRANGE_INTEGERS if kind == "i" else STRANGE:
            legal = low <= value <= high or value in further or (value != value and any(v != v for v in further))
            if not legal:
                with pytest.raises(StateDamaged, match=rf"{table} table: {field} of .* is .*, which no rows lead to"):
                    Advisor.from_bytes(with_words((kind, at, value)))
    assert len(seen) > 100


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")  # the answer is what counts
@pytest.mark.parametrize("seeds", [range(150), pytest.param(range(150, 5000), marks=pytest.mark.slow)])
def test_no_word_crashes_what_uses_it(seeds: range) -> None:
    words = [place for place in places() if place[1] != "component"]
    refused = 0
    for seed in seeds:
        rng = random.Random(seed)
        changes: list[tuple[str, int, float]] = []
        for _ in range(rng.choice((1, 1, 3))):
            _, _, kind, at = rng.choice(words)
            strange = rng.choice(STRANGE_INTEGERS if kind == "i" else STRANGE)
            changes.append(
                (kind, at, rng.choice((strange, rng.randrange(2**20) if kind == "i" else rng.lognormvariate(0, 20))))
            )
        try:
            advisor = Advisor.from_bytes(with_words(*changes))
        except StateDamaged:
            refused += 1
            continue
        use(advisor)
    assert 0 < refused < len(seeds)


@pytest.mark.parametrize("value", [-2, 4, 2**40])
def test_a_record_of_no_component_is_refused(value: int) -> None:
    at = next(at for table, field, _, at in places() if table == "learner-2" and field == "component")
    with pytest.raises(StateDamaged, match="component of no component is"):
        Advisor.from_bytes(with_words(("i", at, value)))


def test_a_state_file_is_looked_at_likewise() -> None:
    engine = Engine()
    observed(engine.advisor, 40, 1)
    snapshot = engine.snapshot()
    base = next(table for table in snapshot.tables if table.table == "base")
    base.words[0, layout.AT["scale"].start, 0] = np.array(NAN).view(np.uint64)
    with pytest.raises(StateDamaged, match="base table: scale of plain is nan") as caught:
        Engine.restore(snapshot)
    assert caught.value.components == ("plain",)
