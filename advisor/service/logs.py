"""Structured logs: one JSON object a line on standard error. Names from peers are escaped by JSON itself."""

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


class JsonLines(logging.Formatter):
    """A record as one line of JSON: time, level, event, and the event's fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage()[:VALUE_CHARACTERS_MAX],
        }
        if record.name != log.name:
            line["logger"] = record.name
        for key, value in getattr(record, "fields", {}).items():
            plain = value is None or isinstance(value, (int, float))
            line[key] = value if plain else str(value)[:VALUE_CHARACTERS_MAX]
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)[-4000:]
        return json.dumps(line)


def to_stderr(level: str) -> None:
    """Send all logs of this process to standard error, as lines of JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
