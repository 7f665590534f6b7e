"""States whose words no rows lead to, under checksums that fit: refused with words, or harmless; never a crash."""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import pytest
import task_mixes
from program_runs import runs

from advisor import Advisor
from advisor.engine import Engine
from advisor.engine.state_bytes import MAGIC, Stored, frames
from advisor.errors import AdvisorError, NotEnoughData, StateDamaged, UnknownComponent
from advisor.models import layout
from advisor.models.contention import FIELDS as CONTENTION_FIELDS
from advisor.models.learner_layout import fields_of
from advisor.models.type_verdict import MODELS

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


def blocks(data: bytes) -> Iterator[tuple[int, dict[str, Any], int]]:
    """Yield of each block where its frame begins, its head, and where its body begins."""
    frame = len(MAGIC)
    while (length := struct.unpack_from("<Q", data, frame)[0]) > 0:
        start = frame + 16
        (head,) = struct.unpack_from("<I", data, start - 4)
        yield frame, json.loads(data[start : start + head]), start + head
        frame += 12 + length


def places() -> Iterator[tuple[str, str, str, int]]:
    """Yield (table, field, kind, offset in the bytes) of each word."""
    for _, head, at in blocks(taught()):
        if head["kind"] != "components":
            continue
        for _ in head["names"]:
            for field, width, kind, *_ in layout.FIELDS:
                for _ in range(width):
                    yield "base", field, kind, at
                    at += 8  # noqa: PLW2901
        for table, _, size in head["tables"]:
            fields = CONTENTION_FIELDS if table == "contention" else fields_of(int(table.split("-")[1]))
            at += 8 * size  # noqa: PLW2901
            for _ in range(size):
                for field, width, kind, *_ in fields:
                    for _ in range(width):
                        yield table, field, kind, at
                        at += 8  # noqa: PLW2901


def with_words(*changes: tuple[str, int, float]) -> bytes:
    """Return the state with words (kind, offset, value) changed, and its checksums mended."""
    data = bytearray(taught())
    for kind, at, value in changes:
        struct.pack_into("<q" if kind == "i" else "<d", data, at, value)
    for frame, _, _ in blocks(taught()):
        (length,) = struct.unpack_from("<Q", data, frame)
        struct.pack_into("<I", data, frame + 8, zlib.crc32(data[frame + 12 : frame + 12 + length]))
    return bytes(data)


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
    at = next(at for table, field, _, at in places() if (table, field) == ("base", "scale"))
    payloads = deque(list(frames(with_words(("f", at, NAN))[len(MAGIC) :]))[:-1])
    with pytest.raises(StateDamaged, match="base table: scale of plain is nan") as caught:
        Engine.restore(Stored(payloads, (), sum(map(len, payloads))))
    assert caught.value.components == ("plain",)


# -- task types and programs ----------------------------------------------------------------------------------------------


@cache
def records() -> tuple[bytes, bytes]:
    """Return the record of a task type, and of a program."""
    advisor = Advisor()
    teach_records(advisor, 300)
    return advisor.task_types.kind.encode_record("type"), advisor.programs.kind.encode_record("program")


def teach_records(advisor: Advisor, instances: int) -> None:
    mix = task_mixes.forces(instances)
    advisor.observe_instances(
        types=["type"], index=np.zeros(len(mix.sizes), np.int64), elapsed_s=mix.times, size=mix.sizes,
        active_cores=mix.running,
    )  # fmt: skip
    for told in runs():
        advisor.observe_run("program", **told)


def taken(type_record: bytes, program_record: bytes) -> Advisor:
    advisor = Advisor()
    advisor.task_types.kind.restore_record("type", type_record)
    advisor.programs.kind.restore_record("program", program_record)
    return advisor


def use_records(advisor: Advisor) -> None:
    """Ask, teach, merge and forget: what comes is an answer that is a number, or an error with words."""
    for again in (True, False):
        for model in MODELS:
            with suppress(NotEnoughData):
                told = np.asarray(advisor.predict("type", predictor=np.array([1e3, 1e6]), model=model).elapsed_s)
                assert np.isfinite(told).all()
                assert (told > 0).all()
        for variant in ("printed", "extended"):
            with suppress(NotEnoughData):
                assert np.isfinite(advisor.predict_run("program", size=800.0, workers=4, model=variant).elapsed_s)
        advisor.status()
        if again:
            teach_records(advisor, 40)
            advisor.merge(taken(*records()))
            advisor = Advisor.from_bytes(advisor.to_bytes())
            advisor.forget("type", keep=0.3)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the answer is what counts
@pytest.mark.parametrize("kind", ["type", "program"])
@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(60, 600), marks=pytest.mark.slow)])
def test_no_word_of_a_record_crashes_what_uses_it(kind: str, seeds: range) -> None:
    place = ("type", "program").index(kind)
    head = place  # a program begins with its transformation
    refused = 0
    for seed in seeds:
        rng, own = random.Random(seed), list(records())
        words = np.frombuffer(own[place], "<f8", (len(own[place]) - head) // 8, head).copy()
        used = np.flatnonzero(words).tolist()
        at = rng.choice((rng.randrange(60), rng.choice(used), rng.choice(used)))
        words[at] = rng.choice((*STRANGE, 0.5, 3.7, 2.0**52, words[at] * 1e3))
        own[place] = own[place][:head] + words.tobytes() + own[place][head + 8 * len(words) :]
        try:
            use_records(taken(*own))
        except StateDamaged as damaged:
            refused += damaged.components == (kind,) and "lead to" in str(damaged)
    assert refused > len(seeds) // 4


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
