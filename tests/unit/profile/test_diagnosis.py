"""Each finding on a program that has the fault, none on one without; a promised gain is there when the advice is followed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from task_program import Body, Program, recursive

from advisor.files.profiles import read_profile
from advisor.profile.diagnosis import Finding, diagnose
from advisor.profile.profiler import Profiler
from advisor.profile.tree import Profile
from advisor.profile.view import profile_of

QUEENS = Path(__file__).parents[2] / "golden" / "nqueens-9.events"


def profile(threads: int, main: Body, **runtime: Any) -> Profile:
    profiler = Profiler()
    profiler.fold_batch(Program(threads, main, **runtime).run())
    profiler.flush()
    return profile_of(profiler)


def found(of: Profile) -> dict[str, Finding]:
    findings = diagnose(of)
    assert [each.loss_s for each in findings] == sorted((each.loss_s for each in findings), reverse=True)
    return {each.code: each for each in findings}


def works(ns: int) -> Body:
    def body() -> Iterator[tuple[Any, ...]]:
        yield ("work", ns)

    return body


def flat(times: list[int], create_after_ns: int = 0) -> Body:
    """Return a main that makes a task for each time and waits for them."""

    def body() -> Iterator[tuple[Any, ...]]:
        for ns in times:
            if create_after_ns:
                yield ("work", create_after_ns)
            yield ("create", "A", works(ns))
        yield ("taskwait",)

    return body


def cut_at(depth: int, width: int, work_ns: int, cut: int, level: int = 0) -> Body:
    """Return `recursive` without tasks from level `cut` on: their work is done by the caller."""

    def whole(at: int) -> int:
        below = width * whole(at + 1) if at < depth else 0
        return work_ns + work_ns // 2 + below

    def body() -> Iterator[tuple[Any, ...]]:
        if level + 1 >= cut:
            yield ("work", whole(level))
            return
        yield ("work", work_ns)
        for _ in range(width):
            yield ("create", "solve task", cut_at(depth, width, work_ns, cut, level + 1), level + 1)
        yield ("taskwait",)
        yield ("work", work_ns // 2)

    return body


def test_a_program_without_fault_has_none() -> None:
    assert not found(profile(4, flat([20_000] * 1000)))


def test_workers_without_tasks_are_told_how_many_would_do() -> None:
    def chain(length: int) -> Body:
        def body() -> Iterator[tuple[Any, ...]]:
            yield ("work", 10_000)
            if length:
                yield ("create", "A", chain(length - 1))
                yield ("taskwait",)

        return body

    finding = found(profile(4, chain(30)))["idle_workers"]
    assert finding.evidence["parallelism"] == pytest.approx(1.0, rel=0.01)
    assert "with no task ready" in finding.text
    assert "keep 1 core busy at most" in finding.advice


def test_workers_that_wait_beside_plenty_of_parallelism_are_not_too_many() -> None:
    of = profile(4, flat([10_000] * 100), create_ns=9000)  # creation is no work: the path through it is short
    assert of.measures.parallelism >= 8
    finding = found(of)["idle_workers"]
    assert "with no task ready" in finding.text
    assert "there is work for" in finding.advice


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("contention", [0.0, 2.0])
def test_stopping_where_it_says_gains_what_it_says(threads: int, contention: float) -> None:
    """The cut-off's gain, within a factor of 1.5, by executing the program with it."""
    depth, width, work_ns = 6, 4, 200
    runtime: dict[str, Any] = {"create_ns": 300, "contention": contention, "switch_ns": 100}
    of = profile(threads, recursive(depth, width, work_ns), **runtime)
    finding = found(of)["tasks_too_small"]
    assert finding.evidence["parameter"] == "depth"
    cut = finding.evidence["cut_off"]
    assert finding.advice == f"stop at depth {cut}"
    assert finding.evidence["tasks_kept"] == sum(width**level for level in range(1, cut))
    after = profile(threads, cut_at(depth, width, work_ns, cut), **runtime)
    assert after.measures.ends == finding.evidence["tasks_kept"]
    gain = of.measures.elapsed_s / after.measures.elapsed_s
    assert gain / 1.5 < finding.gain < gain * 1.5
    assert f"at most {finding.gain:.2g} times faster" in finding.text


def test_a_recorded_run_of_queens_is_promised_what_its_creations_took() -> None:
    """`nqueens 9` of tests/support/openmp, recorded on one thread as sums: what is said of it depends on no machine."""
    of = read_profile(QUEENS)
    finding = found(of)["tasks_too_small"]
    assert (finding.evidence["parameter"], finding.evidence["cut_off"]) == ("depth", 3)
    assert 1.1 < finding.gain < 1.2
    assert 0.0 < of.measures.cpu_s < 1.0
