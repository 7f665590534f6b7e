"""Who runs on how many cores of this process: one limit for all calls that overlap, put back when the last one ends.

The limits of thread pools are the process's, so calls that overlap share one: the smallest that any of them chose, and at
most an equal share of the fewest cores that any of them may use. A call whose limit was changed by another one is marked,
and not learned. A grant to workers that the caller starts (`workers`: joblib, an executor) cannot be changed; while it lasts
the pools have one thread each. A call never waits for cores: where more calls overlap than there are cores, each has one.
"""

from __future__ import annotations

import os
import threading
from contextvars import ContextVar

from advisor.adapters.threads.pools import Pools, set_limits


class CoreGrant:
    """The cores of one call.

    Attributes
    ----------
    cores : int
        Given when the call began.
    others : int
        Cores that calls which overlapped had, at most.
    changed : bool
        Another call or a thread of the program changed the limit, or the process forked: the run is nobody's own.
    """

    __slots__ = ("before", "changed", "cores", "cores_max", "inner", "others", "outer", "wish", "workers")

    def __init__(self, wish: int, cores_max: int, outer: CoreGrant | None, *, workers: bool) -> None:
        self.wish = wish
        self.cores = wish
        self.cores_max = cores_max
        self.outer = outer
        self.inner: list[CoreGrant] = []
        self.workers = workers
        self.others = 0
        self.changed = False
        self.before: dict[str, int] = {}

    def least(self) -> int:
        """Return the smallest limit that this call and those within it chose."""
        threads = 1 if self.workers else self.wish
        return min((threads, *(grant.least() for grant in self.inner))) if self.inner else threads


_current: ContextVar[CoreGrant | None] = ContextVar("cores granted", default=None)


class Grants:
    """All grants of this process."""

    def __init__(self) -> None:
        self.pools = Pools()
        self._roots: list[CoreGrant] = []
        self._before: dict[str, int] = {}
        self._limit = 0
        self._lock = threading.RLock()
        os.register_at_fork(
            before=self._hold, after_in_parent=self._free,
            after_in_child=self._in_child,
        )  # fmt: skip

    def _hold(self) -> None:
        self._lock.acquire()

    def _free(self) -> None:
        self._lock.release()

    def available(self, cores_max: int) -> int:
        """Return the most that a call which begins now may use."""
        outer = _current.get()
        if outer is not None and outer in self._siblings(outer):
            return max(1, min(cores_max, self._limit))
        roots = self._roots
        if not roots:
            return cores_max
        held = sum(grant.cores for grant in roots if grant.workers)
        sharing = 1 + sum(not grant.workers for grant in roots)
        return max(1, (min(cores_max, *(grant.cores_max for grant in roots)) - held) // sharing)

    def cores_granted(self) -> int:
        """Return the cores of the call that this thread is in, 1 where it is in none."""
        grant = _current.get()
        return 1 if grant is None else grant.cores

    def enter(self, wish: int, cores_max: int, *, workers: bool = False) -> CoreGrant:
        """Give a call `wish` cores, or what is left; from now on its limits hold. `leave` must follow."""
        outer = _current.get()
        with self._lock:
            self.pools.look()
            if outer is not None and outer not in self._siblings(outer):
                outer = None  # it has ended: a task that was begun within it goes on
            wish = min(wish, self.available(cores_max) if self._roots else cores_max)
            grant = CoreGrant(wish, cores_max, outer, workers=workers)
            (self._roots if outer is None else outer.inner).append(grant)
            held = self._settle()
            grant.cores, grant.changed = (wish if workers else self._limit), not (held or workers)
            if len(self._roots) > 1:
                self._note_others()
            if workers:
                return grant  # its threads are not this one, and whoever ends may run elsewhere
            if not set_limits(self.pools.of_threads, self._limit, grant.before):
                grant.changed = True
        _current.set(grant)
        return grant

    def end_call(self, grant: CoreGrant) -> None:
        """End a call: the limits are as they were before it, or as the others need them."""
        with self._lock:
            siblings = self._siblings(grant)
            if grant in siblings:
                siblings.remove(grant)
                self._settle()
            set_limits(self.pools.of_threads, grant.before)
        if _current.get() is grant:
            _current.set(grant.outer)

    def _siblings(self, grant: CoreGrant) -> list[CoreGrant]:
        return self._roots if grant.outer is None else grant.outer.inner

    def _settle(self) -> bool:
        """Make the process's limit what the grants need; False where another thread of the program keeps it."""
        roots = self._roots
        if not roots:
            held = set_limits(self.pools.shared, self._before)
            self._before, self._limit = {}, 0
            return held
        limit = roots[0].least()
        if len(roots) > 1:
            held = sum(grant.cores for grant in roots if grant.workers)
            sharing = sum(not grant.workers for grant in roots)
            share = (min(grant.cores_max for grant in roots) - held) // max(1, sharing)
            limit = max(1, min(share, *(grant.least() for grant in roots)))
        if limit != self._limit:
            self._limit = limit
            for root in roots:
                _mark(root, limit)
        held = set_limits(self.pools.shared, limit, self._before)
        for root in () if held else roots:
            root.changed = root.changed or not root.workers
        return held

    def _note_others(self) -> None:
        """Note for each call what the others have."""
        used = [grant.cores if grant.workers else self._limit for grant in self._roots]
        total = sum(used)
        for grant, own in zip(self._roots, used, strict=True):
            _note(grant, total - own)

    def _in_child(self) -> None:
        """In the child of a fork: only the call that forked goes on, and is no run of the child's."""
        self._lock = threading.RLock()
        grant, within = _current.get(), None
        if grant is not None and grant not in self._siblings(grant):
            grant = None
        while grant is not None:
            grant.changed, grant.inner = True, [] if within is None else [within]
            grant, within = grant.outer, grant
        self._roots = [] if within is None else [within]
        if self._limit:
            self._settle()


def _mark(grant: CoreGrant, limit: int) -> None:
    """Mark the calls that began with another limit."""
    for inner in grant.inner:
        _mark(inner, limit)
    if not grant.workers and grant.cores != limit:
        grant.changed = True


def _note(grant: CoreGrant, others: int) -> None:
    grant.others = max(grant.others, others)
    for inner in grant.inner:
        _note(inner, others)


GRANTS = Grants()
