"""Parts and changes of a state: the whole is the merge of its parts, and who follows its changes has it, to the byte."""

from __future__ import annotations

import pickle
from collections.abc import Collection
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from stored import Stored
from task_program import Program, recursive

from advisor.domain.buckets import BUCKETS, bucket_of
from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.domain.task_events import TaskEvents
from advisor.engine import Advisor, Engine
from advisor.engine.engine import PARTS
from advisor.engine.events import (
    ComponentForgotten,
    ComponentPinned,
    Event,
    NetworkDefined,
    ProgramForgotten,
    RunObserved,
    Travels,
)
from advisor.errors import UnknownComponent, UnknownProgram
from advisor.profile.view import profile_of

KEY = ("producer", bytes(16))
NAMES = [f"c{i}" for i in range(9)]
MEMORY = 2**20
RUN = {"workers": 4, "elapsed_s": 1.0, "work_s": 3.1, "delay_s": 0.5, "no_work_s": 0.4, "creates": 9, "waits": 2}
TASKS = [Program(2, recursive(2, 2, 500 + 200 * kind)).run() for kind in range(2)]


def rows_of(seed: int, n: int = 40) -> Columns:
    """Return rows with measures, networks, machines and busy cores; those of every third seed have two predictors."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(1, 100, (n, 2))
    index = rng.integers(0, len(NAMES), n)
    two = seed % 3 == 2
    peaks = rng.uniform(1e6, 1e9, n)
    peaks[index % 3 > 0] = np.nan
    return columns_of(
        ComponentNames([name.replace("c", "v") for name in NAMES] if two else NAMES), index, x if two else x[:, 0],
        rng.choice([1.0, 2.0, 4.0], n), rng.uniform(0.1, 1.0, n),
        count=rng.integers(1, 3, n), ok=rng.random(n) > 0.1, machine=[("a", "b")[i % 2] for i in range(n)],
        network=[("n0", "n1", None)[i % 3] for i in range(n)], entered=np.arange(n) % 3 == 0,
        active_cores=np.where(np.arange(n) % 2 == 0, np.nan, 9.0),
        measures={"peak_bytes": peaks},
    )  # fmt: skip


def event(number: int, kind: int) -> Event:
    made: list[Event] = [
        rows_of(number), rows_of(number + 1000, 200),
        ComponentForgotten(NAMES[number % 9]), ComponentForgotten(NAMES[number % 9]),
        ComponentForgotten(NAMES[number * 2 % 9]), ComponentPinned(NAMES[number % 9], "two_step"),
        RunObserved({"program": f"p{number % 3}", "size": 1 + number} | RUN), ProgramForgotten(f"p{number % 3}"),
        NetworkDefined("c0 .. (c1 | c2)", f"n{number % 3}"),
        TaskEvents(TASKS[number % 2].records, tuple(TASKS[number % 2].strings), ended=True),
        rows_of(number, 5), Travels(rows_of(number)),
    ]  # fmt: skip
    return made[kind % len(made)]


def happens(engine: Engine, kinds: Collection[int], start: int = 0) -> None:
    for number, kind in enumerate(kinds, start):
        what = event(number, kind)
        run = isinstance(what, TaskEvents)
        try:
            if run:
                engine.apply_event((f"run-{number}", bytes(16)), 1, what)
            else:
                engine.apply_event(KEY, engine.applied(*KEY) + 1, what)
        except (UnknownComponent, UnknownProgram):  # nothing happens, in any engine
            assert not isinstance(what, (Columns, TaskEvents))


def taught(kinds: Collection[int]) -> Engine:
    engine = Engine(model_memory_bytes=MEMORY)
    happens(engine, [0, 0, 0, 1, 6, 8, 9, *kinds])
    return engine


def canonical(engine: Engine) -> tuple[bytes, dict[Any, Any]]:
    """Return the state in its one order; profiles as pictures, for what is open in one is noted where it was copied."""
    profiles = {key: profile_of(run).as_dict() for key, run in engine.profiles.runs.items()}
    return engine.extract(parts=PARTS[:-1]), profiles


NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)  # a state is as small as it can be told apart
KINDS = st.lists(st.integers(0, 11), max_size=8)


@settings(max_examples=8, deadline=None, phases=NO_SHRINKING)
@given(KINDS, st.integers(2, 4))
def test_the_whole_is_the_merge_of_its_parts_to_the_byte(kinds: list[int], shards: int) -> None:
    engine = taught(kinds)
    whole, names = canonical(engine), [*engine.advisor.components.slots.components, *engine.advisor.task_types.known]
    parts = [
        engine.extract([n for n in names if bucket_of(n) % shards == shard], PARTS[shard::shards])
        for shard in range(shards)
    ]
    for order in (parts, parts[::-1]):
        total = Engine(model_memory_bytes=MEMORY)
        for part in order:
            total.merge(Engine.from_bytes(part))
        assert canonical(total) == whole
    assert Advisor.from_bytes(whole[0]).extract() == engine.advisor.extract()
    again = pickle.loads(pickle.dumps(engine))
    assert canonical(again) == whole
    assert again.advisor.to_bytes() == engine.advisor.to_bytes()
    assert again.producers == engine.producers
    assert pickle.loads(pickle.dumps(engine.advisor)).to_bytes() == engine.advisor.to_bytes()


@settings(max_examples=8, deadline=None, phases=NO_SHRINKING)
@given(st.lists(st.lists(st.sampled_from([*range(9), 11]), max_size=4), min_size=1, max_size=5), st.data())
def test_what_is_dropped_is_gone_from_image_and_log_too(kinds: list[list[int]], data: st.DataObject) -> None:
    engine, storage = Engine(model_memory_bytes=MEMORY), Stored()
    engine.journal.keep()
    for number, some in enumerate([[0, 1, 4], *kinds, [4, 0]]):
        happens(engine, some, 10 * number)
        if data.draw(st.booleans()):
            engine.take_image()
            engine.journal.beyond = True  # it could not be written
        entry = None if data.draw(st.booleans()) else engine.take_entry()
        if entry is None:
            storage.commit(engine.take_image())
        else:
            storage.append(entry)
        restored = Engine.restore(storage.stored(), model_memory_bytes=MEMORY)
        assert canonical(restored) == canonical(engine)
        assert restored.advisor.to_bytes() == engine.advisor.to_bytes()
        happens(restored, [0, 1], 500)
        twin = Engine.from_bytes(engine.to_bytes())
        happens(twin, [0, 1], 500)
        assert canonical(restored) == canonical(twin)


def test_a_dropped_component_leaves_its_slot_to_the_next_new_name() -> None:
    engine = Engine(components_max=4)
    key = ("p", bytes(16))

    def of(*names: str) -> Columns:
        each = [1.0] * len(names)
        return columns_of(ComponentNames(names), range(len(names)), each, each, [0.5] * len(names))

    engine.apply_event(key, 1, of("a", "b", "c", "d"))
    assert engine.take_plain_batch(key, 2, [["b", 1.0, 1.0, 0.5]])
    engine.remove_part(("b", "c", "nobody"))
    assert list(engine.advisor.components.slots.components) == ["a", "d"]
    assert not engine.take_plain_batch(key, 3, [["b", 1.0, 1.0, 0.5]])
    answer = engine.apply_event(key, 3, of("x", "b", "y"))
    assert (answer["accepted"], answer["refused"]["by_code"]) == (2, {"too_many_components": 1})
    assert engine.take_plain_batch(key, 4, [["b", 1.0, 1.0, 0.5], ["a", 1.0, 1.0, 0.5], ["x", 1.0, 1.0, 0.5]])
    engine.fold_plain_rows()
    rows = {each["component"]: each["rows"] for each in engine.advisor.status()["components"]}
    assert rows == {"a": 2, "x": 2, "b": 2, "d": 1}
    assert Advisor.from_bytes(engine.to_bytes()).status()["components_known"] == 4


def test_a_bucket_is_the_same_everywhere() -> None:
    assert [bucket_of(name) for name in ("blur", "e\u0301te\u0301", "\u00e9t\u00e9")] == [2854, 3013, 3013]
    counts = np.bincount([bucket_of(f"component-{i}") for i in range(40 * BUCKETS)], minlength=BUCKETS)
    assert len(counts) == BUCKETS
    chi: Any = ((counts - 40.0) ** 2 / 40.0).sum()
    assert abs(chi - BUCKETS) < 5 * (2 * BUCKETS) ** 0.5


def test_a_part_moves_to_another_engine_and_rows_split_by_network_teach_as_whole_ones() -> None:
    engine, split, home = (Engine(model_memory_bytes=MEMORY) for _ in range(3))
    for each, name in product((engine, home), ("n0", "n1")):
        each.apply_event(None, None, NetworkDefined("a .. b", name))
    for number in range(4):
        rows = rows_of(3 * number)
        engine.apply_event(KEY, number + 1, rows)
        bare = replace(rows, network=None, networks=(), entered=None)
        split.apply_event(KEY, number + 1, bare)
        home.apply_event(KEY, number + 1, Travels(rows))
    assert canonical_parts(split, ()) == canonical_parts(engine, ())
    assert not home.advisor.components.slots.components
    flows = [list(each.advisor.components.flows.records()) for each in (home, engine)]
    assert flows[0] == flows[1]
    assert "n0" in home.advisor.components.flows.known
    before = split.extract(NAMES, ())
    moved = split.extract(NAMES[:4], ())
    home.replace_part(Engine.from_bytes(moved))
    home.replace_part(Engine.from_bytes(moved))  # twice is once
    split.remove_part(NAMES[:4])
    assert list(home.advisor.components.slots.components) == sorted(home.advisor.components.slots.components)
    assert home.extract(NAMES[:4], ()) == moved_part(before, NAMES[:4])
    assert split.extract(NAMES, ()) == moved_part(before, NAMES[4:])
    home.replace_part(Engine.from_bytes(split.extract(NAMES[4:], ())))
    assert home.extract(NAMES, ()) == before


def canonical_parts(engine: Engine, parts: Collection[str]) -> bytes:
    return engine.extract(NAMES, parts)


def moved_part(state: bytes, names: Collection[str]) -> bytes:
    return Engine.from_bytes(state).extract(names, ())
