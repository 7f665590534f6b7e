"""States whose words no rows lead to, under checksums that fit: refused with words, or harmless; never a crash."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest
import task_mixes
from program_runs import runs

from advisor import Advisor
from advisor.engine import Engine
from advisor.engine.frames import Block, framed, read_frames
from advisor.engine.state_bytes import Stored
from advisor.errors import NotEnoughData, StateDamaged, UnknownComponent
from advisor.models import layout
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


def blocks() -> Iterator[tuple[Block, Any, int]]:
    """Yield each block of the taught state, decoded where it has components, and where its data begin in the bytes."""
    for frame in read_frames(taught()):
        assert frame.data is not None
        found = msgspec.msgpack.decode(frame.data) if frame.data else [None]
        yield Block(frame.label, frame.data), found if found[0] == "components" else None, frame.end - len(frame.data)


def places() -> Iterator[tuple[str, str, str, int]]:
    """Yield (table, field, kind, offset in the bytes) of each word."""
    for block, found, start in blocks():
        if found is None:
            continue
        _, _, _, names, words, tables = found
        described = [("base", layout.FIELDS, len(names), words)]
        for table, _, slots, its_words in tables:
            fields = CONTENTION_FIELDS if table == "contention" else fields_of(int(table.split("-")[1]))
            described.append((table, fields, len(slots) // 8, its_words))
        for table, fields, size, its_words in described:
            at = start + block.data.index(its_words)
            for _ in range(size):
                for field, width, kind, *_ in fields:
                    for _ in range(width):
                        yield table, field, kind, at
                        at += 8


def with_words(*changes: tuple[str, int, float]) -> bytes:
    """Return the state with words (kind, offset, value) changed, and its checksums mended."""
    data = bytearray(taught())
    for kind, at, value in changes:
        struct.pack_into("<q" if kind == "i" else "<d", data, at, value)
    return b"".join(framed(block.label, bytes(data[start : start + len(block.data)])) for block, _, start in blocks())


def test_a_word_outside_its_domain_is_refused_with_its_name() -> None:
    seen: set[tuple[str, str]] = set()
    fields = {"base": layout.FIELDS, "contention": CONTENTION_FIELDS}
    domains = {table: {field: domain for field, *_, domain in given} for table, given in fields.items()}
    of_learners = {field: domain for field, *_, domain in fields_of(2)}
    for table, field, kind, at in places():
        if (table, field) in seen or field == "component":
            continue
        seen.add((table, field))
        if (field, kind) == ("model", "f"):  # of a cell: beyond its domain it is not known
            Advisor.from_bytes(with_words((kind, at, INF)))
            continue
        low, high, further = domains.get(table, of_learners)[field]
        for value in STRANGE_INTEGERS if kind == "i" else STRANGE:
            legal = low <= value <= high or value in further or (value != value and any(v != v for v in further))
            if not legal:
                with pytest.raises(StateDamaged, match=rf"{table} table: {field} of .* is .*, which no rows lead to"):
                    Advisor.from_bytes(with_words((kind, at, value)))
    assert len(seen) > 100


def test_rows_without_sums_are_refused() -> None:
    at = next(at for table, field, _, at in places() if (table, field) == ("base", "scale"))
    with pytest.raises(StateDamaged, match=r"base table: scale of plain is 0.0, which no rows lead to"):
        Advisor.from_bytes(with_words(("f", at, 0.0)))
    advisor = Advisor.from_bytes(taught())
    advisor.forget("plain")
    Advisor.from_bytes(advisor.to_bytes())  # they are forgotten


@pytest.mark.parametrize("value", [-2, 4, 2**40])
def test_a_record_of_no_component_is_refused(value: int) -> None:
    at = next(at for table, field, _, at in places() if table == "learner-2" and field == "component")
    with pytest.raises(StateDamaged, match="component of no component is"):
        Advisor.from_bytes(with_words(("i", at, value)))


def test_a_state_file_is_looked_at_likewise() -> None:
    at = next(at for table, field, _, at in places() if (table, field) == ("base", "scale"))
    payloads = deque(frame.data for frame in read_frames(with_words(("f", at, NAN))) if frame.data)
    with pytest.raises(StateDamaged, match="base table: scale of plain is nan") as caught:
        Engine.restore(Stored(payloads, (), sum(map(len, payloads))))
    assert caught.value.components == ("plain",)


# -- task types and programs ----------------------------------------------------------------------------------------------


def teach_records(advisor: Advisor, instances: int) -> None:
    mix = task_mixes.forces(instances)
    advisor.observe_instances(
        types=["type"], index=np.zeros(len(mix.sizes), np.int64), elapsed_s=mix.times, size=mix.sizes,
        active_cores=mix.running,
    )  # fmt: skip
    for reported in runs():
        advisor.observe_run("program", **reported)


def test_records_of_any_past_are_taken_back() -> None:
    """Merged, forgotten to almost nothing, of few and of many: no law of theirs is one that rows break."""
    advisor, other = Advisor(), Advisor()
    for keep in (1e-3, 0.5, 1e-4):
        teach_records(advisor, 7)
        other.merge(Advisor.from_bytes(advisor.to_bytes()))
        advisor.forget("type", keep=keep)
        assert Advisor.from_bytes(advisor.to_bytes()).to_bytes() == advisor.to_bytes()
        teach_records(other, 150)
        assert Advisor.from_bytes(other.to_bytes()).to_bytes() == other.to_bytes()
    for _ in range(4):
        advisor.forget("type", keep=1e-60)  # was an error of ours, with sums that had become nothing
        with pytest.raises((NotEnoughData, UnknownComponent)):
            advisor.predict("type", predictor=1e3, model="clusters")
