"""The profiler's tables: made, grown up to their caps, and emptied of what is open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from advisor.kernels.views import on_views
from advisor.profile import layout as at
from advisor.profile.kernels import KERNELS
from advisor.profile.stacks import State
from advisor.profile.tables import HASH_BITS

CHUNK_EVENTS = 4_096  # folded at a time: the columns stay in the cache, and tables grow only between chunks
EVENT_NODES, EVENT_FRAMES, EVENT_CONTEXTS = 4, 3, 3  # that one event may take at most
RESERVED_SHARE = 8  # of the cap of instances, one part for those that begin
SPARE = 8  # frames that are there beside, for events that look whether there are some before they take them

NAMES: Final = (
    "g", "threads", "contexts", "sizes", "frames", "nodes", "moments", "node_index", "task_index", "edges"
)  # fmt: skip
INTERPRETED: Final = {name: on_views(function) for name, function in KERNELS.plain.items()}


@dataclass(frozen=True, slots=True)
class Caps:
    """The most that one profiler holds; what is beyond is counted, and the profile says so."""

    nodes: int = 65_536  # call paths. What comes beyond is booked under one node, `overflow`. About 130 bytes each.
    # task instances made and not ended, threads and teams. Beyond (an eighth is kept for begins), a create is not
    # tracked and a begin is refused. 280 bytes.
    instances: int = 262_144
    frames: int = 1_048_576  # open regions of all instances. Beyond, events that enter are refused. 48 bytes.
    threads: int = 4_096  # threads numbered
    edges: int = 1_048_576  # dependences not met yet. Beyond, they count as met. 24 bytes.


class Tables:
    """The state in flat arrays.

    `burden_ns`: cost of handing a task to another worker, for the burdened span. `interpreted`: never use compiled kernels.
    """

    def __init__(self, caps: Caps, burden_ns: int, *, interpreted: bool = False) -> None:
        self.caps = caps
        self.interpreted = interpreted
        self.g = _ints(at.NUMBERS)
        self.threads, self.contexts, self.frames, self.nodes, self.edges = (_ints(0) for _ in range(5))
        self.sizes, self.moments = np.zeros(0), np.zeros(0)
        self.node_index, self.task_index = _ints(1), _ints(1)
        for number in (at.FREE_CONTEXT, at.FREE_FRAME, at.FREE_EDGE, at.FIRST):
            self.g[number] = at.NONE
        self.g[at.BURDEN] = burden_ns
        self.grow_threads(0)
        self.grow_nodes(64)
        # The first node is where the call paths beyond the cap are booked.
        self.kernels["find_node"](self.g, self.nodes, self.node_index, at.NONE, at.OVERFLOW << at.LABEL_BITS, 0)
        self.make_room(0, 0)

    @property
    def kernels(self) -> Mapping[str, Callable[..., Any]]:
        """The functions of the fold by name, for tables such as these."""
        return KERNELS.entries if KERNELS.ready and not self.interpreted else INTERPRETED

    @property
    def state(self) -> State:
        """What the fold takes."""
        return cast("State", tuple(getattr(self, name) for name in NAMES))

    def column(self, name: str, width: int) -> NDArray[Any]:
        """Return a table (rows, width)."""
        return getattr(self, name).reshape(-1, width)

    def make_room(self, events: int, threads: int) -> None:
        """See that so many events with thread numbers below `threads` find room, up to the caps."""
        self.grow_threads(min(threads, self.caps.threads))
        self.grow_nodes(min(int(self.g[at.NODES]) + EVENT_NODES * events, self.caps.nodes))
        used = len(self.contexts) // at.CONTEXT - int(self.g[at.CONTEXTS_LEFT])
        self.grow_contexts(min(used + EVENT_CONTEXTS * events, self.caps.instances))
        used = len(self.frames) // at.FRAME - int(self.g[at.FRAMES_LEFT])
        self.grow_frames(min(used + EVENT_FRAMES * events + SPARE, self.caps.frames))

    def grow_threads(self, threads: int) -> None:
        """Have rows for so many threads."""
        have = len(self.threads) // at.THREADS
        if threads > have:
            self.threads = _longer(self.threads, (threads - have) * at.THREADS)
            for row in range(have * at.THREADS, threads * at.THREADS, at.THREADS):
                self.threads[row + at.CURRENT] = self.threads[row + at.IMPLICIT] = at.NONE
                self.threads[row + at.DOES] = at.NEITHER

    def grow_nodes(self, nodes: int) -> None:
        """Have room for so many nodes, the index at most half full."""
        nodes = _rounded(nodes, len(self.nodes) // at.NODE, self.caps.nodes)
        if nodes <= self.g[at.NODES_ROOM]:
            return
        more = nodes - int(self.g[at.NODES_ROOM])
        self.nodes = _longer(self.nodes, more * at.NODE)
        self.moments = _longer(self.moments, more * at.MOMENTS)
        self.g[at.NODES_ROOM] = nodes
        bits = (2 * nodes - 1).bit_length()
        self.node_index = _ints(2**bits)
        self.g[at.NODE_SHIFT] = HASH_BITS - bits
        self.kernels["index_nodes"](self.g, self.nodes, self.node_index)

    def grow_contexts(self, contexts: int) -> None:
        """Have rows for so many instances, threads and teams, the index at most half full."""
        first = len(self.contexts) // at.CONTEXT
        contexts = _rounded(contexts, first, self.caps.instances)
        if contexts == first:
            return
        # Tasks whose begin was lost stay made for ever: near the cap they must not take the room of those that run.
        still = self.caps.instances - contexts
        self.g[at.RESERVED] = max(self.caps.instances // RESERVED_SHARE - still, 0)
        bits = (2 * contexts - 1).bit_length()
        self.task_index = _ints(2**bits)
        self.g[at.TASK_SHIFT] = HASH_BITS - bits
        self.kernels["index_contexts"](self.g, self.contexts, self.task_index)
        # The new rows are free, so they are in no index.
        new = self._add_rows("contexts", contexts, at.CONTEXT, at.TOP, at.FREE_CONTEXT)
        self.contexts[new + at.TAG], self.contexts[new + at.SERIAL] = at.TAG_FREE, at.NONE
        self.g[at.CONTEXTS_LEFT] += len(new)
        self.sizes = _longer(self.sizes, len(new))

    def grow_frames(self, frames: int) -> None:
        """Have rows for so many open regions."""
        frames = _rounded(frames, len(self.frames) // at.FRAME, self.caps.frames)
        self.g[at.FRAMES_LEFT] += len(self._add_rows("frames", frames, at.FRAME, at.BELOW, at.FREE_FRAME))

    def grow_edges(self, edges: int) -> None:
        """Have rows for so many more dependences than are open, up to the cap."""
        have = len(self.edges) // at.EDGE
        self._add_rows("edges", _rounded(have + edges, have, self.caps.edges), at.EDGE, at.NEXT_EDGE, at.FREE_EDGE)

    def _add_rows(self, name: str, rows: int, width: int, link: int, free: int) -> NDArray[np.int64]:
        """Make a table of so many rows, the new ones in front of its free list; return where these begin."""
        first = len(getattr(self, name))
        new = np.arange(first, rows * width, width)
        if len(new):
            table = _longer(getattr(self, name), rows * width - first)
            table[new + link] = np.append(new[1:], self.g[free])
            self.g[free] = first
            setattr(self, name, table)
        return new

    def copied(self, names: Iterable[str] = NAMES) -> Tables:
        """Return a copy that shares nothing with this one, or only what it is not asked to copy."""
        made = copy(self)
        for name in names:
            setattr(made, name, getattr(self, name).copy())
        return made

    def closed_copy(self) -> tuple[Tables, NDArray[np.int64]]:
        """Return a copy with all that is open closed as lost, and how many visits of each node that are.

        Their time stays, the visits do not count. The copy is to be read only.
        """
        made = self.copied(("g", "nodes"))
        g, nodes = made.g, made.column("nodes", at.NODE)
        frames, contexts, threads = (
            self.column(name, width)
            for name, width in (("frames", at.FRAME), ("contexts", at.CONTEXT), ("threads", at.THREADS))
        )
        now, opened = g[at.NEWEST], np.zeros(len(nodes), np.int64)
        passed = max(now - g[at.LAST], 0)
        g[at.IDLE_TIME] += passed * g[at.WAITING]
        g[at.READY_IDLE] += passed * min(g[at.WAITING], g[at.READY])
        g[at.LAST] += passed
        g[at.LOST] += g[at.ACTIVE_ALL]
        g[at.THREAD_TIME] += (now - threads[threads[:, at.IMPLICIT] != at.NONE, at.STARTED]).sum()
        live = contexts[np.isin(contexts[:, at.TAG], (at.TAG_TASK, at.TAG_IMPLICIT)) & (contexts[:, at.TOP] != at.NONE)]
        clock = live[:, at.RAN] + np.where(live[:, at.STATE] == at.RUNNING, now - live[:, at.RESUMED], 0)
        top, apart = live[:, at.TOP] // at.FRAME, np.maximum(clock - live[:, at.SINCE], 0)
        np.add.at(nodes[:, at.EXCLUSIVE], frames[top, at.AT_NODE], apart)
        worked = live[:, at.WORKED] + np.where(frames[top, at.FRAME_LABEL] < at.OVERHEAD_LABEL, apart, 0)
        for longest, path in ((at.SPAN, at.PATH), (at.SPAN_BURDENED, at.BURDENED)):
            g[longest] = max(g[longest], (live[:, path] + worked).max(initial=0))
        while len(top):  # from the innermost visits outwards
            node = frames[top, at.AT_NODE]
            np.add.at(nodes[:, at.INCLUSIVE], node, clock - frames[top, at.ENTERED])
            np.add.at(opened, node, 1)
            below = frames[top, at.BELOW]
            top, clock = below[below != at.NONE] // at.FRAME, clock[below != at.NONE]
        return made, opened

    def put_nodes(self, words: NDArray[np.int64], nodes: int) -> None:
        """Take nodes and their moments as a checkpoint has them, one table after the other."""
        self.grow_nodes(nodes)
        width = at.NODE * nodes
        self.nodes[:width] = words[:width]
        self.moments[: at.MOMENTS * nodes] = words[width:].view(np.float64)
        self.g[at.NODES] = nodes
        self.node_index = _ints(len(self.node_index))
        self.kernels["index_nodes"](self.g, self.nodes, self.node_index)

    def put_latest(self, times: Sequence[int]) -> None:
        """Take the times of the threads' last events."""
        self.grow_threads(len(times))
        self.column("threads", at.THREADS)[: len(times), at.LATEST] = times


def _rounded(wanted: int, have: int, cap: int) -> int:
    """Return a size of at least `wanted`, a quarter more than there is, up to the cap."""
    return have if wanted <= have else min(max(wanted, have + have // 4), cap)


def _ints(n: int) -> NDArray[np.int64]:
    return np.zeros(n, np.int64)


def _longer(old: NDArray[Any], more: int) -> NDArray[Any]:
    """Return a table with so many more numbers, 0."""
    return np.concatenate([old, np.zeros(more, old.dtype)])
