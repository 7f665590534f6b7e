"""Lines of the log are written behind: whoever logs never waits, and what nobody reads is counted."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator

import pytest

from advisor.service import logs


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    os.close(ends[0])


def reported(number: int) -> logging.LogRecord:
    return logging.makeLogRecord({"name": logs.log.name, "msg": f"line {number}", "levelno": logging.INFO})


def test_a_full_pipe_holds_nobody_up_and_what_is_dropped_is_counted(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "HELD_LINES_MAX", 500)
    behind = logs.BoundedLines(pipe[1])
    behind.setFormatter(logs.JsonLines())
    for number in range(10_000):
        behind.handle(reported(number))
    assert behind.dropped > 0
    with os.fdopen(os.dup(pipe[0])) as reader:
        numbers = [
            int(json.loads(reader.readline())["event"].removeprefix("line ")) for _ in range(10_000 - behind.dropped)
        ]
    assert numbers == sorted(numbers)
    behind.flush()
    os.close(pipe[1])


def test_lines_to_a_reader_that_has_gone_are_dropped() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    behind = logs.BoundedLines(writer)
    behind.handle(reported(1))
    behind.flush()
    assert behind.dropped == 1
    os.close(writer)
