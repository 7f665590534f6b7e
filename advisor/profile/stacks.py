"""The call paths of contexts: what is innermost, how long it was, and which context a thread runs (paper 5, Fig. 12).

A context has a clock of its own, which stands while it is suspended: so all its open regions pause and resume at once, and
the inclusive time of a visit is the difference of two readings. Exclusive time is booked whenever what is innermost changes.
The implicit task's clock never stands; while a task runs on its thread, its innermost frame is the stub.
"""

from __future__ import annotations

from advisor.profile.layout import *
from advisor.profile.tables import Floats, Ints, find_node, free_context

# Numbers of the whole, threads, contexts, sizes, frames, nodes, moments, index of nodes, index of tasks, edges.
State = tuple[Ints, Ints, Ints, Floats, Ints, Ints, Floats, Ints, Ints, Ints]


def tick(g: Ints, now: int) -> None:
    """Integrate up to `now` how many workers wait, and how many of them while a task was ready."""
    apart = now - g[LAST]
    if apart > 0:
        waiting, ready = g[WAITING], g[READY]
        g[IDLE_TIME] += waiting * apart
        g[READY_IDLE] += (waiting if waiting < ready else ready) * apart
        g[LAST] = now


def become_ready(g: Ints, contexts: Ints, context: int, now: int) -> None:
    """A task could run from now on."""
    tick(g, now)
    g[READY] += 1
    contexts[context + IS_READY] = 1


def be_taken(g: Ints, contexts: Ints, context: int, now: int) -> None:
    """A task that was ready is so no longer."""
    tick(g, now)
    g[READY] -= 1
    contexts[context + IS_READY] = 0


def change_doing(g: Ints, threads: Ints, thread: int, does: int, now: int) -> None:
    """Keep count of the threads that work and of those that wait."""
    tick(g, now)
    did = threads[thread + DOES]
    if did == WORKS:
        g[WORKING] -= 1
    elif did == WAITS:
        g[WAITING] -= 1
    if does == WORKS:
        g[WORKING] += 1
    elif does == WAITS:
        g[WAITING] += 1
    threads[thread + DOES] = does


def own_clock(contexts: Ints, context: int, now: int) -> int:
    """Return how long a running context has run."""
    return contexts[context + RAN] + now - contexts[context + RESUMED]


def book(contexts: Ints, frames: Ints, nodes: Ints, context: int, clock: int) -> None:
    """Book the time since the last change as exclusive time of what is innermost."""
    apart = clock - contexts[context + SINCE]
    if apart > 0:
        frame = contexts[context + TOP]
        nodes[frames[frame + AT_NODE] * NODE + EXCLUSIVE] += apart
        if frames[frame + FRAME_LABEL] < OVERHEAD_LABEL:
            contexts[context + WORKED] += apart
        contexts[context + SINCE] = clock


def push(s: State, context: int, label: int, value: int, clock: int) -> int:
    """Enter a node below the innermost one and return its frame; the caller has seen that there is one left."""
    g, contexts, frames, nodes = s[0], s[2], s[4], s[5]
    below = contexts[context + TOP]
    frame = g[FREE_FRAME]
    g[FREE_FRAME] = frames[frame + BELOW]
    g[FRAMES_LEFT] -= 1
    if below == NONE:
        node = find_node(g, nodes, s[7], NONE, label, value)
    else:
        parent = frames[below + AT_NODE]
        at = parent * NODE
        apart = clock - contexts[context + SINCE]  # as `book`
        if apart > 0:
            nodes[at + EXCLUSIVE] += apart
            if frames[below + FRAME_LABEL] < OVERHEAD_LABEL:
                contexts[context + WORKED] += apart
        node = nodes[at + RECENT]
        if nodes[node * NODE + LABEL] != label or nodes[node * NODE + VALUE] != value:
            node = find_node(g, nodes, s[7], parent, label, value)
            nodes[at + RECENT] = node
    contexts[context + SINCE] = clock
    frames[frame + AT_NODE], frames[frame + BELOW] = node, below
    frames[frame + ENTERED], frames[frame + FRAME_LABEL] = clock, label
    contexts[context + TOP] = frame
    return frame


def pop(s: State, context: int, clock: int) -> None:
    """Leave the innermost node: one more visit of it (Welford's mean and sum of squared deviations)."""
    g, contexts, frames, nodes, moments = s[0], s[2], s[4], s[5], s[6]
    frame = contexts[context + TOP]
    node = frames[frame + AT_NODE]
    at = node * NODE
    apart = clock - contexts[context + SINCE]  # as `book`
    if apart > 0:
        nodes[at + EXCLUSIVE] += apart
        if frames[frame + FRAME_LABEL] < OVERHEAD_LABEL:
            contexts[context + WORKED] += apart
        contexts[context + SINCE] = clock
    took = clock - frames[frame + ENTERED]
    count = nodes[at + COUNT] + 1
    nodes[at + COUNT] = count
    nodes[at + INCLUSIVE] += took
    if took < nodes[at + LEAST]:
        nodes[at + LEAST] = took
    if took > nodes[at + MOST]:
        nodes[at + MOST] = took
    node *= MOMENTS
    mean = moments[node]
    off = took - mean
    mean += off / count
    moments[node] = mean
    moments[node + 1] += off * (took - mean)
    contexts[context + TOP] = frames[frame + BELOW]
    frames[frame + BELOW] = g[FREE_FRAME]
    g[FREE_FRAME] = frame
    g[FRAMES_LEFT] += 1


def path_now(contexts: Ints, context: int) -> int:
    """Return the longest path to where a context stands; its time must be booked."""
    return contexts[context + PATH] + contexts[context + WORKED]


def burdened_now(contexts: Ints, context: int) -> int:
    """As `path_now`, with the burden of each task on it."""
    return contexts[context + BURDENED] + contexts[context + WORKED]


def join(contexts: Ints, context: int, path: int, burdened: int) -> None:
    """A context goes on after what ended at the end of these paths."""
    worked = contexts[context + WORKED]
    if path - worked > contexts[context + PATH]:
        contexts[context + PATH] = path - worked
    if burdened - worked > contexts[context + BURDENED]:
        contexts[context + BURDENED] = burdened - worked


def note_path(contexts: Ints, context: int, path: int, burdened: int) -> None:
    """A path ends that a context may join."""
    if path > contexts[context + JOINED]:
        contexts[context + JOINED] = path
    if burdened > contexts[context + JOINED_BURDENED]:
        contexts[context + JOINED_BURDENED] = burdened


def close(s: State, context: int, clock: int) -> None:
    """Leave the innermost node; of a parallel region, leave the team too."""
    g, _, contexts, _, frames, _, _, _, task_index, _ = s
    frame = contexts[context + TOP]
    label, team, node = frames[frame + FRAME_LABEL], frames[frame + OUTER_TEAM], frames[frame + OUTER_NODE]
    pop(s, context, clock)
    if label >> LABEL_BITS == PARALLEL:
        left = contexts[context + TEAM]
        note_path(contexts, left, path_now(contexts, context), burdened_now(contexts, context))
        join(contexts, context, contexts[left + JOINED], contexts[left + JOINED_BURDENED])
        contexts[left + MEMBERS] -= 1
        if contexts[left + MEMBERS] == 0:
            free_context(g, contexts, task_index, left)
        contexts[context + TEAM], contexts[context + TEAM_NODE] = team, node
        contexts[context + TEAM_SERIAL] = NONE if team == NONE else contexts[team + SERIAL]


def awaits_children(contexts: Ints, frames: Ints, context: int) -> bool:
    """Return whether a context stands in a taskwait or taskgroup whose children have not all ended."""
    top = contexts[context + TOP]
    if top == NONE or contexts[context + CHILDREN] == 0:
        return False
    role = frames[top + FRAME_LABEL] >> LABEL_BITS
    return role == TASKWAIT or role == TASKGROUP


def suspend(s: State, thread: int, now: int, in_line: bool) -> None:
    """The running task pauses, `in_line` for one that it waits for: the implicit task leaves its stub, its clocks stand."""
    g, threads, contexts, frames, nodes = s[0], s[1], s[2], s[4], s[5]
    context, implicit = threads[thread + CURRENT], threads[thread + IMPLICIT]
    clock = contexts[context + RAN] + now - contexts[context + RESUMED]
    book(contexts, frames, nodes, context, clock)
    contexts[context + RAN], contexts[context + STATE] = clock, SUSPENDED
    if not in_line and (contexts[context + CHILDREN] == 0 or not awaits_children(contexts, frames, context)):
        become_ready(g, contexts, context, now)
    pop(s, implicit, now - contexts[implicit + RESUMED])
    threads[thread + CURRENT] = implicit


def resume(s: State, thread: int, context: int, now: int) -> None:
    """A task goes on on this thread: the implicit task enters its stub."""
    g, threads, contexts = s[0], s[1], s[2]
    implicit = threads[thread + IMPLICIT]
    if contexts[context + IS_READY]:
        be_taken(g, contexts, context, now)
    contexts[context + STATE], contexts[context + RESUMED] = RUNNING, now
    g[FRAGMENTS_ALL] += 1
    push(s, implicit, STUB_LABEL | contexts[context + TYPE], 0, now - contexts[implicit + RESUMED])
    home = contexts[context + HOME]
    if home != thread:
        threads[home + ACTIVE] -= 1
        contexts[context + HOME] = thread
        count_active(s, thread, context)
    threads[thread + CURRENT] = context


def count_active(s: State, thread: int, context: int) -> None:
    """One more task instance is active on a thread; keep the most at a time of its parallel region (Table II)."""
    _, threads, contexts, _, _, nodes, _, _, _, _ = s
    active = threads[thread + ACTIVE] + 1
    threads[thread + ACTIVE] = active
    at = contexts[context + TEAM_NODE] * NODE + ACTIVE_MAX
    if active > nodes[at]:
        nodes[at] = active
