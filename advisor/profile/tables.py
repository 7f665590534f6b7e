"""Tables in flat arrays: nodes and task instances found by open addressing, rows taken from free lists.

Written so that numba compiles it as it stands and that plain Python runs it on lists: see `compiled`. Whole numbers stay below
2**62, so that both reckon the same.
"""

from __future__ import annotations

from collections.abc import MutableSequence

from advisor.profile.layout import *

Ints = MutableSequence[int]
Floats = MutableSequence[float]

HASH_BITS = 30
HASH_MASK = (1 << HASH_BITS) - 1
MULTIPLIER = 0x278DDE6D  # 2**30 over the golden ratio: numbers in sequence spread evenly


def node_home(parent: int, label: int, value: int, shift: int) -> int:
    """Return where the search for a node begins."""
    mixed = (parent + 1) * 0x9E3779 + label * 0x85EBCB + (value & 0xFFFFFF) * 0xC2B2AF
    return ((((mixed ^ (mixed >> 23)) & HASH_MASK) * MULTIPLIER) & HASH_MASK) >> shift


def find_node(g: Ints, nodes: Ints, node_index: Ints, parent: int, label: int, value: int) -> int:
    """Return the node of a call path, made where it is new; `OVERFLOW_NODE` where there is no room."""
    mask = len(node_index) - 1
    place = node_home(parent, label, value, g[NODE_SHIFT])
    found = node_index[place]
    while found:
        at = (found - 1) * NODE
        if nodes[at + LABEL] == label and nodes[at + PARENT] == parent and nodes[at + VALUE] == value:
            return found - 1
        place = (place + 1) & mask
        found = node_index[place]
    node = g[NODES]
    if node >= g[NODES_ROOM]:
        g[NODES_REFUSED] += 1
        return OVERFLOW_NODE
    g[NODES] = node + 1
    node_index[place] = node + 1
    at = node * NODE
    for field in range(NODE):
        nodes[at + field] = 0
    nodes[at + PARENT], nodes[at + LABEL], nodes[at + VALUE] = parent, label, value
    nodes[at + LEAST] = 2**62
    return node


def index_nodes(g: Ints, nodes: Ints, node_index: Ints) -> None:
    """Fill an empty index with the nodes there are."""
    mask = len(node_index) - 1
    for node in range(g[NODES]):
        at = node * NODE
        place = node_home(nodes[at + PARENT], nodes[at + LABEL], nodes[at + VALUE], g[NODE_SHIFT])
        while node_index[place]:
            place = (place + 1) & mask
        node_index[place] = node + 1


def task_home(number: int, shift: int) -> int:
    """Return where the search for a task instance begins."""
    return ((((number ^ (number >> 30)) & HASH_MASK) * MULTIPLIER) & HASH_MASK) >> shift


def find_task(g: Ints, contexts: Ints, task_index: Ints, number: int, tag: int) -> int:
    """Return the context of a task instance or team, NONE where there is none."""
    mask = len(task_index) - 1
    place = task_home(number, g[TASK_SHIFT])
    found = task_index[place]
    while found:
        if contexts[found - 1 + ID] == number and contexts[found - 1 + TAG] == tag:
            return found - 1
        place = (place + 1) & mask
        found = task_index[place]
    return NONE


def take_context(g: Ints, contexts: Ints, task_index: Ints, number: int, tag: int) -> int:
    """Return a new context, its fields 0, entered in the index where `tag` is no implicit task's; NONE without room."""
    context = g[FREE_CONTEXT]
    if context == NONE:
        return NONE
    g[FREE_CONTEXT] = contexts[context + TOP]
    g[CONTEXTS_LEFT] -= 1
    contexts[context + RAN] = contexts[context + SINCE] = contexts[context + WORKED] = 0
    contexts[context + CHILDREN] = contexts[context + BLOCKERS] = 0
    contexts[context + IS_READY] = contexts[context + MEMBERS] = contexts[context + TEAM_NODE] = 0
    contexts[context + PATH] = contexts[context + BURDENED] = 0
    contexts[context + JOINED] = contexts[context + JOINED_BURDENED] = 0
    g[NEXT_SERIAL] += 1
    contexts[context + ID], contexts[context + TAG], contexts[context + SERIAL] = number, tag, g[NEXT_SERIAL]
    contexts[context + TOP] = NONE
    mask = len(task_index) - 1
    place = task_home(number, g[TASK_SHIFT])
    while task_index[place]:
        place = (place + 1) & mask
    task_index[place] = context + 1
    return context


def free_context(g: Ints, contexts: Ints, task_index: Ints, context: int) -> None:
    """Give a context back, and close the gap that it leaves in the index."""
    mask, shift = len(task_index) - 1, g[TASK_SHIFT]
    gap = task_home(contexts[context + ID], shift)
    while task_index[gap] != context + 1:
        gap = (gap + 1) & mask
    place = (gap + 1) & mask
    while task_index[place]:
        # What may not be found past an empty place moves into the gap: its home is not between the two.
        home = task_home(contexts[task_index[place] - 1 + ID], shift)
        if (place - home) & mask >= (place - gap) & mask:
            task_index[gap] = task_index[place]
            gap = place
        place = (place + 1) & mask
    task_index[gap] = 0
    contexts[context + TAG], contexts[context + SERIAL] = TAG_FREE, NONE
    contexts[context + TOP] = g[FREE_CONTEXT]
    g[FREE_CONTEXT] = context
    g[CONTEXTS_LEFT] += 1


def index_contexts(g: Ints, contexts: Ints, task_index: Ints) -> None:
    """Fill an empty index with the contexts in use."""
    mask = len(task_index) - 1
    for context in range(0, len(contexts), CONTEXT):
        if contexts[context + TAG] != TAG_FREE:
            place = task_home(contexts[context + ID], g[TASK_SHIFT])
            while task_index[place]:
                place = (place + 1) & mask
            task_index[place] = context + 1
