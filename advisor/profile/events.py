"""Events folded in their order: regions, synchronisations, workers, and the loop over all kinds."""

from __future__ import annotations

from advisor.domain.task_events import Kind
from advisor.profile.layout import (
    ACCEPTED,
    ACTIVE,
    AT_NODE,
    BAD_NUMBER,
    BAD_SIZE,
    BARRIER,
    BARRIER_LABEL,
    BELOW,
    BURDEN,
    BURDENED,
    CONTEXT,
    COUNTED_REFUSALS,
    CREATION,
    CREATOR,
    CURRENT,
    DOES,
    EDGES,
    ENDED,
    FIRST,
    FRAME_LABEL,
    FRAMES_LEFT,
    FREE_FRAME,
    HOME,
    ID,
    IDLE_LABEL,
    IMPLICIT,
    JOINED,
    JOINED_BURDENED,
    LABEL_BITS,
    LATEST,
    LENIENT,
    MANAGEMENT,
    MEMBERS,
    METRICS,
    NEITHER,
    NEWEST,
    NONE,
    NOT_CURRENT,
    NOT_INNERMOST,
    NOT_OPEN,
    OPEN_REGIONS,
    OTHER_WAIT_LABEL,
    OUTER_NODE,
    OUTER_TEAM,
    OVERHEAD_LABEL,
    PARALLEL,
    PARAMETER,
    PARAMETER_LABEL,
    PARAMETER_NAME,
    PARAMETER_VALUE,
    PATH,
    RAN,
    REFUSED,
    REGION,
    REPAIRED,
    RESUMED,
    RUNNING,
    SERIAL,
    SPAN,
    SPAN_BURDENED,
    STARTED,
    STATE,
    STRINGS,
    STUB_LABEL,
    TAG_IMPLICIT,
    TAG_TASK,
    TAG_TEAM,
    TASK_ON_THREAD,
    TASKGROUP,
    TASKGROUP_LABEL,
    TEAM,
    TEAM_NODE,
    TEAM_SERIAL,
    THREAD_LABEL,
    THREAD_RUNS,
    THREAD_STOPPED,
    THREAD_TIME,
    THREADS,
    TIME_BACK,
    TOO_DEEP,
    TOO_MANY_INSTANCES,
    TOP,
    TYPE,
    UNKNOWN_KIND,
    UNKNOWN_REGION_KIND,
    UNKNOWN_STRING,
    UNKNOWN_THREAD,
    WAIT_LABEL,
    WAITS,
    WORKERS,
    WORKERS_MAX,
    WORKS,
)  # fmt: skip
from advisor.profile.stacks import (
    State,
    book,
    burdened_now,
    change_doing,
    close,
    join,
    note_path,
    own_clock,
    path_now,
    pop,
    push,
)
from advisor.profile.tables import Floats, Ints, find_node, find_task, free_context, take_context
from advisor.profile.tasks import ABSENT, begin, create, depend, end, has_open_regions, switch

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


def start_thread(s: State, thread: int, now: int) -> int:
    """A worker is there: an implicit task of its own, its root node innermost."""
    g, threads, contexts, _, _, nodes, _, _, node_index, task_index, _ = s
    if g[FRAMES_LEFT] < 1:
        return TOO_DEEP
    context = take_context(g, contexts, task_index, 0, TAG_IMPLICIT)
    if context == NONE:
        return TOO_MANY_INSTANCES
    contexts[context + STATE], contexts[context + RESUMED], contexts[context + HOME] = RUNNING, now, thread
    contexts[context + TEAM] = contexts[context + CREATOR] = contexts[context + PARAMETER_NAME] = NONE
    contexts[context + EDGES] = contexts[context + TYPE] = NONE
    contexts[context + TEAM_NODE] = find_node(g, nodes, node_index, NONE, THREAD_LABEL | thread // THREADS, 0)
    threads[thread + CURRENT] = threads[thread + IMPLICIT] = context
    threads[thread + STARTED], threads[thread + ACTIVE], threads[thread + DOES] = now, 0, NEITHER
    push(s, context, THREAD_LABEL | thread // THREADS, 0, 0)
    g[WORKERS] += 1
    return ACCEPTED


def stop_thread(s: State, thread: int, now: int) -> int:
    """A worker goes: nothing may be open on it."""
    g, threads, contexts, _, frames, _, _, _, _, task_index, _ = s
    context = threads[thread + IMPLICIT]
    if context != threads[thread + CURRENT]:
        return TASK_ON_THREAD
    clock = own_clock(contexts, context, now)
    if has_open_regions(contexts, frames, context):
        if not g[LENIENT]:
            return OPEN_REGIONS
        g[REPAIRED] += 1
    while contexts[context + TOP] != NONE:
        close(s, context, clock)
    path, burdened = path_now(contexts, context), burdened_now(contexts, context)
    if path > g[SPAN]:
        g[SPAN] = path
    if burdened > g[SPAN_BURDENED]:
        g[SPAN_BURDENED] = burdened
    free_context(g, contexts, task_index, context)
    threads[thread + CURRENT] = threads[thread + IMPLICIT] = NONE
    g[THREAD_TIME] += now - threads[thread + STARTED]
    g[WORKERS] -= 1
    return ACCEPTED


def enter(s: State, thread: int, label: int, value: int, now: int) -> int:
    """The running task enters a region."""
    g, threads, contexts = s[0], s[1], s[2]
    if g[FRAMES_LEFT] < 2:  # one stays for the stub of whatever runs next
        return TOO_DEEP
    context = threads[thread + CURRENT]
    push(s, context, label, value, contexts[context + RAN] + now - contexts[context + RESUMED])
    return ACCEPTED


def enter_parallel(s: State, thread: int, number: int, label: int, now: int) -> int:
    """The running task works for a parallel region from now on; the team's paths begin where the first to enter stands."""
    g, threads, contexts, _, frames, _, _, _, _, task_index, _ = s
    context = threads[thread + CURRENT]
    team = find_task(g, contexts, task_index, number, TAG_TEAM)
    if g[FRAMES_LEFT] < 2:
        return TOO_DEEP
    if team == NONE:
        team = take_context(g, contexts, task_index, number, TAG_TEAM)
        if team == NONE:
            return TOO_MANY_INSTANCES
    frame = push(s, context, label, 0, own_clock(contexts, context, now))
    if contexts[team + MEMBERS] == 0:
        contexts[team + PATH], contexts[team + BURDENED] = path_now(contexts, context), burdened_now(contexts, context)
    else:
        join(contexts, context, contexts[team + PATH], contexts[team + BURDENED] + g[BURDEN])
    contexts[team + MEMBERS] += 1
    frames[frame + OUTER_TEAM], frames[frame + OUTER_NODE] = contexts[context + TEAM], contexts[context + TEAM_NODE]
    contexts[context + TEAM], contexts[context + TEAM_SERIAL] = team, contexts[team + SERIAL]
    contexts[context + TEAM_NODE] = frames[frame + AT_NODE]
    return ACCEPTED


def is_open(contexts: Ints, frames: Ints, context: int, label: int) -> bool:
    """Return whether a region is open anywhere in a context's call path."""
    frame = contexts[context + TOP]
    while frame != NONE:
        if frames[frame + FRAME_LABEL] == label:
            return True
        frame = frames[frame + BELOW]
    return False


def leave_region(s: State, thread: int, label: int, now: int) -> int:
    """The running task leaves a region, and the parameters set inside it."""
    g, threads, contexts, frames = s[0], s[1], s[2], s[4]
    context = threads[thread + CURRENT]
    frame = contexts[context + TOP]
    clock = contexts[context + RAN] + now - contexts[context + RESUMED]
    if frames[frame + FRAME_LABEL] != label:
        while frames[frame + FRAME_LABEL] >> LABEL_BITS == PARAMETER:
            frame = frames[frame + BELOW]
        if frames[frame + FRAME_LABEL] != label:
            if not is_open(contexts, frames, context, label):
                return NOT_OPEN
            if not g[LENIENT]:
                return NOT_INNERMOST
            g[REPAIRED] += 1
        while frames[contexts[context + TOP] + FRAME_LABEL] != label:
            close(s, context, clock)
    if label >> LABEL_BITS == PARALLEL:
        close(s, context, clock)
    else:
        pop(s, context, clock)
    return ACCEPTED


def synchronise(s: State, thread: int, label: int, begins: bool, now: int) -> int:
    """The running task begins or ends to wait; after it, what it waited for lies behind it."""
    _, threads, contexts, _, frames, nodes, _, _, _, _, _ = s
    context = threads[thread + CURRENT]
    role = label >> LABEL_BITS
    if begins:
        code = enter(s, thread, label, 0, now)
        if code == ACCEPTED and role == BARRIER and contexts[context + TEAM] != NONE:
            note_path(contexts, contexts[context + TEAM], path_now(contexts, context), burdened_now(contexts, context))
        return code
    code = leave_region(s, thread, label, now)
    if code == ACCEPTED:
        book(contexts, frames, nodes, context, own_clock(contexts, context, now))
        waited_for = context
        if role == BARRIER and contexts[context + TEAM] != NONE:
            waited_for = contexts[context + TEAM]
        if role <= TASKGROUP:
            join(contexts, context, contexts[waited_for + JOINED], contexts[waited_for + JOINED_BURDENED])
    return code


def set_parameter(s: State, thread: int, name: int, value: int, now: int) -> int:
    """The running task has a parameter from now on: a node of its own below the innermost one."""
    _, threads, contexts, _, _, _, _, _, _, _, _ = s
    context = threads[thread + CURRENT]
    if name == ABSENT:
        return UNKNOWN_STRING
    code = enter(s, thread, PARAMETER_LABEL | name, value, now)
    if code == ACCEPTED and contexts[context + PARAMETER_NAME] == NONE:
        contexts[context + PARAMETER_NAME], contexts[context + PARAMETER_VALUE] = name, value
    return code


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
        return end(s, thread, number, now, False, out, out_sizes)
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
        return end(s, thread, number, now, True, out, out_sizes)
    return stop_thread(s, thread, now) if kind == WORKER_STOP else ACCEPTED


def time_bounds(first: int, threads_end: int) -> tuple[int, int]:
    """Return the least and the largest time that an event may have, by that of the first."""
    if first == NONE:
        return 0, TIME_MAX
    until = first + TIME_MAX // (threads_end // THREADS)
    return (first - DISORDER_MAX if first > DISORDER_MAX else 0), (until if until < TIME_MAX else TIME_MAX)


def what_is_wrong(g: Ints, threads: Ints, kind: int, name: int, thread: int, now: int, since: int, until: int) -> int:
    """Return what is wrong with an event in itself."""
    if kind >= KINDS:
        return UNKNOWN_KIND
    if thread >= len(threads):
        return UNKNOWN_THREAD
    if name >= g[STRINGS] and name != ABSENT:
        return UNKNOWN_STRING
    return BAD_NUMBER if not since <= now <= until else TIME_BACK


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


def take_back(s: State, thread: int) -> None:
    """The event that brought a thread was refused: the thread is not there."""
    g, threads, contexts, _, frames, _, _, _, _, task_index, _ = s
    context = threads[thread + IMPLICIT]
    frame = contexts[context + TOP]
    frames[frame + BELOW] = g[FREE_FRAME]
    g[FREE_FRAME] = frame
    g[FRAMES_LEFT] += 1
    free_context(g, contexts, task_index, context)
    threads[thread + CURRENT] = threads[thread + IMPLICIT] = NONE
    g[WORKERS] -= 1


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
    strings, threads_end, brings = g[STRINGS], len(threads), len(sizes) > 0 or len(values) > 0 or metrics_an_event > 0
    first, newest = g[FIRST], g[NEWEST]
    since, until = time_bounds(first, threads_end)
    g[REFUSED] = g[ENDED] = 0
    for i in range(len(times)):
        now, kind, name = times[i], kinds[i], names[i]
        thread = thread_numbers[i] * THREADS
        code = ACCEPTED
        left = NONE
        if (
            thread >= threads_end
            or kind >= KINDS
            or (name >= strings and name != ABSENT)
            or not (threads[thread + LATEST] <= now <= until)
            or now < since
        ):
            code = what_is_wrong(g, threads, kind, name, thread, now, since, until)
        elif threads[thread + IMPLICIT] == NONE:
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
            at = 2 * g[REFUSED]
            refused[at], refused[at + 1] = i, code
            g[REFUSED] += 1
            g[COUNTED_REFUSALS + code] += 1
            continue
        if left == NEW_THREAD and g[WORKERS] > g[WORKERS_MAX]:
            g[WORKERS_MAX] = g[WORKERS]
        if brings:
            annotate(s, thread, kind, numbers[i], i, sizes, values, value_name, now, out_sizes)
            if left >= 0:
                add_metrics(metrics, left, given, i * metrics_an_event, metrics_an_event)
        threads[thread + LATEST] = now
        if now > newest:
            newest = now
        if first == NONE:
            first = now
            since, until = time_bounds(first, threads_end)
        current = threads[thread + CURRENT]
        label = THREAD_LABEL if current == NONE else frames[contexts[current + TOP] + FRAME_LABEL]
        if (
            label < OVERHEAD_LABEL or STUB_LABEL <= label < THREAD_LABEL
        ):  # a stub is innermost where its tasks are told apart
            does = WORKS
        else:
            does = WAITS if WAIT_LABEL <= label < STUB_LABEL else NEITHER
        if does != threads[thread + DOES]:
            change_doing(g, threads, thread, does, now)
    g[FIRST], g[NEWEST] = first, newest
