"""The domains of values and the limits on everything a peer can make us hold, each with its reason."""

from __future__ import annotations

# Domains of values. Outside them a row is refused with code, value and bound.
CORES_MIN = 2.0**-10  # a cgroup quota below a thousandth of a core is a mistake
CORES_MAX = 2.0**20  # larger than any machine; keeps 1/p**2 exact enough to sum
PREDICTOR_MAX = 2.0**60  # an exbibyte; keeps x**6 far below the overflow of a double
PREDICTOR_RESOLUTION = 2.0**-60  # smaller predictors count as 0, so that scaling by powers of two stays exact
ELAPSED_MIN_S = 1e-9  # no clock resolves less
ELAPSED_MAX_S = 1e9  # 31 years
COUNT_MAX = 2**32  # runs that one row may stand for; with 2**31 rows the int64 count is still exact
DIMENSIONS_MAX = 4  # values of one predictor: M, N, K and one more; products of powers over more need too many rows
# Measures of a run beside its time: (least, most). A byte and an exbibyte; a nanojoule and thirty years at a megawatt.
MEASURES = {"peak_bytes": (1.0, 2.0**60), "energy_j": (1e-9, 1e15)}
NAME_BYTES_MAX = 200  # fits every mangled name we met; keeps an error and a log line short
LEVEL_MIN, LEVEL_MAX = 0.01, 0.9999  # of an interval: beyond, its quantile rests on no evidence

# What one message may hold.
MESSAGE_BYTES_MAX = 8 * 2**20  # a task graph, or a part of a state; a reader holds one per connection
LARGE_MESSAGES_MAX = 32  # longer than ROWS_BYTES_MAX, of all connections at a time; further ones are read later
STRUCTURE_BYTES_MAX = 2**20  # outside `bin` payloads: decoded Python objects take up to 30 times their wire bytes
DEPTH_MAX = 10  # the deepest legal message is an allocate_together with the mappings of a flat node list
ARRAY_ITEMS_MAX = 131_072  # elements of one array: the largest legal one is a list of component names
MAP_ITEMS_MAX = 100_000  # a map by component, at the default limit of components
STRING_BYTES_MAX = 2**20  # a network's text
# A batch is one turn of the service's loop, never interrupted: 2,048 rows fold within some 30 ms when every component is new.
ROWS_BATCH_MAX = 2_048  # rows of one batch: the service applies it without interruption
NAMES_BATCH_MAX = 512  # names in one `names` message, or in the `components` of one batch: made within 2 ms
ROWS_BYTES_MAX = 2**20  # of a message of rows or columns: 2,048 rows with every column and 512 names take two thirds
FIRST_REFUSALS = 8  # of a batch, reported with row, code and value; the rest are counted by code

CLOCK_ANCHORS_MAX = 16  # of one header: two fix the clock, later ones show how it drifts

# What one service may hold.
COMPONENTS_MAX = 100_000  # by default; at 1300 bytes each
PRODUCERS_MAX = 10_000  # (name, incarnation) pairs remembered for exactly-once
CONNECTIONS_MAX = 1_000  # open at a time; each may hold one message of MESSAGE_BYTES_MAX
PROFILES_MAX = 32  # runs whose profile is kept; the one that was silent longest gives way to a new one
SHARDS_MAX = 256  # of a service on Ray: each takes every producer's numbers, and has 16 buckets of names or more
NAME_IDS_MAX = 200_000  # names one connection may number: twice the components
UNANSWERED_MAX = 1_024  # requests of one connection whose answer is not yet sent; then its reading stops
STATUS_PAGE_MAX = 1_000  # components of one status answer, each solved for it: its text stays below half a megabyte

TASK_TYPES_MAX = 256  # with models, of one run or of all: 18 KB each; programs have some ten

# Runs of whole programs.
PROGRAMS_MAX = 256  # programs whose runs are learned, at 47 KB each
PROGRAM_SIZE_MAX = (
    2.0**100
)  # of a size as its program's transformation has it: its sixth power stays far below overflow
RUN_SECONDS_MAX = ELAPSED_MAX_S * CORES_MAX  # of what is summed over workers

# Networks.
NETWORK_TEXT_BYTES_MAX = 2**20  # far above any hand-written program; 20,000 boxes
NETWORK_TOKENS_MAX = 500_000  # twice NETWORK_COMPONENTS_MAX joined by operators, and declarations; read in seconds
NETWORK_DEPTH_MAX = 200  # of brackets and nested nets: recursion stays far below Python's limit
NETWORK_COMPONENTS_MAX = 100_000  # boxes in one network
NETWORK_NODES_MAX = 2 * NETWORK_COMPONENTS_MAX  # a tree whose inner nodes have two children or more has fewer
NETWORKS_TOGETHER_MAX = 64  # that share one machine: each may be planned once for each
ALLOCATE_CORES_MAX = 2**20  # as CORES_MAX
ALLOWED_COUNTS_MAX = (
    256  # listed core counts of one component or question: more follow a rule, `{min, max, multiple_of}`
)
RUNS_AT_ONCE_MAX = 10_000  # of one choose_cores: its answer has a count for each
NETWORKS_MAX = 1_024  # defined, or named by rows: 20 KB of counts each, half a megabyte with thousands of keys
NETWORKS_NAMED_MAX = 64  # of these, named by rows only: whoever writes could name any number
DEFINITION_BYTES_MAX = 16 * 2**20  # of all definitions together, as JSON: sixteen of the largest text
NETWORK_ID_MAX = 2**53  # of an id that is a number: exact wherever it may be read as a double
INSTANCES_MAX = 2**20  # no more instances than cores
PREDICT_POINTS_MAX = 100_000  # points of one predict in process: a curve or a batch
POINTS_BATCH_MAX = 2_048  # of one predict on the wire: answered within some 30 ms, as a batch of rows is
JOBS_TOGETHER_MAX = 1_000  # of one pool: planned in 20 ms, or 200 ms where all can be resized
CANDIDATES_MAX = 256  # settings that one suggest of the wire weighs, and answers: within 10 ms, when others wait

# Task graphs.
GRAPH_TASKS_MAX = 10_000_000  # of one graph: its lists take 2 GB at the 200 bytes of a task
GRAPH_EDGES_MAX = 50_000_000  # of one graph, at 48 bytes
GRAPH_TICKS_MAX = 2**62  # of all its tasks together: no time of any schedule leaves int64
SIMULATE_CORES_MAX = 2**16  # processors of one analysis: each has a place in a list at every step
SIMULATE_TASKS_MAX = 1_000_000  # of one simulate on the wire: one analysis of it takes about 2 s
SIMULATE_RUNS_MAX = 4_096  # analyses of one simulate on the wire: policies times core counts
SIMULATE_WORK_MAX = 20_000_000  # tasks times analyses of one simulate on the wire: about 40 s of one worker
SIMULATE_DETAILS_MAX = 20_000  # tasks reported one by one in an answer of the wire: below a megabyte of it
