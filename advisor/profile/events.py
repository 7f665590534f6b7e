"""Events folded in their order: each is checked, given to what it concerns, and what it brings besides is kept."""

from __future__ import annotations

from advisor.domain.task_events import Kind
from advisor.profile.layout import *
from advisor.profile.regions import (
    enter,
    enter_parallel,
    leave_region,
    set_parameter,
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
NEW_THREAD = -2  # instead of the node that an event leaves
TIME_MAX = 2**62  # of all threads together: their sums stay below 2**63; 2 years on 64 threads
DISORDER_MAX = 2**40  # ns: how much earlier than the first event one may be, where nothing was put into order
SIZE_MAX = 2.0**60  # as a predictor's
NO_PARAMETER = -(2**63)

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
    now: int,
    out: Ints,
    out_sizes: Floats,
) -> int:
    """Fold one event whose thread is there; return why it is refused, or ACCEPTED."""
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
        return set_parameter(s, thread, name, other, now)
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
    g, threads, contexts, _, frames, _, _, _, _, _, _ = s
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


def check_size(sizes: Floats, i: int) -> int:
    """Return whether the size that an event brings, if any, is one."""
    if len(sizes) == 0 or sizes[i] != sizes[i]:
        return ACCEPTED
    return ACCEPTED if 0.0 <= sizes[i] <= SIZE_MAX else BAD_SIZE


def annotate(
    s: State,
    thread: int,
    kind: int,
    number: int,
    i: int,
    sizes: Floats,
    values: Ints,
    value_name: int,
    now: int,
    out_sizes: Floats,
) -> None:
    """An instance has the size and the parameter that an event brought."""
    if len(sizes) > 0 and sizes[i] == sizes[i]:
        if kind == END:
            out_sizes[s[0][ENDED] - 1] = sizes[i]
        else:
            give_size(s, thread, number, sizes[i])
    if kind <= BEGIN and len(values) > 0 and values[i] != NO_PARAMETER:
        give_parameter(s, thread, kind, number, value_name, values[i], now)


def give_size(s: State, thread: int, number: int, size: float) -> None:
    """An instance, or the running task, has a size."""
    g, threads, contexts, sizes, _, _, _, _, _, task_index, _ = s
    context = threads[thread + CURRENT] if number == 0 else find_task(g, contexts, task_index, number, TAG_TASK)
    if context != NONE:
        sizes[context // CONTEXT] = size


def give_parameter(s: State, thread: int, kind: int, number: int, name: int, value: int, now: int) -> None:
    """A task instance that was made, or has just begun, has a parameter."""
    g, _, contexts, _, _, _, _, _, _, task_index, _ = s
    context = find_task(g, contexts, task_index, number, TAG_TASK)
    if context == NONE or contexts[context + PARAMETER_NAME] != NONE:
        return
    if kind == BEGIN:
        set_parameter(s, thread, name, value, now)
    else:
        contexts[context + PARAMETER_NAME], contexts[context + PARAMETER_VALUE] = name, value


def add_metrics(metrics: Floats, node: int, given: Floats, first: int, count: int) -> None:
    """The metrics of an event count for a node."""
    for k in range(count):
        value = given[first + k]
        if value == value:
            metrics[node * METRICS + k] += value


def fold_events(
    s: State,
    columns: tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints],
    sizes: Floats,
    values: Ints,
    value_name: int,
    given: Floats,
    metrics_an_event: int,
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
    sizes : (n,), or none
        NaN: this event brings none.
    values : (n,) whole numbers, or none
        Of the parameter numbered `value_name`, `NO_PARAMETER` where the event has none.
    given : (n * metrics_an_event,)
        Metrics, which count for the node that the event leaves; NaN: none.
    refused : (2 n,) whole numbers
        Out: index and code of the events refused, g[REFUSED] of them.
    out, out_sizes : (ENDED_FIELDS n,), (n,)
        Out: rows of the instances that ended, g[ENDED] of them.
    """
    g, threads, contexts, _, frames, _, _, metrics, _, _, _ = s
    times, numbers, others, names, thread_numbers, kinds, flags = columns
    brings = len(sizes) > 0 or len(values) > 0 or metrics_an_event > 0
    first, newest = g[FIRST], g[NEWEST]
    since, until = time_bounds(first, len(threads))
    g[REFUSED] = g[ENDED] = 0
    for i in range(len(times)):
        now, kind, name = times[i], kinds[i], names[i]
        thread = thread_numbers[i] * THREADS
        left = NONE
        code = check_event(g, threads, kind, name, thread, now, since, until)
        if code == ACCEPTED:
            if threads[thread + IMPLICIT] == NONE:
                left = NEW_THREAD
                code = THREAD_STOPPED if kind == WORKER_STOP else start_thread(s, thread, now)
            elif kind == WORKER_START:
                code = THREAD_RUNS
            elif brings:
                left = frames[contexts[threads[thread + CURRENT] + TOP] + AT_NODE]
                code = check_size(sizes, i)
        if code == ACCEPTED:
            code = happen(s, thread, kind, flags[i], numbers[i], others[i], name, now, out, out_sizes)
            if code != ACCEPTED and left == NEW_THREAD:
                take_back(s, thread)
        if code != ACCEPTED:
            refuse_event(g, refused, i, code)
            continue
        if left == NEW_THREAD:
            g[WORKERS_MAX] = max(g[WORKERS_MAX], g[WORKERS])
        if brings:
            annotate(s, thread, kind, numbers[i], i, sizes, values, value_name, now, out_sizes)
            if left >= 0:
                add_metrics(metrics, left, given, i * metrics_an_event, metrics_an_event)
        threads[thread + LATEST] = now
        newest = max(newest, now)
        if first == NONE:
            first = now
            since, until = time_bounds(first, len(threads))
        note_doing(s, thread, now)
    g[FIRST], g[NEWEST] = first, newest
