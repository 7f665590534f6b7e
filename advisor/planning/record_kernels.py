"""Kernels that execute records through a network's points, event by event (`record_runs`).

A record is a token; one that forks is several. Tokens, their queues and those in service are lists in arrays.
"""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from advisor import kernels

INSIDE_MAX = 16_384  # tokens at a time: more are an overload
BITS = 10  # equally likely values of a service or a gap: 2**BITS
SHIFT, SCALE, MASK = 32 - BITS, 2.0**-32, 2**32 - 1
SERVE, CHOOSE, FORK, MEET, LOOP, AGAIN, ENTER, LEAVE, DRAW, EXIT = range(10)  # what points do
FREE, INSIDE, GONE, NUMBER, RUNNING, WAITING = range(
    6
)  # counts: first free token, tokens inside, records gone and come, ..
NOW, ARRIVAL = range(2)  # of the clock


def execute(network, demand, queues, sizes, state, waited, work, found):
    """Send records through until the first len(found) have left; return False where more than INSIDE_MAX tokens are inside.

    `network` is points (m, 4) of what, next, number and word, edges of cumulated shares and their targets; `demand` seconds of
    components (n,), their values (n, 2**BITS), and gaps between arrivals; `queues` the first queue of each component, servers
    of each queue, and edges of the replicas that go to its instances; `sizes` the first point, words of a token and parts that
    keep order; `state` the generators of components, points and gaps. Fills `found` with latencies in order of arrival,
    `work` (records, queues + 1) with what each needed of each queue and the gap before it; adds visits and waits to `waited`.
    """
    first, slots, regions = sizes
    size, servers = INSIDE_MAX, len(queues[1])
    places = np.zeros(size, np.int64), np.arange(1, size + 1), np.zeros(size, np.int64)  # point, next token, record
    words, branches = np.zeros((size, slots + 1), np.int64), np.zeros((size, slots + 1), np.int64)
    tokens = (*places, words, branches, np.zeros(size), np.zeros(size))  # born, since when it waits
    lines = np.full(servers, -1), np.full(servers, -1), np.zeros(servers, np.int64)  # first, last, busy servers
    order = np.zeros(regions + 1, np.int64), np.zeros(regions + 1, np.int64), np.full((regions + 1, size), -1)
    events = (
        np.empty(size),
        np.empty(size, np.int64),
        np.empty(2 * size, np.int64),
    )  # ends, their tokens, tokens to move
    counts, clock = np.zeros(WAITING + 1, np.int64), np.zeros(ARRIVAL + 1)
    served = demand, queues, state, waited, work, tokens, lines, events, counts, clock
    return send_records(first, slots, network, order, found, served)


def send_records(first, slots, network, order, found, served):
    """Send records through, as `execute` does, which makes the arrays: here references to them are not counted."""
    (ends, _, todo), counts, clock = served[7], served[8], served[9]
    while counts[GONE] < len(found):
        if counts[RUNNING] == 0 or clock[ARRIVAL] <= ends[0]:
            token = admit_record(first, len(found), len(network[0]), served)
        else:
            token = end_service(network[0], len(found), served)
        todo[0], counts[WAITING] = token, 1
        while counts[WAITING] > 0:
            counts[WAITING] -= 1
            if not pass_point(todo[counts[WAITING]], network, slots, order, found, served):
                return False
        if counts[INSIDE] >= INSIDE_MAX - 1:
            return False
    return True


def admit_record(first, records, points, served):
    """Let the next record enter; return its token."""
    demand, _, state, _, work, (at, _, record, _, _, born, _), _, _, counts, clock = served
    token = take_token(served)
    clock[NOW] = clock[ARRIVAL]
    at[token], born[token], record[token] = first, clock[NOW], counts[NUMBER]
    gap = demand[2][drawn(state, len(demand[0]) + points) >> SHIFT]
    counts[NUMBER] += 1
    if counts[NUMBER] < records:
        work[counts[NUMBER], work.shape[1] - 1] = gap
    clock[ARRIVAL] = clock[NOW] + gap
    return token


def end_service(points, records, served):
    """End the service that ends first, and begin the next of its queue; return the token that goes on."""
    _, queues, _, waited, _, (at, link, _, words, _, _, since), (head, _, busy), (ends, runs, _), counts, clock = served
    clock[NOW], token = ends[0], runs[0]
    counts[RUNNING] = pop(ends, runs, counts[RUNNING])
    row = points[at[token], 2]
    server = queues[0][row] + words[token, words.shape[1] - 1]
    busy[server] -= 1
    other = head[server]
    if other >= 0:
        head[server] = link[other]
        row = points[at[other], 2]
        waited[row, 1] += clock[NOW] - since[other]
        begin_service(row, server, other, records, served)
    at[token] = points[at[token], 1]
    return token


def begin_service(row, server, token, records, served):
    """Let a server of a component's queue begin a token's service."""
    demand, queues, state, waited, work, tokens, lines, (ends, runs, _), counts, clock = served
    seconds_s = demand[0][row] * demand[1][row, drawn(state, row) >> SHIFT]
    waited[row, 0] += 1.0
    lines[2][server] += 1
    record = tokens[2][token]
    if record < records:
        work[record, queues[0][row]] += seconds_s
    counts[RUNNING] = push(ends, runs, counts[RUNNING], clock[NOW] + seconds_s, token)


def join_queue(row, slot, token, records, served):
    """Serve a token at a component, or let it wait; `slot` is the word of its replica below a split, else negative."""
    _, queues, _, _, _, (_, link, _, words, _, _, since), (head, tail, busy), _, _, clock = served
    instance = 0
    if slot >= 0:
        while queues[2][row, instance] <= words[token, slot]:
            instance += 1
    words[token, words.shape[1] - 1] = instance
    server = queues[0][row] + instance
    if busy[server] < queues[1][server]:
        begin_service(row, server, token, records, served)
        return
    since[token], link[token] = clock[NOW], -1
    if head[server] < 0:
        head[server] = token
    else:
        link[tail[server]] = token
    tail[server] = token


def pass_point(token, network, slots, order, found, served):
    """Move a token on from its point; return False where there is no room for its parts."""
    points, edges, targets = network
    demand, _, state, _, _, (at, _, record, words, _, born, _), _, _, counts, clock = served
    here = at[token]
    what, then, count, slot = points[here, 0], points[here, 1], points[here, 2], points[here, 3]
    if what == SERVE:
        join_queue(count, slot, token, len(found), served)
        return True
    if what == EXIT:
        if record[token] < len(found):
            found[record[token]] = clock[NOW] - born[token]
            counts[GONE] += 1
        free_token(token, served)
        return True
    if what == LEAVE:
        leave_in_order(token, count, slot, then, order, served)
        return True
    if what == FORK:
        return fork_token(token, count, slot, slots, targets[then : then + count], served)
    if what == CHOOSE or what == LOOP:
        uniform, branch = drawn(state, len(demand[0]) + here) * SCALE, 0
        while branch < count - 1 and edges[then + branch] <= uniform:
            branch += 1
        at[token] = targets[then + branch]
        if what == LOOP:
            words[token, slot] = branch
    elif what == AGAIN:
        words[token, slot] -= 1
        at[token] = count if words[token, slot] > 0 else then
    elif what == MEET:
        return meet_parts(token, slot, then, served)
    else:
        if what == ENTER:
            words[token, slot] = order[0][count]
            order[0][count] += 1
        else:  # the replica of a split
            words[token, slot] = drawn(state, len(demand[0]) + here)
        at[token] = then
    move_later(token, served)
    return True


def fork_token(token, parts, slot, slots, targets, served):
    """Make the parts of a token, one for each target; return False where there is no room for all."""
    at, _, record, words, branches, born, _ = served[5]
    words[token, slot], branches[token, slot] = token, parts  # the token that forks counts who is not back
    at[token] = targets[0]
    for part in range(1, parts):
        if served[8][INSIDE] >= INSIDE_MAX:
            return False
        other = take_token(served)
        for word in range(slots):
            words[other, word] = words[token, word]
        born[other], record[other], at[other] = born[token], record[token], targets[part]
        move_later(other, served)
    move_later(token, served)
    return True


def meet_parts(token, slot, then, served):
    """Let a part wait for the others of its token, which goes on after the last; return True."""
    at, _, _, words, branches, _, _ = served[5]
    group = words[token, slot]
    branches[group, slot] -= 1
    if token != group:
        free_token(token, served)
    if branches[group, slot] == 0:
        at[group] = then
        move_later(group, served)
    return True


def leave_in_order(token, region, slot, then, order, served):
    """Let a token leave a part that keeps order, with those that waited for it, or wait for those that came before."""
    at, words = served[5][0], served[5][3]
    left, done = order[1], order[2]
    done[region, words[token, slot] % INSIDE_MAX] = token
    at[token] = then
    last = left[region]
    while done[region, last % INSIDE_MAX] >= 0:
        last += 1
        if last - left[region] == INSIDE_MAX:
            break
    for back in range(last - left[region]):
        place = (last - 1 - back) % INSIDE_MAX
        move_later(done[region, place], served)
        done[region, place] = -1
    left[region] = last


def take_token(served):
    """Return a token that is free; there is one."""
    link, counts = served[5][1], served[8]
    token = counts[FREE]
    counts[FREE] = link[token]
    counts[INSIDE] += 1
    return token


def free_token(token, served):
    """Give a token back."""
    link, counts = served[5][1], served[8]
    link[token], counts[FREE] = counts[FREE], token
    counts[INSIDE] -= 1


def move_later(token, served):
    """Put a token on those that move on at this time, the last first."""
    todo, counts = served[7][2], served[8]
    todo[counts[WAITING]] = token
    counts[WAITING] += 1


def drawn(state, place):
    """Return the next number of a generator, 0 to 2**32 - 1 (Knuth and Lewis); its high bits are the random ones."""
    state[place] = (state[place] * 1664525 + 1013904223) & MASK
    return state[place]


def push(ends, runs, running, end, token):
    """Add to a heap by time; return its size."""
    place = running
    while place > 0 and ends[(place - 1) // 2] > end:
        ends[place], runs[place] = ends[(place - 1) // 2], runs[(place - 1) // 2]
        place = (place - 1) // 2
    ends[place], runs[place] = end, token
    return running + 1


def pop(ends, runs, running):
    """Take the first from a heap by time; return its size."""
    running -= 1
    end, token, place = ends[running], runs[running], 0
    while 2 * place + 1 < running:
        child = 2 * place + 1
        if child + 1 < running and ends[child + 1] < ends[child]:
            child += 1
        if ends[child] >= end:
            break
        ends[place], runs[place] = ends[child], runs[child]
        place = child
    ends[place], runs[place] = end, token
    return running


def batch_means(found, work, speed, weights, skipped, means):
    """Fill `means` (batches, 3): of latencies, of the weighted waits at one server of `speed` for each queue, and of work."""
    queues, waits, size = len(speed), np.zeros(len(speed)), (len(found) - skipped) // len(means)
    for record in range(skipped + size * len(means)):
        total, demanded = 0.0, 0.0
        for place in range(queues):
            if record > 0:
                waits[place] = max(waits[place] + work[record - 1, place] / speed[place] - work[record, queues], 0.0)
            total += weights[place] * waits[place]
            demanded += work[record, place]
        if record >= skipped:
            batch = (record - skipped) // size
            means[batch, 0] += found[record] / size
            means[batch, 1] += total / size
            means[batch, 2] += demanded / size


def _examples() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the types with which each kernel is called."""
    whole, some, table, wide = np.zeros(1, np.int64), np.zeros(1), np.zeros((1, 1)), np.zeros((1, 4), np.int64)
    network, demand, queues = (wide, some, whole), (some, table, some), (whole, whole, table)
    yield "execute", (network, demand, queues, (0, 1, 1), whole, table, table, some)
    yield "batch_means", (some, table, some, some, 1, table)


KERNELS = kernels.Source(__name__, (execute, batch_means), _examples, inline=True, patience=2)
