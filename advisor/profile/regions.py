"""What the task that runs on a thread does besides tasks: regions, synchronisations, parameters; workers that come and go."""

from __future__ import annotations

from advisor.profile.layout import *
from advisor.profile.stacks import (
    State,
    book,
    burdened_now,
    close,
    join,
    note_path,
    own_clock,
    path_now,
    pop,
    push,
)
from advisor.profile.tables import (
    Ints,
    find_node,
    find_task,
    free_context,
    take_context,
)
from advisor.profile.tasks import (
    has_open_regions,
)


def start_thread(s: State, thread: int, now: int) -> int:
    """A worker is there: an implicit task of its own, its root node innermost."""
    g, threads, contexts, _, _, nodes, _, node_index, task_index, _ = s
    if g[FRAMES_LEFT] < 1:
        return TOO_DEEP
    context = take_context(g, contexts, task_index, 0, TAG_IMPLICIT)
    if context == NONE:
        return TOO_MANY_INSTANCES
    contexts[context + STATE], contexts[context + RESUMED], contexts[context + HOME] = RUNNING, now, thread
    contexts[context + TEAM] = contexts[context + CREATOR] = NONE
    contexts[context + EDGES] = contexts[context + TYPE] = NONE
    contexts[context + TEAM_NODE] = find_node(g, nodes, node_index, NONE, THREAD_LABEL | thread // THREADS, 0)
    threads[thread + CURRENT] = threads[thread + IMPLICIT] = context
    threads[thread + STARTED], threads[thread + ACTIVE], threads[thread + DOES] = now, 0, NEITHER
    push(s, context, THREAD_LABEL | thread // THREADS, 0, 0)
    g[WORKERS] += 1
    return ACCEPTED


def take_back(s: State, thread: int) -> None:
    """The event that brought a thread was refused: the thread is not there."""
    g, threads, contexts, _, frames, _, _, _, task_index, _ = s
    context = threads[thread + IMPLICIT]
    frame = contexts[context + TOP]
    frames[frame + BELOW] = g[FREE_FRAME]
    g[FREE_FRAME] = frame
    g[FRAMES_LEFT] += 1
    free_context(g, contexts, task_index, context)
    threads[thread + CURRENT] = threads[thread + IMPLICIT] = NONE
    g[WORKERS] -= 1


def stop_thread(s: State, thread: int, now: int) -> int:
    """A worker goes: nothing may be open on it."""
    g, threads, contexts, _, frames, _, _, _, task_index, _ = s
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
    g, threads, contexts, _, frames, _, _, _, task_index, _ = s
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
    _, threads, contexts, _, frames, nodes, _, _, _, _ = s
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
