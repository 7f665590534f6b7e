"""What was learned, kept in one file that several processes share.

Each process learns its own runs in memory. To save, it takes the file's lock, reads what others have saved meanwhile, learns
its unsaved runs upon that, and puts the file in place whole, by renaming. So a run counts once, and processes know of one
another's runs after each save. Runs of the last `SAVE_S` seconds are lost with a process that is killed.

Nothing here stops a program: what cannot be written or read is logged, and the program goes on with what it has in memory.
"""

from __future__ import annotations

import atexit
import fcntl
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

SAVE_S: Final = 30.0  # between two saves, of milliseconds each
ROWS_MAX: Final = (
    10_000  # unsaved, some 2 MB: with more it is saved at once, and where that fails the oldest are let go
)
TOGETHER: Final = 256  # rows learned at once, where nobody asks: a batch costs 0.1 ms and a microsecond a row
Row = tuple[
    str, Any, int, float, float, bool
]  # component, predictor, cores, elapsed_s, active cores (NaN: unknown), ok

log = logging.getLogger("advisor.threads")


class FunctionMemory:
    """An advisor of this process behind a lock, with its file. Safe to use from all threads, and after a fork.

    Parameters
    ----------
    path : Path
        The file.
    clock : callable
        Seconds, for who replays calls.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.perf_counter) -> None:
        self.path = path
        self._clock = clock
        self._lock = threading.RLock()
        self._advisor: Advisor | None = None
        self._rows: list[Row] = []  # not saved
        self._learned = 0  # of them
        self._keeps = True  # False: the file is of a later version, and is left as it is
        self._saved_at = self._clock()
        os.register_at_fork(before=self._hold, after_in_parent=self._free, after_in_child=self._in_child)
        atexit.register(self.flush)
        util.register_after_fork(self, FunctionMemory._flush_at_end)
        self._flush_at_end()

    def _hold(self) -> None:
        self._lock.acquire()

    def _free(self) -> None:
        self._lock.release()

    def _in_child(self) -> None:
        """In the child of a fork: go on with what the parent knew; the parent saves its runs itself."""
        self._lock = threading.RLock()
        self._rows, self._learned = [], 0

    def _flush_at_end(self) -> None:
        """Processes of multiprocessing end without atexit: they do what is registered here."""
        util.Finalize(None, self.flush, exitpriority=10)

    # -- verbs, as an advisor has them ----------------------------------------------------------------------------------

    def observe(
        self, component: str, *, predictor: Any, cores: int, elapsed_s: float, active_cores: float = math.nan,
        ok: bool = True,
    ) -> None:  # fmt: skip
        """Take a run; it is learned with others, before a question. Tasks that end at once wait for no lock here."""
        self._rows.append((component, predictor, cores, elapsed_s, active_cores, ok))
        full = self._clock() - self._saved_at > SAVE_S or len(self._rows) >= ROWS_MAX
        many = len(self._rows) - self._learned >= TOGETHER and self._advisor is not None  # loading one takes 0.3 s
        if (full or many) and self._lock.acquire(blocking=False):  # else another run, or a question, is at it
            try:
                _ = self._save(wait=False) if full else self._learn()
            finally:
                self._lock.release()

    def predict(self, component: str, **asked: Any) -> Any:
        """Predict the elapsed time of runs, as an advisor does."""
        with self._lock:
            return self._learn().predict(component, **asked)

    def choose_together(self, **asked: Any) -> Any:
        """Choose the cores of jobs that share a pool, as an advisor does."""
        with self._lock:
            return self._learn().choose_together(**asked)

    def flush(self) -> None:
        """Save what was learned now."""
        with self._lock:
            if self._rows:
                self._save(wait=True)

    def _learn(self) -> Advisor:
        advisor = self._advisor = self._advisor or self._saved(aside=False)
        rows = self._rows[self._learned :]
        learn_rows(advisor, rows)
        self._learned += len(rows)
        return advisor

    # -- the file ---------------------------------------------------------------------------------------------------------

    def _save(self, *, wait: bool) -> None:
        """Save the runs, upon those of others; without `wait` later, where another process is saving."""
        self._saved_at = self._clock()
        if self._keeps:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.with_suffix(".lock").open("ab") as lock:  # closed, it is free
                    fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._write()
            except BlockingIOError:
                pass
            except OSError as error:
                log.warning("%s cannot be written, it is tried again: %s", self.path, error)
        if len(self._rows) >= ROWS_MAX:
            self._learn()
            del self._rows[: ROWS_MAX // 2]
            self._learned -= ROWS_MAX // 2

    def _write(self) -> None:
        advisor = self._saved(aside=True)
        if self._keeps:
            rows = [*self._rows]
            learn_rows(advisor, rows)
            part = self.path.with_suffix(".part")
            with part.open("wb") as file:
                file.write(advisor.to_bytes())
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path)
            self._advisor, self._learned = advisor, 0
            del self._rows[: len(rows)]

    def _saved(self, *, aside: bool) -> Advisor:
        """Return what the file holds, nothing where it cannot be read; with `aside` a damaged one makes room."""
        from advisor import Advisor  # noqa: PLC0415 - a program that never asks need not load it

        try:
            return Advisor.from_bytes(self.path.read_bytes())
        except FileNotFoundError:
            pass
        except StateTooNew as error:
            log.warning("%s: %s; it is left as it is, and nothing is kept", self.path, error)
            self._keeps = False
        except (OSError, AdvisorError) as error:
            log.warning("%s cannot be read, it is put aside at the next save: %s", self.path, error)
            if aside:
                self.path.replace(self.path.with_suffix(".damaged"))
        return Advisor()


def learn_rows(advisor: Any, rows: Sequence[Row]) -> None:
    """Learn rows; those that are refused are logged.

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
