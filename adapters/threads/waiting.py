"""How many tasks of threads may run beside those that have a core: as many as wait.

A task that sleeps, or waits for a disk or a network, uses no processor. What the workers ask of processors is measured: the
time that they had one, and the time that they were ready and had none. While that is less than `BUSY` of one core, more tasks
are admitted, three times those that run; where tasks compute, no more are admitted and the surplus halves. One core is the
bound, not all: threads that wait for the interpreter's lock look like threads that sleep, and together they have one core.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from advisor.adapters.threads.deciding import Deciding

AT_ONCE_MAX: Final = 1024  # tasks on threads: a stack takes 8 MiB of addresses and about 50 KB of memory each
LOOK_S: Final = 5e-4  # between two looks at first: 60 sleeps of 50 ms begin within 2 ms
LOOK_MAX_S: Final = 0.05  # where tasks compute: 20 looks a second
SHARE: Final = 20.0  # of the time a look may take one in so many
BUSY: Final = 0.75  # of a core
GROWTH: Final = 3  # times the tasks that run, admitted at a look


class WorkerClock:
    """What a thread asks of processors: all of it, and what its tasks had."""

    __slots__ = ("_begun_s", "_clock", "_path", "_tasks_s")

    def __init__(self) -> None:
        self._clock = time.pthread_getcpuclockid(threading.get_ident())
        self._path = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._tasks_s = 0.0
        self._begun_s = -1.0  # while no task runs

    def begin(self) -> None:
        """Begin a task; called by the thread, as `end` is."""
        self._begun_s = time.clock_gettime(self._clock)

    def end(self) -> None:
        """End a task."""
        begun_s, self._begun_s = self._begun_s, -1.0
        self._tasks_s += time.clock_gettime(self._clock) - begun_s

    def wanted(self) -> tuple[float, float]:
        """Return the seconds that the thread wanted a processor, and those that its tasks had one; called by another thread.

        The former are those that it had one, and, where the system tells them, those that it was ready and had none.
        """
        has_s = time.clock_gettime(self._clock)
        tasks_s = self._tasks_s + (has_s - self._begun_s if self._begun_s >= 0.0 else 0.0)
        with suppress(OSError, ValueError, IndexError):
            has_s += int(self._path.read_bytes().split()[1]) / 1e9
        return has_s, tasks_s


class Admission:
    """Looks at the workers of one executor while tasks wait for their turn.

    Parameters
    ----------
    lock : RLock
        Of the executor: held where `admits` and `more` are called.
    deciding : Deciding
        Of the component: keeps how many are admitted, for the next executor too.
    more : callable
        Starts tasks; returns whether others wait for their turn.
    """

    def __init__(self, lock: AbstractContextManager[Any], deciding: Deciding, more: Callable[[], bool]) -> None:
        self._lock = lock
        self._deciding = deciding
        self._more = more
        self._workers: set[WorkerClock] = set()
        self._looks = False

    def admits(self, beside: int) -> bool:
        """Return whether one more task may start where `beside` have started beyond the cores; else look until one may."""
        if beside < self._deciding.beside:
            return True
        if not self._looks and beside < AT_ONCE_MAX:
            self._looks = True
            threading.Thread(target=self._look, name="advised admission", daemon=True).start()
        return False

    @contextmanager
    def worker(self) -> Generator[WorkerClock]:
        """Count this thread among the workers."""
        worker = WorkerClock()
        with self._lock:
            self._workers.add(worker)
        try:
            yield worker
        finally:
            with self._lock:
                self._workers.remove(worker)

    def _look(self) -> None:
        pause_s, at = LOOK_S, time.perf_counter()
        before: dict[WorkerClock, tuple[float, float]] = {}
        while True:
            time.sleep(pause_s)
            with self._lock:
                now = time.perf_counter()
                wanted = {worker: worker.wanted() for worker in self._workers}
                both = [(wanted[worker], before[worker]) for worker in wanted if worker in before]
                if both:
                    workers, tasks = (sum(new[k] - old[k] for new, old in both) / (now - at) for k in (0, 1))
                    pause_s = self.judge(workers, tasks, pause_s)
                before, at = wanted, now
                if not self._more():
                    self._looks = False
                    return
                pause_s = max(pause_s, SHARE * (time.perf_counter() - now))

    def judge(self, workers: float, tasks: float, pause_s: float) -> float:
        """Admit more or fewer, by the cores that workers and their tasks asked for; return the seconds to the next look.

        What workers do between tasks is no task's: it lets no more in, and sends none away.
        """
        deciding = self._deciding
        if tasks >= BUSY:
            deciding.beside //= 2
        elif workers < BUSY:
            deciding.beside = min(AT_ONCE_MAX, deciding.beside + GROWTH * len(self._workers))
            return LOOK_S
        return min(2.0 * pause_s, LOOK_MAX_S)
