"""What was learned, kept in one file that several processes share: one writes it, the others leave their rows beside it.

Whoever holds the lock of the file writes it, whole and by renaming, so that a reader never meets half of one. Another process
puts its rows into files of its own beside it, each whole and by renaming, too; who writes takes them. The state names those
that it holds, so that a row is learned once, whenever a process is killed. Rows of the last `SAVE_S` seconds are lost with a
process that is killed; one that ends leaves them.

Nothing here stops a program: what cannot be written or read is logged, and the program goes on with what it has in memory.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing import util
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from advisor.errors import AdvisorError, StateTooNew

if TYPE_CHECKING:
    from advisor import Advisor

SAVE_S: Final = 30.0  # between two writings, of a millisecond each
ROWS_MAX: Final = 100_000  # that wait to be written, some 20 MB: they are let go of, and it is logged
HEADER_BYTES_MAX: Final = 1 << 20  # of the line before the state: names of files of rows, 60 bytes each
FORMAT: Final = 1
PAUSE_S: Final = 0.01  # that a call waits at most while rows are learned: not compiled yet, a row takes 20 ms
CATCH_UP_S: Final = 0.5  # that the end of a process may wait; a second process learns what takes longer
TOGETHER: Final = 256  # rows learned at once, where nobody asks: a batch costs 0.1 ms and a microsecond a row
GROWTH: Final = 4  # of batches until the pause is over: not compiled yet, some rows take a hundred times others
Row = list[Any]  # component, predictor, cores, elapsed_s, active cores (NaN: nobody looked), ok

log = logging.getLogger("advisor.threads")


class FunctionMemory:
    """An advisor of this process behind a lock, with its file. Safe to use from all threads, and after a fork.

    Parameters
    ----------
    path : Path or None
        The file; None keeps nothing.
    clock : callable
        Seconds, for who replays calls.
    """

    def __init__(self, path: Path | None, clock: Callable[[], float] = time.perf_counter) -> None:
        self.path = path
        self._clock = clock
        self._lock = threading.RLock()
        self._advisor: Advisor | None = None
        self._rows: list[Row] = []  # in no file yet
        self._learned = 0  # of them
        self._row_s = 0.0  # that a row took to be learned, of late
        self._taken: set[str] = set()  # files of rows that the state holds
        self._held: int | None = None  # the lock's descriptor, where this process writes
        self._pid = os.getpid()
        self._files = 0
        self._saved_at = self._clock()
        os.register_at_fork(
            before=self._hold, after_in_parent=self._free,
            after_in_child=self._in_child,
        )  # fmt: skip
        if path is not None:
            atexit.register(self.close)
            util.register_after_fork(self, FunctionMemory._close_at_end)
            self._close_at_end()

    def _hold(self) -> None:
        self._lock.acquire()

    def _free(self) -> None:
        self._lock.release()

    # -- verbs, as an advisor has them ----------------------------------------------------------------------------------

    def observe(
        self,
        component: str,
        *,
        predictor: Any,
        cores: int,
        elapsed_s: float,
        active_cores: float = math.nan,
        ok: bool = True,
    ) -> None:
        """Take a run; it is learned with others, before a question."""
        with self._lock:
            self._rows.append([component, predictor, cores, elapsed_s, active_cores, ok])
            several = len(self._rows) - self._learned >= TOGETHER and TOGETHER * self._row_s <= PAUSE_S
            if several and self._advisor is not None:  # to load it takes 0.3 s, which no call waits for
                self._learn()
            if self.path is not None and self._clock() - self._saved_at > SAVE_S:
                self._save()

    def predict(self, component: str, **asked: Any) -> Any:
        """Predict the elapsed time of runs, as an advisor does."""
        with self._lock:
            return self._learn().predict(component, **asked)

    def choose_together(self, **asked: Any) -> Any:
        """Choose the cores of jobs that share a pool, as an advisor does."""
        with self._lock:
            return self._learn().choose_together(**asked)

    def _learn(self) -> Advisor:
        """Learn the oldest rows that wait, as many as `PAUSE_S` allows; rows that no file will have are let go of."""
        advisor = self._ready()
        begun, before = self._clock(), self._learned
        several = max(1, int(PAUSE_S / GROWTH / self._row_s)) if self._row_s else 1
        while self._learned < len(self._rows) and self._clock() - begun <= PAUSE_S:
            learn_rows(advisor, self._rows[self._learned : self._learned + several])
            self._learned = min(self._learned + several, len(self._rows))
            several *= GROWTH
        if self._learned > before:
            self._row_s = (self._clock() - begun) / (self._learned - before)
        if self.path is None or len(self._rows) > ROWS_MAX:
            if self.path is not None:
                log.warning("%s is not written: %d runs of this process are in no file", self.path, len(self._rows))
            self._rows, self._learned = self._rows[self._learned :][-ROWS_MAX:], 0
        return advisor

    def flush(self) -> None:
        """Write what was learned now."""
        with self._lock:
            if self._rows:
                self._save()

    def close(self) -> None:
        """Write what was learned, and let another process write from now on."""
        with self._lock:
            self.flush()
            self._release()

    # -- the file ---------------------------------------------------------------------------------------------------------

    def _ready(self) -> Advisor:
        if self._advisor is None:
            from advisor import Advisor  # noqa: PLC0415 - a program that never asks need not load it

            self._advisor = Advisor()
            if self.path is not None:
                self._saved_at = self._clock()
                self._load(take=self._lock_file())
        return self._advisor

    def _close_at_end(self) -> None:
        """Processes of multiprocessing end without atexit: they do what is registered here."""
        util.Finalize(None, self.close, exitpriority=10)

    def _lock_file(self) -> bool:
        """Return True where this process writes the file, from now on or before."""
        if self._held is not None:
            return True
        assert self.path is not None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            held = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            log.warning("nothing is kept: %s", error)
            return False
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(held)
            return False
        self._held = held
        return True

    def _release(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def _load(self, *, take: bool) -> bool:
        """Read the file; with `take` also the rows beside it. False where it may not be written."""
        from advisor import Advisor  # noqa: PLC0415

        assert self.path is not None
        self._advisor = Advisor()
        self._taken = set()
        try:
            with self.path.open("rb") as file:
                header = json.loads(file.readline(HEADER_BYTES_MAX))
                self._advisor = Advisor.from_bytes(file.read())
            self._taken = set(header["taken"])
        except FileNotFoundError:
            pass
        except StateTooNew as error:
            log.warning("%s: %s; it is left as it is, and nothing is kept", self.path, error)
            self._release()
            self.path = None
            return False
        except (OSError, ValueError, KeyError, TypeError, AdvisorError) as error:
            log.warning("%s cannot be read, it is put aside: %s", self.path, error)
            if take:
                self._aside()
        if take:
            self._take_rows()
        return True

    def _aside(self) -> None:
        assert self.path is not None
        try:
            self.path.replace(self.path.with_suffix(".damaged"))
        except OSError as error:
            log.warning("%s", error)

    def _take_rows(self) -> list[Path]:
        """Learn the rows that other processes have left; return their files."""
        assert self.path is not None
        assert self._advisor is not None
        found = sorted(self.path.parent.glob(f"{self.path.stem}.*.rows"))
        for path in found:
            if path.name in self._taken:
                continue
            try:
                learn_rows(self._advisor, json.loads(path.read_bytes()))
            except (OSError, ValueError, TypeError, LookupError) as error:
                log.warning("%s cannot be read, its rows are lost: %s", path, error)
            self._taken.add(path.name)
        self._taken &= {path.name for path in found}
        return found

    def _save(self) -> None:
        """Write the state, or leave the rows for who does."""
        self._saved_at = self._clock()
        if self.path is None or self._pid != os.getpid():  # a child that no hook knows of never writes its parent's
            return
        self._ready()
        waiting = self._rows[self._learned :]
        slow = len(waiting) * self._row_s > CATCH_UP_S  # nothing is compiled yet: a later process learns them
        try:
            took_over = self._held is None and self._lock_file()  # who wrote has ended: its state is newer than ours
            if self._held is None or slow:
                self._leave_rows(self._rows if self._held is None else waiting)
                if self._held is None:
                    learn_rows(self._advisor, [] if slow else waiting)
                    self._rows, self._learned = [], 0
                    return
                del self._rows[self._learned :]
            if took_over:
                if not self._load(take=not self._slow):
                    return
                learn_rows(self._advisor, self._rows)
            else:
                learn_rows(self._advisor, [] if slow else waiting)
            self._write([] if self._slow else self._take_rows())
        except OSError as error:
            log.warning("%s cannot be written, it is tried again: %s", self.path, error)

    @property
    def _slow(self) -> bool:
        """True while nothing is compiled yet: then rows that others left wait, too."""
        return TOGETHER * self._row_s > CATCH_UP_S

    def _write(self, taken: list[Path]) -> None:
        assert self.path is not None
        assert self._advisor is not None
        header = json.dumps({"format": FORMAT, "taken": sorted(self._taken)}).encode()
        write_atomically(self.path, header + b"\n" + self._advisor.to_bytes())
        self._rows, self._learned = [], 0
        for path in taken:
            path.unlink(missing_ok=True)

    def _leave_rows(self, rows: Sequence[Row]) -> None:
        assert self.path is not None
        if rows:
            self._files += 1
            name = f"{self.path.stem}.{os.getpid()}-{time.time_ns()}-{self._files}.rows"
            write_atomically(self.path.with_name(name), json.dumps(rows).encode())

    def _in_child(self) -> None:
        """In the child of a fork: go on with what the parent knew, and write nothing that is the parent's."""
        self._lock = threading.RLock()
        self._rows, self._learned = [], 0
        self._release()  # the parent's descriptor keeps the lock
        self._pid = os.getpid()


def learn_rows(advisor: Any, rows: Sequence[Row]) -> None:
    """Learn rows, of this process or of a file; those that are none are logged.

    Rows of one width of predictor go together, in their order: components have one width, so each meets its rows in order.
    """
    batches: dict[int, list[Row]] = {}
    for row in rows:
        width = len(cast("list[float]", row[1])) if isinstance(row[1], (list, tuple)) else 1
        batches.setdefault(width, []).append(row)
    for batch in batches.values():
        components, predictor, cores, elapsed_s, active_cores, ok = zip(*batch, strict=True)
        names = list(dict.fromkeys(components))
        numbers = {name: number for number, name in enumerate(names)}
        fields: dict[str, Any] = {} if all(ok) else {"ok": ok}
        if any(active == active for active in active_cores):  # noqa: PLR0124 - NaN is not itself
            fields["active_cores"] = active_cores
        try:
            receipt = advisor.observe_columns(
                components=names, index=[numbers[name] for name in components], predictor=predictor, cores=cores,
                elapsed_s=elapsed_s, **fields,
            )  # fmt: skip
        except (AdvisorError, TypeError, ValueError) as error:
            log.warning("%d runs are not learned: %s", len(batch), error)
            continue
        if receipt.refused.count:
            log.warning("%d of %d runs are not learned: %s", receipt.refused.count, len(batch), receipt.refused.first)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file whole, in place of what was there."""
    beside = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
