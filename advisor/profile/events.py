"""Events folded in their order: each is checked, given to what it concerns, and what it brings besides is kept."""

from __future__ import annotations

from advisor.domain.task_events import Kind
from advisor.profile.layout import *
from advisor.profile.regions import (
    enter,
    enter_parallel,
    leave_region,
    start_thread,
    stop_thread,
    synchronise,
    take_back,
)
from advisor.profile.stacks import (
    State,
    change_doing,
)
from advisor.profile.tables import (
    Floats,
    Ints,
    find_task,
)
from advisor.profile.tasks import (
    ABSENT,
    begin,
    create,
    depend,
    end,
    switch,
)

CREATE, BEGIN, SWITCH, END, CANCEL, ENTER, EXIT, DEPENDENCE, SYNC_BEGIN, SYNC_END, IDLE_BEGIN, IDLE_END = (
    int(kind) for kind in list(Kind)[:12]
)  # fmt: skip
WORKER_START, WORKER_STOP, PARAMETER_EVENT, SIZE_EVENT = (int(kind) for kind in list(Kind)[12:])
KINDS = len(Kind)
TIME_MAX = 2**62  # of all threads together: their sums stay below 2**63; 2 years on 64 threads
DISORDER_MAX = 2**40  # ns: how much earlier than the first event one may be, where nothing was put into order
SIZE_MAX = 2.0**60  # as a predictor's

# kind of region in `other` -> label; what is entered is followed by what synchronises
REGION_LABELS = (
    REGION << LABEL_BITS, CREATION << LABEL_BITS, PARALLEL << LABEL_BITS, MANAGEMENT << LABEL_BITS, STUB_LABEL,
)  # fmt: skip
SYNC_LABELS = (WAIT_LABEL, BARRIER_LABEL, TASKGROUP_LABEL, OTHER_WAIT_LABEL)


def happen(
    s: State,
    thread: int,
    kind: int,
    flags: int,
    number: int,
    other: int,
    name: int,
    size: float,
    now: int,
    out: Ints,
    out_sizes: Floats,
) -> int:
    """Fold one event whose thread is there; return why it is refused, or ACCEPTED. `size` is `other`, read as a float."""
    if kind >= ENTER and (kind <= EXIT or SYNC_BEGIN <= kind <= SYNC_END):
        if not 0 <= other <= (4 if kind <= EXIT else 3):
            return UNKNOWN_REGION_KIND
        if name == ABSENT:
            return UNKNOWN_STRING
        label = name | (REGION_LABELS[other] if kind <= EXIT else SYNC_LABELS[other])
        if label >> LABEL_BITS == PARALLEL:
            return (
                enter_parallel(s, thread, number, label, now) if kind == ENTER else leave_region(s, thread, label, now)
            )
        if number != 0 and s[2][s[1][thread + CURRENT] + ID] != number:
            return NOT_CURRENT
        if kind == ENTER:
            return enter(s, thread, label, 0, now)
        if kind == EXIT:
            return leave_region(s, thread, label, now)
        return synchronise(s, thread, label, kind == SYNC_BEGIN, now)
    if kind == BEGIN:
        return begin(s, thread, number, other, name, flags, now)
    if kind == END:
        return end(s, thread, number, other, now, False, out, out_sizes)
    if kind == CREATE:
        return create(s, thread, number, other, name, flags, now)
    if kind == SWITCH:
        return switch(s, thread, number, now)
    if kind == IDLE_BEGIN:
        return enter(s, thread, IDLE_LABEL, 0, now)
    if kind == IDLE_END:
        return leave_region(s, thread, IDLE_LABEL, now)
    if kind == DEPENDENCE:
        return depend(s, number, other, now)
    if kind == PARAMETER_EVENT:
        return UNKNOWN_STRING if name == ABSENT else enter(s, thread, PARAMETER_LABEL | name, other, now)
    if kind == SIZE_EVENT:
        return give_size(s, thread, number, size)
    if kind == CANCEL:
        return end(s, thread, number, 0, now, True, out, out_sizes)
    return stop_thread(s, thread, now) if kind == WORKER_STOP else ACCEPTED


def time_bounds(first: int, threads_end: int) -> tuple[int, int]:
    """Return the least and the largest time that an event may have, by that of the first."""
    if first == NONE:
        return 0, TIME_MAX
    until = first + TIME_MAX // (threads_end // THREADS)
    return (first - DISORDER_MAX if first > DISORDER_MAX else 0), (until if until < TIME_MAX else TIME_MAX)


def check_event(g: Ints, threads: Ints, kind: int, name: int, thread: int, now: int, since: int, until: int) -> int:
    """Return what is wrong with an event in itself, or ACCEPTED; `thread` is its place in the table."""
    if kind >= KINDS:
        return UNKNOWN_KIND
    if thread >= len(threads):
        return UNKNOWN_THREAD
    if name >= g[STRINGS] and name != ABSENT:
        return UNKNOWN_STRING
    if not since <= now <= until:
        return BAD_NUMBER
    return ACCEPTED if threads[thread + LATEST] <= now else TIME_BACK


def refuse_event(g: Ints, refused: Ints, i: int, code: int) -> None:
    """Note which event was refused, and why."""
    at = 2 * g[REFUSED]
    refused[at], refused[at + 1] = i, code
    g[REFUSED] += 1
    g[COUNTED_REFUSALS + code] += 1


def note_doing(s: State, thread: int, now: int) -> None:
    """A thread works, waits or does neither from now on, by what is innermost on it."""
    g, threads, contexts, _, frames, _, _, _, _, _ = s
    current = threads[thread + CURRENT]
    label = THREAD_LABEL if current == NONE else frames[contexts[current + TOP] + FRAME_LABEL]
    if (
        label < OVERHEAD_LABEL or STUB_LABEL <= label < THREAD_LABEL
    ):  # a stub is innermost where its tasks are kept apart
        does = WORKS
    else:
        does = WAITS if WAIT_LABEL <= label < STUB_LABEL else NEITHER
    if does != threads[thread + DOES]:
        change_doing(g, threads, thread, does, now)


def give_size(s: State, thread: int, number: int, size: float) -> int:
    """An instance, or the running task, has a size; NaN says nothing."""
    if size == size:
        if not 0.0 <= size <= SIZE_MAX:
            return BAD_SIZE
        context = s[1][thread + CURRENT] if number == 0 else find_task(s[0], s[2], s[8], number, TAG_TASK)
        if context != NONE:
            s[3][context // CONTEXT] = size
    return ACCEPTED


def fold_events(
    s: State,
    columns: tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints],
    sizes: Floats,
    refused: Ints,
    out: Ints,
    out_sizes: Floats,
) -> None:
    """Fold events in their order.

    Parameters
    ----------
    s : State
    columns : 7 columns (n,) of whole numbers
        times in ns, instances, others, types, threads, kinds, flags, as in the records.
    sizes : (n,)
        The others, read as floats.
    refused : (2 n,) whole numbers
        Out: index and code of the events refused, g[REFUSED] of them.
    out, out_sizes : (ENDED_FIELDS n,), (n,)
        Out: rows of the instances that ended, g[ENDED] of them.
    """
    g, threads = s[0], s[1]
    times, numbers, others, names, thread_numbers, kinds, flags = columns
    first, newest = g[FIRST], g[NEWEST]
    since, until = time_bounds(first, len(threads))
    g[REFUSED] = g[ENDED] = 0
    for i in range(len(times)):
        now, kind, name = times[i], kinds[i], names[i]
        thread = thread_numbers[i] * THREADS
        is_new = False
        code = check_event(g, threads, kind, name, thread, now, since, until)
        if code == ACCEPTED:
            if threads[thread + IMPLICIT] == NONE:
                is_new = True
                code = THREAD_STOPPED if kind == WORKER_STOP else start_thread(s, thread, now)
            elif kind == WORKER_START:
                code = THREAD_RUNS
        if code == ACCEPTED:
            code = happen(s, thread, kind, flags[i], numbers[i], others[i], name, sizes[i], now, out, out_sizes)
            if code != ACCEPTED and is_new:
                take_back(s, thread)
        if code != ACCEPTED:
            refuse_event(g, refused, i, code)
            continue
        if is_new:
            g[WORKERS_MAX] = max(g[WORKERS_MAX], g[WORKERS])
        threads[thread + LATEST] = now
        newest = max(newest, now)
        if first == NONE:
            first = now
            since, until = time_bounds(first, len(threads))
        note_doing(s, thread, now)
    g[FIRST], g[NEWEST] = first, newest
