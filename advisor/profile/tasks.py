"""What happens to task instances: created, begun, switched to, ended; their dependences, and the longest path through them."""

from __future__ import annotations

from advisor.profile.layout import *
from advisor.profile.stacks import (
    State,
    be_taken,
    become_ready,
    book,
    burdened_now,
    close,
    count_active,
    join,
    note_path,
    own_clock,
    path_now,
    pop,
    push,
    resume,
    suspend,
)
from advisor.profile.tables import Floats, Ints, find_task, free_context, take_context

ABSENT = 2**32 - 1  # type of an event that has none


def new_task(s: State, number: int, other: int, kind: int, flags: int, thread: int, now: int) -> int:
    """Return the context of a task instance that the running task, or `other`, makes; NONE where there is no room."""
    g, threads, contexts, sizes, frames, nodes, _, _, task_index, _ = s
    creator = threads[thread + CURRENT]
    if other != 0 and other != contexts[creator + ID]:
        creator = find_task(g, contexts, task_index, other, TAG_TASK)
    context = take_context(g, contexts, task_index, number, TAG_TASK)
    if context == NONE:
        return NONE
    contexts[context + STATE], contexts[context + TYPE], contexts[context + FLAGS] = CREATED, kind, flags
    contexts[context + MADE_AT], contexts[context + HOME] = now, thread
    if flags & AT_ONCE:
        g[RAN_AT_ONCE] += 1
    if flags & DEPENDENT:
        g[RAN_IN_ORDER] += 1
    contexts[context + EDGES] = contexts[context + TEAM] = NONE
    contexts[context + CREATOR] = creator
    sizes[context // CONTEXT] = 0.0
    if creator != NONE:
        if contexts[creator + STATE] == RUNNING:
            book(contexts, frames, nodes, creator, own_clock(contexts, creator, now))
        contexts[context + CREATOR_SERIAL] = contexts[creator + SERIAL]
        contexts[context + TEAM], contexts[context + TEAM_SERIAL] = (
            contexts[creator + TEAM],
            contexts[creator + TEAM_SERIAL],
        )
        contexts[context + PATH] = path_now(contexts, creator)
        contexts[context + BURDENED] = burdened_now(contexts, creator)
        if not 0 < flags & (IN_LINE | AT_ONCE) < AT_ONCE:  # what runs in line is handed to nobody
            contexts[context + BURDENED] += g[BURDEN]
        if frames[contexts[creator + TOP] + FRAME_LABEL] >> LABEL_BITS == STUB:
            contexts[context + CREATOR] = NONE  # made apart: by a task that is reported as part of a sum
        else:
            contexts[creator + CHILDREN] += 1
    return context


def create(s: State, thread: int, number: int, other: int, kind: int, flags: int, now: int) -> int:
    """A task instance is made, and ready unless dependences come; never where its creator runs it in line."""
    g, _, contexts, _, _, _, _, _, task_index, _ = s
    if number == 0:
        return UNKNOWN_INSTANCE
    if kind == ABSENT:
        return UNKNOWN_STRING
    context = find_task(g, contexts, task_index, number, TAG_TASK)
    if context != NONE:
        # Threads' clocks may differ by so little that a task has begun before it was made.
        if contexts[context + MADE_AT] != NONE:
            return CREATED_TWICE
        contexts[context + MADE_AT] = now
        contexts[context + FLAGS] |= flags
        g[CREATES] += 1
        return ACCEPTED
    g[CREATES] += 1
    context = NONE
    if g[CONTEXTS_LEFT] > g[RESERVED]:
        context = new_task(s, number, other, kind, flags, thread, now)
    if context == NONE:
        g[UNTRACKED] += 1
    elif not flags & IN_LINE:
        become_ready(g, contexts, context, now)
    return ACCEPTED


def begin(s: State, thread: int, number: int, other: int, kind: int, flags: int, now: int) -> int:
    """A task instance begins on a thread: Fig. 12, TaskBegin."""
    g, threads, contexts, _, _, _, _, _, task_index, _ = s
    if number == 0:
        return UNKNOWN_INSTANCE
    if g[FRAMES_LEFT] < 3:  # its root, the stub; one stays for the stub of whatever runs next
        return TOO_DEEP
    context = find_task(g, contexts, task_index, number, TAG_TASK)
    if context == NONE:
        if kind == ABSENT:
            return UNKNOWN_STRING
        context = new_task(s, number, other, kind, flags, thread, now)
        if context == NONE:
            return TOO_MANY_INSTANCES
        contexts[context + MADE_AT] = NONE
    elif contexts[context + STATE] != CREATED:
        return BEGUN_TWICE
    else:
        contexts[context + FLAGS] |= flags
        if kind != ABSENT:
            contexts[context + TYPE] = kind
    current = threads[thread + CURRENT]
    contexts[context + TEAM_NODE] = contexts[current + TEAM_NODE]
    if current != threads[thread + IMPLICIT]:
        in_line = contexts[context + FLAGS] & IN_LINE != 0 and contexts[context + CREATOR] == current
        suspend(s, thread, now, in_line)
    contexts[context + HOME] = thread
    resume(s, thread, context, now)
    push(s, context, TASK_LABEL | contexts[context + TYPE], 0, 0)
    count_active(s, thread, context)
    g[BEGINS] += 1
    g[ACTIVE_ALL] += 1
    if g[ACTIVE_ALL] > g[ACTIVE_ALL_MAX]:
        g[ACTIVE_ALL_MAX] = g[ACTIVE_ALL]
    return ACCEPTED


def switch(s: State, thread: int, number: int, now: int) -> int:
    """A suspended task, or the implicit one (0), goes on on a thread: Fig. 12, TaskSwitch."""
    g, threads, contexts, _, _, _, _, _, task_index, _ = s
    current, implicit = threads[thread + CURRENT], threads[thread + IMPLICIT]
    if number == 0:
        if current != implicit:
            suspend(s, thread, now, False)
        return ACCEPTED
    context = find_task(g, contexts, task_index, number, TAG_TASK)
    if context == NONE:
        return UNKNOWN_INSTANCE
    if context == current:
        return ACCEPTED
    state = contexts[context + STATE]
    if state != SUSPENDED:
        return NOT_BEGUN if state == CREATED else RUNS_ELSEWHERE
    if contexts[context + HOME] != thread and not contexts[context + FLAGS] & UNTIED:
        return TIED_MOVED
    if g[FRAMES_LEFT] < 1:
        return TOO_DEEP
    if current != implicit:
        suspend(s, thread, now, False)
    resume(s, thread, context, now)
    return ACCEPTED


def end(
    s: State, thread: int, number: int, stands: int, now: int, cancelled: bool, ended: Ints, ended_sizes: Floats
) -> int:
    """A task instance ends: Fig. 12, TaskEnd. Its call tree is in the profile already; its row goes out."""
    g, threads, contexts, sizes, frames, _, _, _, task_index, _ = s
    context = find_task(g, contexts, task_index, number, TAG_TASK)
    if context == NONE or number == 0:
        return UNKNOWN_INSTANCE
    if contexts[context + STATE] == CREATED:
        if not cancelled:
            return NOT_BEGUN
        if contexts[context + IS_READY]:
            be_taken(g, contexts, context, now)
    else:
        if context != threads[thread + CURRENT]:
            return NOT_CURRENT
        if (
            not cancelled
            and frames[contexts[context + TOP] + BELOW] != NONE
            and has_open_regions(contexts, frames, context)
        ):
            if not g[LENIENT]:
                return OPEN_REGIONS
            g[REPAIRED] += 1
        leave(s, thread, context, now)
        hand_out(g, contexts, sizes, context, stands, ended, ended_sizes)
    hand_on(s, context, now)
    free_context(g, contexts, task_index, context)
    g[CANCELS if cancelled else ENDS] += 1
    return ACCEPTED


def has_open_regions(contexts: Ints, frames: Ints, context: int) -> bool:
    """Return whether anything but parameters is open above a task's root."""
    frame = contexts[context + TOP]
    while frames[frame + FRAME_LABEL] >> LABEL_BITS == PARAMETER:
        frame = frames[frame + BELOW]
    return frames[frame + BELOW] != NONE


def leave(s: State, thread: int, context: int, now: int) -> None:
    """Close all that is open in the running task, and go back to the implicit one."""
    g, threads, contexts, frames, nodes = s[0], s[1], s[2], s[4], s[5]
    clock = own_clock(contexts, context, now)
    while frames[contexts[context + TOP] + BELOW] != NONE:
        close(s, context, clock)
    most = frames[contexts[context + TOP] + AT_NODE] * NODE + WORKED_MOST
    pop(s, context, clock)  # the root is no parallel region
    if contexts[context + WORKED] > nodes[most]:
        nodes[most] = contexts[context + WORKED]
    contexts[context + RAN] = clock
    implicit = threads[thread + IMPLICIT]
    pop(s, implicit, own_clock(contexts, implicit, now))
    threads[thread + CURRENT] = implicit
    threads[thread + ACTIVE] -= 1
    g[ACTIVE_ALL] -= 1


def hand_out(
    g: Ints, contexts: Ints, sizes: Floats, context: int, stands: int, ended: Ints, ended_sizes: Floats
) -> None:
    """Write the row of an instance that ended."""
    row = g[ENDED]
    at = row * ENDED_FIELDS
    ended[at + ENDED_TYPE], ended[at + ENDED_NS] = contexts[context + TYPE], contexts[context + RAN]
    ended[at + ENDED_RUNNING], ended[at + ENDED_STANDS] = g[WORKING], stands if 0 < stands < STANDS_MAX else 1
    ended_sizes[row] = sizes[context // CONTEXT]
    g[ENDED] = row + 1


def hand_on(s: State, context: int, now: int) -> None:
    """Tell creator, team and successors that a task is over, and how long the path to its end is.

    A creator that wanted it in line goes on behind it; another one may join it later.
    """
    g, contexts, frames, nodes, edges = s[0], s[2], s[4], s[5], s[9]
    path = path_now(contexts, context)
    burdened = burdened_now(contexts, context) + g[BURDEN]
    if path > g[SPAN]:
        g[SPAN] = path
    if burdened - g[BURDEN] > g[SPAN_BURDENED]:
        g[SPAN_BURDENED] = burdened - g[BURDEN]
    creator = contexts[context + CREATOR]
    if creator != NONE and contexts[creator + SERIAL] == contexts[context + CREATOR_SERIAL]:
        contexts[creator + CHILDREN] -= 1
        flags = contexts[context + FLAGS] & (IN_LINE | AT_ONCE)
        in_line = flags & IN_LINE != 0
        if 0 < flags < AT_ONCE:
            if contexts[creator + STATE] == RUNNING:
                book(contexts, frames, nodes, creator, own_clock(contexts, creator, now))
            join(contexts, creator, path, burdened - g[BURDEN])
        else:
            note_path(contexts, creator, path, burdened)
        if (
            (contexts[creator + CHILDREN] == 0 or in_line)
            and contexts[creator + STATE] == SUSPENDED
            and contexts[creator + IS_READY] == 0
            and contexts[creator + BLOCKERS] == 0
        ):
            become_ready(g, contexts, creator, now)
    team = contexts[context + TEAM]
    if team != NONE and contexts[team + SERIAL] == contexts[context + TEAM_SERIAL]:
        note_path(contexts, team, path, burdened)
    edge = contexts[context + EDGES]
    while edge != NONE:
        successor = edges[edge + SUCCESSOR]
        if contexts[successor + SERIAL] == edges[edge + SUCCESSOR_SERIAL]:
            contexts[successor + BLOCKERS] -= 1
            join(contexts, successor, path, burdened)
            if (
                contexts[successor + BLOCKERS] == 0
                and contexts[successor + STATE] == CREATED
                and not contexts[successor + FLAGS] & IN_LINE
            ):
                become_ready(g, contexts, successor, now)
        after = edges[edge + NEXT_EDGE]
        edges[edge + NEXT_EDGE] = g[FREE_EDGE]
        g[FREE_EDGE] = edge
        edge = after


def depend(s: State, number: int, other: int, now: int) -> int:
    """A task instance that has not begun waits for another one; one that has ended is waited for no longer."""
    g, _, contexts, _, _, _, _, _, task_index, edges = s
    successor = find_task(g, contexts, task_index, number, TAG_TASK)
    if successor == NONE:
        return UNKNOWN_INSTANCE
    if contexts[successor + STATE] != CREATED:
        return BEGUN_TWICE
    g[DEPENDENCES] += 1
    before = find_task(g, contexts, task_index, other, TAG_TASK)
    if before == NONE or before == successor:
        return ACCEPTED
    edge = g[FREE_EDGE]
    if edge == NONE:
        g[EDGES_REFUSED] += 1
        return ACCEPTED
    g[FREE_EDGE] = edges[edge + NEXT_EDGE]
    edges[edge + SUCCESSOR], edges[edge + SUCCESSOR_SERIAL] = successor, contexts[successor + SERIAL]
    edges[edge + NEXT_EDGE] = contexts[before + EDGES]
    contexts[before + EDGES] = edge
    contexts[successor + BLOCKERS] += 1
    if contexts[successor + IS_READY]:
        be_taken(g, contexts, successor, now)
    return ACCEPTED
