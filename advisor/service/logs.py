"""Structured logs on standard error: text on a terminal, else one JSON object a line. Names from peers are escaped by JSON."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

log = logging.getLogger("advisor.service")

VALUE_CHARACTERS_MAX = 500  # of one field: a hostile name or path cannot fill a disk


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


def to_stderr(level: str) -> None:
    """Send all logs of this process to standard error: for people where that is a terminal, else as lines of JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextLines() if sys.stderr.isatty() else JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
