"""Task events as a trace for Chrome and Perfetto: JSON whose slices are regions and fragments of tasks, a row a thread.

Numbers of instances are text: JavaScript keeps 53 bits, and both viewers read an ``id`` in hexadecimal.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO

from advisor.domain.task_events import ABSENT_TYPE, Kind, RegionKind, SyncKind, TaskEvents
from advisor.errors import InvalidValue
from advisor.profile.reorder import WINDOW_NS, Reorder

SEPARATOR: Final = ",\n"
PROCESS: Final = 1
FIRST_THREAD: Final = 1  # 0 is the idle thread of the kernel to Perfetto, which merges it with another


@dataclass(slots=True)
class _Open:
    """What is open in a task: names of its slices, outermost first."""

    name: str
    slices: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


class TraceWriter:
    """Writes a trace; what a profiler would refuse is left out where no slice can be made of it.

    Parameters
    ----------
    path : Path
        Made anew; `InvalidValue` where it cannot be written.
    window_ns : int
        How far threads' streams may lie apart.
    """

    def __init__(self, path: Path, window_ns: int = WINDOW_NS) -> None:
        try:
            self._file: TextIO = path.open("w", encoding="utf-8")
        except OSError as error:
            raise InvalidValue("trace", str(path), f"a file that can be written ({error.strerror})") from error
        self._file.write('{"traceEvents":[\n')
        self._file.write(_json({"ph": "M", "pid": PROCESS, "name": "process_name", "args": {"name": "tasks"}}))
        self._strings: list[str] = []
        self._window = Reorder(window_ns)
        self._tasks: dict[int, _Open] = {}
        self._implicit: dict[int, _Open] = {}
        self._current: dict[int, int] = {}
        self._made: dict[int, str] = {}
        self._clock: Any = None
        self._latest = 0

    def write(self, events: TaskEvents) -> None:
        """Take a batch."""
        self._strings.extend(events.strings)
        self._clock = self._clock or events.clock
        self._put(*self._window.add_records(self._clock.nanoseconds(events.records["time"]), events.records))

    def close(self) -> None:
        """Write what is held back, end what is open, and close the file."""
        if len(self._window):
            self._put(*self._window.flush())
        for thread, implicit in self._implicit.items():
            running = self._tasks.get(self._current.get(thread, 0))
            for slices in ((running.slices if running else []), implicit.slices):
                for _ in slices:
                    self._say("E", thread, self._latest)
        # At the end: where it came first, Perfetto once took it for the unit of what follows.
        self._file.write('\n],"displayTimeUnit":"ns"}\n')
        self._file.close()

    def __enter__(self) -> TraceWriter:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def _put(self, times: Any, records: Any) -> None:
        columns = [records[name].tolist() for name in ("instance", "other", "type", "thread", "kind")]
        for now, number, other, name, thread, kind in zip(times.tolist(), *columns, strict=True):
            self._latest = now
            if kind < len(Kind):
                self._event(now, Kind(kind), number, other, self._text(name), thread)

    def _event(self, now: int, kind: Kind, number: int, other: int, name: str, thread: int) -> None:
        implicit = self._implicit.get(thread)
        if implicit is None:
            implicit = self._implicit[thread] = _Open("implicit")
            about = {
                "ph": "M",
                "pid": PROCESS,
                "tid": FIRST_THREAD + thread,
                "name": "thread_name",
                "args": {"name": f"thread {thread}"},
            }
            self._file.write(SEPARATOR + _json(about))
        here = self._tasks.get(self._current.get(thread, 0), implicit)
        match kind:
            case Kind.CREATE:
                self._made[number] = name
                self._say("s", thread, now, name="create", id=f"0x{number:x}", cat="task")
            case Kind.BEGIN:
                self._tasks[number] = _Open(name or self._made.get(number, "task"))
                self._switch(now, thread, number)
                self._open(
                    now, thread, self._tasks[number], self._tasks[number].name, "task", {"instance": str(number)}
                )
                if self._made.pop(number, None) is not None:
                    self._say("f", thread, now, name="create", id=f"0x{number:x}", cat="task", bp="e")
            case Kind.SWITCH if number == 0 or number in self._tasks:
                self._switch(now, thread, number)
            case Kind.END | Kind.CANCEL if number in self._tasks and self._current.get(thread) == number:
                while here.slices:
                    self._close(now, thread, here)
                del self._tasks[number]
                self._current[thread] = 0
            case Kind.ENTER | Kind.SYNC_BEGIN | Kind.IDLE_BEGIN:
                self._open(now, thread, here, name or "idle", _category(kind, other), {})
            case Kind.EXIT | Kind.SYNC_END | Kind.IDLE_END if here.slices and here.slices[-1][0] == (name or "idle"):
                self._close(now, thread, here)
            case _:
                pass

    def _switch(self, now: int, thread: int, number: int) -> None:
        running = self._current.get(thread, 0)
        if running == number:
            return
        if running in self._tasks:
            for _ in self._tasks[running].slices:
                self._say("E", thread, now)
        self._current[thread] = number
        if number:
            for name, category in self._tasks[number].slices:
                self._say("B", thread, now, name=name, cat=category, args={"instance": str(number)})

    def _open(self, now: int, thread: int, here: _Open, name: str, category: str, args: dict[str, str]) -> None:
        here.slices.append((name, category))
        self._say("B", thread, now, name=name, cat=category, args=args)

    def _close(self, now: int, thread: int, here: _Open) -> None:
        here.slices.pop()
        self._say("E", thread, now)

    def _say(self, phase: str, thread: int, now: int, **more: Any) -> None:
        self._file.write(
            SEPARATOR + _json({"ph": phase, "pid": PROCESS, "tid": FIRST_THREAD + thread, "ts": now / 1000.0, **more})
        )

    def _text(self, number: int) -> str:
        if number == ABSENT_TYPE:
            return ""
        return self._strings[number] if number < len(self._strings) else f"string {number}"


def _category(kind: Kind, other: int) -> str:
    names: Any = SyncKind if kind == Kind.SYNC_BEGIN else RegionKind
    if kind == Kind.IDLE_BEGIN:
        return "idle"
    return names(other).name.lower() if other in range(4) else "region"


def _json(event: dict[str, Any]) -> str:
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))
