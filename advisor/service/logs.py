"""Structured logs on standard error: text on a terminal, else one JSON object a line. Names from peers are escaped by JSON.

Lines are written by a thread of their own: the service goes on where standard error is a pipe that nobody reads.
"""

from __future__ import annotations

import json
import logging
import os
import select
import sys
from datetime import UTC, datetime
from logging.handlers import QueueHandler
from queue import Full, Queue
from threading import Thread
from typing import Any, cast

log = logging.getLogger("advisor.service")

VALUE_CHARACTERS_MAX = 500  # of one field: a hostile name or path cannot fill a disk
HELD_LINES_MAX = 16_384  # lines that wait to be written, some 3 MiB; what comes beyond is dropped and counted
FLUSH_S = 1.0  # for lines that wait at the end: whoever reads them at all needs a millisecond


def event(level: int, name: str, /, *, error: BaseException | None = None, **fields: Any) -> None:
    """Log an event with its fields."""
    log.log(level, name, exc_info=error if level >= logging.ERROR else None, extra={"fields": fields})


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return a record as plain values: level, event, and the event's fields."""
    line: dict[str, Any] = {"level": record.levelname.lower(), "event": record.getMessage()[:VALUE_CHARACTERS_MAX]}
    if record.name != log.name:
        line["logger"] = record.name
    for key, value in getattr(record, "fields", {}).items():
        plain = value is None or isinstance(value, (int, float))
        line[key] = value if plain else str(value)[:VALUE_CHARACTERS_MAX]
    return line


class JsonLines(logging.Formatter):
    """A record as one line of JSON: time, level, event, and the event's fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": at} | fields_of(record)
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)[-4000:]
        return json.dumps(line)


class TextLines(logging.Formatter):
    """A record for people: time of day, level where it is not info, event, and the fields that say something."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and the trace of an error below it."""
        line = fields_of(record)
        level, name = line.pop("level"), line.pop("event")
        at = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        said = [f"{key}={self._value(value)}" for key, value in line.items() if value is not None]
        words = [at, *([] if level == "info" else [f"{level.upper()}:"]), name, *said]
        trace = "\n" + self.formatException(record.exc_info)[-4000:] if record.exc_info else ""
        return "  ".join(words) + trace

    def _value(self, value: Any) -> str:
        """Return a value without anything that moves a terminal's cursor; quoted where it has spaces."""
        text = str(value)
        return text if text.isprintable() and " " not in text and text else json.dumps(text)


class BoundedLines(QueueHandler):
    """Hands lines to a thread that writes them to a file descriptor, so that no logger waits for whoever reads them.

    The thread is no handler's: one that hangs would keep its lock from the interpreter's end.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(Queue[logging.LogRecord](HELD_LINES_MAX))
        self._descriptor = descriptor
        self.dropped = 0  # lines that had no room, or could not be written
        Thread(target=self._write_lines, name="log", daemon=True).start()

    def enqueue(self, record: logging.LogRecord) -> None:
        """Hold a record's line until it is written; drop and count it where too many are held."""
        try:
            self.queue.put_nowait(record)
        except Full:
            self.dropped += 1

    def flush(self) -> None:
        """Wait until all lines are written, `FLUSH_S` at most."""
        lines = cast("Queue[logging.LogRecord]", self.queue)
        with lines.all_tasks_done:
            lines.all_tasks_done.wait_for(lambda: not lines.unfinished_tasks, FLUSH_S)

    def _write_lines(self) -> None:
        lines = cast("Queue[logging.LogRecord]", self.queue)
        while True:
            line = f"{lines.get().msg}\n".encode(errors="backslashreplace")
            try:
                while line:
                    try:
                        line = line[os.write(self._descriptor, line) :]
                    except BlockingIOError:  # somebody else has made what both of them write to non-blocking
                        select.select([], [self._descriptor], [])
            except OSError:  # whoever read has gone
                self.dropped += 1
            lines.task_done()


def lines_dropped() -> int:
    """Return how many lines of this process nobody read in time."""
    return sum(each.dropped for each in logging.getLogger().handlers if isinstance(each, BoundedLines))


def to_stderr(level: str) -> logging.Handler:
    """Send all logs of this process to standard error: for people where that is a terminal, else as lines of JSON."""
    handler = BoundedLines(sys.stderr.fileno())
    handler.setFormatter(TextLines() if sys.stderr.isatty() else JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    return handler
