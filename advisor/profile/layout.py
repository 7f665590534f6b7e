"""How the profiler's state lies in flat arrays: rows of whole numbers, each row one thing, its fields side by side.

A row is what an event touches together: one or two cache lines. The same numbers stand in Python lists where nothing is
compiled. Contexts, frames, threads and edges go by the position of their first field, -1 is none; nodes go by number, since
their moments lie in a second array.
"""

from __future__ import annotations

from typing import Final

NONE: Final = -1

# What a node stands for. Their order sorts them: work below CREATION, overhead below TASKWAIT, waiting below STUB.
TASK: Final = 0  # root of a task construct's tree
REGION: Final = 1
PARALLEL: Final = 2
PARAMETER: Final = 3
CREATION: Final = 4
MANAGEMENT: Final = 5
TASKWAIT: Final = 6
BARRIER: Final = 7
TASKGROUP: Final = 8
WAIT: Final = 9
IDLE: Final = 10
STUB: Final = 11  # at a scheduling point of an implicit task: fragments of tasks that ran, or tasks kept apart as sums
THREAD: Final = 12  # root of a thread's implicit tree
OVERFLOW: Final = 13  # what came when the table was full

ROLE_NAMES: Final = (
    "task", "region", "parallel", "parameter", "creation", "management", "taskwait", "barrier", "taskgroup", "wait", "idle",
    "stub", "thread", "overflow",
)  # fmt: skip

# A label is role << LABEL_BITS | number of a string (or of a thread).
LABEL_BITS: Final = 20
LABEL_MASK: Final = (1 << LABEL_BITS) - 1
TASK_LABEL: Final = TASK << LABEL_BITS
PARAMETER_LABEL: Final = PARAMETER << LABEL_BITS
OVERHEAD_LABEL: Final = CREATION << LABEL_BITS  # and above: no work
WAIT_LABEL: Final = TASKWAIT << LABEL_BITS  # and above, below the stubs: waiting
BARRIER_LABEL: Final = BARRIER << LABEL_BITS
TASKGROUP_LABEL: Final = TASKGROUP << LABEL_BITS
OTHER_WAIT_LABEL: Final = WAIT << LABEL_BITS
IDLE_LABEL: Final = IDLE << LABEL_BITS
STUB_LABEL: Final = STUB << LABEL_BITS
THREAD_LABEL: Final = THREAD << LABEL_BITS

# Nodes.
PARENT: Final = 0
LABEL: Final = 1
VALUE: Final = 2  # of a parameter
COUNT: Final = 3  # visits completed
INCLUSIVE: Final = 4  # ns of them
EXCLUSIVE: Final = 5  # ns, up to the last change of what is innermost
LEAST: Final = 6  # ns of one visit
MOST: Final = 7
ACTIVE_MAX: Final = 8  # of a thread or parallel region: most task instances active at a time
WORKED_MOST: Final = 8  # of a task's root, in the same place: ns of work of the instance that worked most
RECENT: Final = 9  # node below it that was entered last: mostly the next one too
NODE: Final = 10  # fields
OVERFLOW_NODE: Final = 0

# Contexts: task instances, the implicit task of each thread, teams of parallel regions.
ID: Final = 0
TAG: Final = 1  # what the number is of
SERIAL: Final = 2  # tells a row from what used it before
STATE: Final = 3
TOP: Final = 4  # innermost frame; of a free row the next free one
RAN: Final = 5  # ns run before the last resumption
RESUMED: Final = 6  # when
SINCE: Final = 7  # own clock, ns, at which its innermost frame became that
WORKED: Final = 8  # ns in frames that are work
HOME: Final = 9  # thread
TYPE: Final = 10
CREATOR: Final = 11
CREATOR_SERIAL: Final = 12
FLAGS: Final = 13
MADE_AT: Final = 14  # time of create
CHILDREN: Final = 17  # created and not ended
BLOCKERS: Final = 18  # dependences not met
EDGES: Final = 19  # first edge to a successor
IS_READY: Final = 20
PATH: Final = 21  # span at this task's start and joins, less what it had worked then
BURDENED: Final = 22
JOINED: Final = 23  # longest path of the children that ended
JOINED_BURDENED: Final = 24
TEAM: Final = 25
TEAM_NODE: Final = 26  # node of the innermost parallel region
TEAM_SERIAL: Final = 29
MEMBERS: Final = 30  # of a team; threads inside
CONTEXT: Final = 32  # a whole number of cache lines

TAG_TASK: Final = 0
TAG_TEAM: Final = 1
TAG_IMPLICIT: Final = 2
TAG_FREE: Final = 3

CREATED: Final = 0
RUNNING: Final = 1
SUSPENDED: Final = 2

# Frames: the open regions of a context.
AT_NODE: Final = 0
BELOW: Final = 1
ENTERED: Final = 2  # own clock
FRAME_LABEL: Final = 3
OUTER_TEAM: Final = 4  # of a parallel region: what to go back to
OUTER_NODE: Final = 5
FRAME: Final = 6

# Threads.
CURRENT: Final = 0  # context that runs
IMPLICIT: Final = 1  # the thread's own context; NONE while the thread is not there
LATEST: Final = 2  # time of its last event
STARTED: Final = 3
ACTIVE: Final = 4  # task instances begun and not ended
DOES: Final = 5  # WORKS, WAITS or NEITHER
THREADS: Final = 6

WORKS: Final = 0
WAITS: Final = 1
NEITHER: Final = 2

MOMENTS: Final = 2  # mean and sum of squared deviations, a node
UNTIED: Final = 1  # flag of a task
IN_LINE: Final = 2 | 8  # flags of one that its creator waits for: undeferred, merged
AT_ONCE: Final = 16  # flag of one that does so only for want of threads: paths go as though it were deferred
DEPENDENT: Final = 32  # flag of one whose dependences are not reported: it counts as one that its creator waits for

# Edges: dependences not met yet.
SUCCESSOR: Final = 0
SUCCESSOR_SERIAL: Final = 1
NEXT_EDGE: Final = 2
EDGE: Final = 3

# Numbers of the whole. First sums and counts, which a restart keeps.
NEXT_SERIAL, LAST, READY_IDLE, IDLE_TIME, THREAD_TIME, WORKERS_MAX, ACTIVE_ALL_MAX, SPAN = range(8)
SPAN_BURDENED, BURDEN, CREATES, BEGINS, ENDS, CANCELS, FRAGMENTS_ALL, DEPENDENCES = range(8, 16)
UNTRACKED, NODES_REFUSED, REPAIRED, LENIENT, EDGES_REFUSED, LOST, FIRST, NEWEST = range(16, 24)
SUMMED, SUMMED_VISITS, SUMMED_TIME = 24, 25, 26  # instances reported as sums; with their creates and waits; their ns
RAN_AT_ONCE, RAN_IN_ORDER = 27, 28  # task instances made with these flags
COUNTED_REFUSALS = 29  # and on, by code
KEPT: Final = 53
# What is open, or is worked out.
FREE_CONTEXT, FREE_FRAME, FREE_EDGE, FRAMES_LEFT, NODES, NODES_ROOM, NODE_SHIFT, TASK_SHIFT = range(KEPT, KEPT + 8)
STRINGS, READY, WAITING, WORKING, WORKERS, ACTIVE_ALL, REFUSED, ENDED = range(KEPT + 8, KEPT + 16)
CONTEXTS_LEFT, RESERVED, NUMBERS = range(
    KEPT + 16, KEPT + 19
)  # RESERVED: rows of contexts that creates leave to begins

# Why an event is refused. 0 is accepted.
(
    ACCEPTED, UNKNOWN_KIND, UNKNOWN_STRING, UNKNOWN_THREAD, TIME_BACK, UNKNOWN_INSTANCE, CREATED_TWICE, BEGUN_TWICE, NOT_BEGUN,
    NOT_CURRENT, RUNS_ELSEWHERE, TIED_MOVED, NOT_OPEN, NOT_INNERMOST, OPEN_REGIONS, UNKNOWN_REGION_KIND, THREAD_RUNS,
    THREAD_STOPPED, TASK_ON_THREAD, TOO_MANY_INSTANCES, TOO_DEEP, BAD_SIZE, BAD_NUMBER, BAD_SUM,
) = range(24)  # fmt: skip

REFUSALS: Final = {
    UNKNOWN_KIND: ("unknown_kind", "no such kind of event"),
    UNKNOWN_STRING: ("unknown_string", "type is no number of a string sent before"),
    UNKNOWN_THREAD: ("unknown_thread", "thread is beyond the most threads"),
    TIME_BACK: ("time_back", "the time is before an earlier event of the thread"),
    UNKNOWN_INSTANCE: ("unknown_instance", "no such task instance is active"),
    CREATED_TWICE: ("created_twice", "the task instance is there already"),
    BEGUN_TWICE: ("begun_twice", "the task instance has begun already"),
    NOT_BEGUN: ("not_begun", "the task instance has not begun"),
    NOT_CURRENT: ("not_current", "the task instance does not run on the thread"),
    RUNS_ELSEWHERE: ("runs_elsewhere", "the task instance runs on another thread"),
    TIED_MOVED: ("tied_moved", "a tied task goes on on another thread"),
    NOT_OPEN: ("not_open", "the region is not open in the running task"),
    NOT_INNERMOST: ("not_innermost", "another region was entered later and is still open"),
    OPEN_REGIONS: ("open_regions", "regions are still open"),
    UNKNOWN_REGION_KIND: ("unknown_region_kind", "no such kind of region or synchronisation"),
    THREAD_RUNS: ("thread_runs", "the worker has started already"),
    THREAD_STOPPED: ("thread_stopped", "the worker has stopped, or never started"),
    TASK_ON_THREAD: ("task_on_thread", "a task runs on the worker that stops"),
    TOO_MANY_INSTANCES: ("too_many_instances", "the table of active task instances is full"),
    TOO_DEEP: ("too_deep", "the table of open regions is full"),
    BAD_SIZE: ("bad_size", "a size is finite and from 0 to 2**60"),
    BAD_NUMBER: ("bad_number", "the time is too far from the first event's: 2**62 ns over all threads"),
    BAD_SUM: ("bad_sum", "a sum is of at least one instance, its times below 2**62 ns and in keeping with each other"),
}

# Rows of instances that ended: type, ns run, workers that ran a task then, and for how many of its type it stands (1: itself).
ENDED_TYPE, ENDED_NS, ENDED_RUNNING, ENDED_STANDS, ENDED_FIELDS = range(5)
STANDS_MAX: Final = 2**32
