"""How many tasks of threads may run beside those that have a core: as many as wait.

A task that sleeps, or waits for a disk or a network, uses no processor. Of tasks of which nothing is known 64 start at once.
While others wait for their turn, what the workers ask of processors is measured: the
time that they had one, and the time that they were ready and had none. While that is less than `BUSY` of one core, more tasks
are admitted, three times those that run; where tasks compute, no more are admitted and the surplus halves. One core is the
bound, not all: threads that wait for the interpreter's lock look like threads that sleep, and together they have one core.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Final

AT_ONCE_MAX: Final = 1024  # tasks on threads: a stack takes 8 MiB of addresses and about 50 KB of memory each
LOOK_S: Final = 5e-4  # between two looks while more are admitted
LOOK_MAX_S: Final = 0.05  # where tasks compute: 20 looks a second
SENDS_S: Final = 0.02  # of a look that sends tasks away: to start a sleep takes 20 microseconds, which is not computing
BUSY: Final = 0.75  # of a core
GROWTH: Final = 3  # times the tasks that run, admitted at a look
# Of tasks of which nothing is known. Where they compute, 64 threads on two cores take 0 to 12 % longer than two.
BESIDE_FIRST: Final = 62
READY_LOOKS: Final = 8  # workers whose time without a processor is read, of all: 10 microseconds each


class WorkerClock:
    """What a thread asks of processors from its first task on, and what its tasks had: to start it is not computing."""

    __slots__ = ("_begun_s", "_clock", "_first_s", "_path", "_tasks_s")

    def __init__(self) -> None:
        self._clock = time.pthread_getcpuclockid(threading.get_ident())
        self._path = f"/proc/self/task/{threading.get_native_id()}/schedstat"
        self._tasks_s = 0.0
        self._begun_s = -1.0  # while no task runs
        self._first_s = -1.0  # what it had when its first task began

    def begin_task(self) -> None:
        """Begin a task; called by the thread, as `end` is."""
        self._begun_s = time.clock_gettime(self._clock)
        if self._first_s < 0.0:
            self._first_s = self._begun_s

    def end_task(self) -> None:
        """End a task."""
        begun_s, self._begun_s = self._begun_s, -1.0
        self._tasks_s += time.clock_gettime(self._clock) - begun_s

    def had(self) -> tuple[float, float]:
        """Return the seconds that the thread had a processor, and those of its tasks; called by another thread."""
        has_s = time.clock_gettime(self._clock)
        task_s = has_s - self._begun_s if self._begun_s >= 0.0 else 0.0
        return has_s - self._first_s if self._first_s >= 0.0 else 0.0, self._tasks_s + task_s

    def ready(self) -> float:
        """Return the seconds that the thread was ready and had no processor; 0 where the system does not report them."""
        with suppress(OSError, ValueError, IndexError), open(self._path, "rb", 0) as file:
            return int(file.read().split()[1]) / 1e9
        return 0.0


class Admission:
    """Looks at the workers of one executor while tasks wait for their turn.

    Parameters
    ----------
    lock : RLock
        Of the executor: held where `admits` and `more` are called.
    more : callable
        Starts tasks; returns whether others wait for their turn.
    """

    def __init__(self, lock: AbstractContextManager[Any], more: Callable[[], bool]) -> None:
        self._lock = lock
        self.beside = BESIDE_FIRST  # tasks admitted beyond the cores, because the others wait
        self._more = more
        self._workers: dict[WorkerClock, None] = {}
        self._looks = False

    def admits(self, beside: int) -> bool:
        """Return whether one more task may start where `beside` have started beyond the cores; else look until one may."""
        if beside < self.beside:
            return True
        if not self._looks and beside < AT_ONCE_MAX:
            self._looks = True
            threading.Thread(target=self._look, name="advised admission", daemon=True).start()
        return False

    @contextmanager
    def worker(self) -> Generator[WorkerClock]:
        """Count this thread among the workers."""
        worker = WorkerClock()
        self._workers[worker] = None  # without the lock: whoever submits holds it while a thread starts
        try:
            yield worker
        finally:
            with self._lock:  # a look reads no clock of a thread that has ended
                del self._workers[worker]

    def _look(self) -> None:
        pause_s, since, before = LOOK_S, time.perf_counter(), dict[WorkerClock, tuple[float, float, float]]()
        while True:
            time.sleep(pause_s)
            with self._lock:
                now = time.perf_counter()
                seen = {
                    worker: (*worker.had(), worker.ready() if number < READY_LOOKS else 0.0)
                    for number, worker in enumerate(list(self._workers))
                }
                both = [(seen[worker], old) for worker, old in before.items() if worker in seen]
                had, tasks, ready = (sum(new[k] - old[k] for new, old in both) / (now - since) for k in range(3))
                judged = not both or self.judge(had + ready * max(1.0, len(both) / READY_LOOKS), tasks, now - since)
                if judged:
                    since, before = now, seen
                    pause_s = LOOK_S if tasks < BUSY else LOOK_MAX_S
                else:
                    pause_s = min(2.0 * pause_s, LOOK_MAX_S)
                if not self._more():
                    self._looks = False
                    return

    def judge(self, workers: float, tasks: float, elapsed_s: float) -> bool:
        """Admit more or fewer, by the cores that workers and their tasks asked for; False where a longer look is needed.

        What workers do between tasks is no task's: it lets no more in, and sends none away.
        """
        if workers < BUSY:
            self.beside = min(AT_ONCE_MAX, self.beside + GROWTH * len(self._workers))
        elif elapsed_s < SENDS_S:
            return False
        elif tasks >= BUSY:
            self.beside //= 2
        return True
