"""Profiles of runs: forgotten, and what is stored of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from stored import Stored
from task_program import Program, recursive

from advisor.domain.task_events import TaskEvents
from advisor.engine import Engine

ONE, TWO = bytes(15) + b"\1", bytes(15) + b"\2"


def producers(engine: Engine) -> list[tuple[str, bytes]]:
    return [
        (run["producer"], run["incarnation"])
        for run in engine.profiles.answer(None, None, nodes=False, diagnosis=False)["runs"]
    ]


def profile(engine: Engine, producer: str) -> dict[str, Any]:
    return engine.profiles.answer(producer, None, nodes=True, diagnosis=False, ended=True)["profile"]


@pytest.fixture(scope="module")
def halves() -> tuple[TaskEvents, TaskEvents]:
    """A run of two threads in two batches, in order of time."""
    whole = Program(2, recursive(4, 2, 700)).run()
    ordered = whole.records[whole.records["time"].argsort(kind="stable")]
    middle = len(ordered) // 2
    first = TaskEvents(ordered[:middle], strings=whole.strings)
    return first, TaskEvents(ordered[middle:], ended=True)


def test_processor_time_comes_with_the_end_and_stays(halves: tuple[TaskEvents, TaskEvents]) -> None:
    engine, stored = Engine(), Stored()
    first, last = halves
    for number, events in enumerate((first, replace(last, cpu_s=2.5)), 1):
        engine.apply_event(("p", ONE), number, events)
    stored.commit(engine.take_image())
    for each in (engine, Engine.restore(stored.stored())):
        assert profile(each, "p")["measures"]["cpu_s"] == 2.5


def test_after_a_restart_who_was_silent_longest_gives_way_and_who_has_ended_is_dropped(
    halves: tuple[TaskEvents, TaskEvents],
) -> None:
    engine, stored = Engine(), Stored()
    engine.profiles.runs_max = 3
    for name in "acbcde":  # a gives way to d, b to e, which have their numbers
        known = (name, ONE) in engine.producers
        engine.apply_event((name, ONE), 1 + known, halves[known])
    stored.commit(engine.take_image())
    restored = Engine.restore(stored.stored())
    restored.profiles.runs_max = 3
    for each in (engine, restored):
        assert [name for name, _ in producers(each)] == ["e", "d", "c"]
        each.apply_event(("f", ONE), 1, halves[0])
        each.apply_event(("g", ONE), 1, halves[0])
        assert [name for name, _ in producers(each)] == ["g", "f", "e"]
