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


def execute(network, demand, queues, sizes, state, waited, work, found):
    """Send records through until the first len(found) have left; return False where more than INSIDE_MAX tokens are inside.

    `network` is points (m, 4) of what, next, number and word, edges of cumulated shares and their targets; `demand` seconds of
    components (n,), their values (n, 2**BITS), and gaps between arrivals; `queues` the first queue of each component, servers
    of each queue, and edges of the replicas that go to its instances; `sizes` the first point, words of a token and parts that
    keep order; `state` the generators of components, points and gaps. Fills `found` with latencies in order of arrival,
    `work` (records, queues + 1) with what each needed of each queue and the gap before it; adds visits and waits to `waited`.
    """
    points, edges, targets = network
    seconds, values, gaps = demand
    queue, servers, replica_edges = queues
    first, slots, regions = sizes
    n, size, records = len(seconds), INSIDE_MAX, len(found)
    at, link, record = np.zeros(size, np.int64), np.arange(1, size + 1), np.zeros(size, np.int64)
    words, branches = np.zeros((size, slots + 1), np.int64), np.zeros((size, slots + 1), np.int64)
    born, since = np.zeros(size), np.zeros(size)
    head, tail, busy = np.full(len(servers), -1), np.full(len(servers), -1), np.zeros(len(servers), np.int64)
    entered, left = np.zeros(regions + 1, np.int64), np.zeros(regions + 1, np.int64)
    done = np.full((regions + 1, size), -1)
    ends, runs, running = np.empty(size), np.empty(size, np.int64), 0
    todo, waiting = np.empty(2 * size, np.int64), 0
    free, inside, gone, number, arrival, now = 0, 0, 0, 0, 0.0, 0.0
    while gone < records:
        if running == 0 or arrival <= ends[0]:  # a record enters
            now, token = arrival, free
            free, inside = link[token], inside + 1
            at[token], born[token], record[token] = first, now, number
            gap = gaps[drawn(state, n + len(points)) >> SHIFT]
            number += 1
            if number < records:
                work[number, len(servers)] = gap
            arrival = now + gap
        else:  # a service ends, and the next of its queue begins
            now, token = ends[0], runs[0]
            running = pop(ends, runs, running)
            row = points[at[token], 2]
            server = queue[row] + words[token, slots]
            busy[server] -= 1
            if head[server] >= 0:
                other = head[server]
                head[server] = link[other]
                row = points[at[other], 2]
                seconds_s = seconds[row] * values[row, drawn(state, row) >> SHIFT]
                waited[row, 0] += 1.0
                waited[row, 1] += now - since[other]
                busy[server] += 1
                if record[other] < records:
                    work[record[other], queue[row]] += seconds_s
                running = push(ends, runs, running, now + seconds_s, other)
            at[token] = points[at[token], 1]
        todo[0], waiting = token, 1
        while waiting > 0:
            waiting -= 1
            token = todo[waiting]
            here = at[token]
            what, then, count, slot = points[here, 0], points[here, 1], points[here, 2], points[here, 3]
            if what == SERVE:
                instance = 0
                if slot >= 0:  # below a split: by the replica that was drawn there
                    while replica_edges[count, instance] <= words[token, slot]:
                        instance += 1
                words[token, slots] = instance
                server = queue[count] + instance
                if busy[server] < servers[server]:
                    seconds_s = seconds[count] * values[count, drawn(state, count) >> SHIFT]
                    waited[count, 0] += 1.0
                    busy[server] += 1
                    if record[token] < records:
                        work[record[token], queue[count]] += seconds_s
                    running = push(ends, runs, running, now + seconds_s, token)
                else:
                    since[token], link[token] = now, -1
                    if head[server] < 0:
                        head[server] = token
                    else:
                        link[tail[server]] = token
                    tail[server] = token
                continue
            if what == EXIT:
                if record[token] < records:
                    found[record[token]] = now - born[token]
                    gone += 1
                link[token], free, inside = free, token, inside - 1
                continue
            if what == CHOOSE or what == LOOP:
                uniform, branch = drawn(state, n + here) * SCALE, 0
                while branch < count - 1 and edges[then + branch] <= uniform:
                    branch += 1
                at[token] = targets[then + branch]
                if what == LOOP:
                    words[token, slot] = branch
            elif what == AGAIN:
                words[token, slot] -= 1
                at[token] = count if words[token, slot] > 0 else then
            elif what == FORK:
                words[token, slot], branches[token, slot] = token, count  # the token that forks counts who is not back
                at[token] = targets[then]
                for part in range(1, count):
                    if inside >= size:
                        return False
                    other = free
                    free, inside = link[other], inside + 1
                    for word in range(slots):
                        words[other, word] = words[token, word]
                    born[other], record[other], at[other] = born[token], record[token], targets[then + part]
                    todo[waiting] = other
                    waiting += 1
            elif what == MEET:
                group = words[token, slot]
                branches[group, slot] -= 1
                if token != group:
                    link[token], free, inside = free, token, inside - 1
                if branches[group, slot] > 0:
                    continue
                token = group
                at[token] = then
            elif what == ENTER:
                words[token, slot] = entered[count]
                entered[count] += 1
                at[token] = then
            elif what == LEAVE:
                done[count, words[token, slot] % size] = token
                at[token] = then
                last = left[count]
                while done[count, last % size] >= 0:
                    last += 1
                    if last - left[count] == size:
                        break
                for back in range(last - left[count]):
                    place = (last - 1 - back) % size
                    todo[waiting] = done[count, place]
                    done[count, place] = -1
                    waiting += 1
                left[count] = last
                continue
            else:  # the replica of a split
                words[token, slot] = drawn(state, n + here)
                at[token] = then
            todo[waiting] = token
            waiting += 1
        if inside >= size - 1:
            return False
    return True


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


KERNELS = kernels.Source(__name__, (execute, batch_means), _examples, patience=2)
