"""The verbs about task graphs, profiles of runs, and whole programs."""

# No postponed annotations here: `verb` reads them.
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Annotated, Any

from advisor.domain import limits
from advisor.domain.runs import VARIANTS, VariantWord
from advisor.protocol import fields as f
from advisor.protocol.declaring import Key, Question, verb
from advisor.protocol.verbs.keys import *


@verb("simulate", "read", grows=True)
class SimulateAsked(Question):
    """Return what executing a task graph would take: a `TaskGraph`, or its flat form; the answer of `Advisor.simulate`.

    graph: `unit` (`s`, `ms`, `us`, `ns`, or `unit` for one without a name), `times` (bin f64, one a task), `edges` (bin
        u32, pairs parent, child of task numbers from 0), and as known `names` (texts), `types` (texts) with `type` (bin
        u32, indices of them) and `size` (bin f64), `columns` (map of bin f64, one value a task: `loop`, `group`,
        `queue`, `tied`, `x`, `y`, `area`, `part`, … as policies and contention models read them)
    speeds: one a processor; their number is that of the cores
    cores: one analysis each, with each policy
    policies: `fifo` by default; all are in the table of [simulation](simulation.md), and a wrong name is answered with them
    contention: at most one model and one lock: `{model: "bandwidth", demand}`, `{model: "bus", rate, inv, rwb, cache,
        cycle}`, `{model: "queueing", rate, method, centres: [{demand, kind, rates}]}`, `{model: "lock", hold}`; text in
        place of a number names a column of the graph
    measured_alone: the times hold the overhead that a task has when it runs alone: it is taken off first
    metrics: `makespan`, `speedup`, `efficiency`, `bounds` (these by default), `utilization`, `busy`, `idle`,
        `critical_path`, `ready_length`, `processes_per_queue`, `timeline`
    seed: of `work_stealing` and of the draws
    burden_ns: cost of a task's creation, for the burdened bound
    advise: say what would help, in words
    predict_times: take the times from what was learned: a task's type is the component, its size the predictor, on one
        core
    components: by type: the component that it stands for, where the names differ
    level: of the intervals
    machine: where the tasks run
    draws: analyses of the ensemble
    shared: the part of the variance that the tasks of a type share
    """

    graph: Annotated[Any, Key(GRAPH, sent=flat_graph)]
    cores: Annotated[
        int | Sequence[int],
        Key(f.list_of(f.integer(1, limits.SIMULATE_CORES_MAX), limits.SIMULATE_RUNS_MAX), sent=listed),
    ] = (1,)
    _: KW_ONLY
    policies: Annotated[str | Sequence[str], Key(f.list_of(WORD, limits.SIMULATE_RUNS_MAX), sent=listed)] | None = None
    contention: (
        Annotated[Mapping[str, Any] | Sequence[Mapping[str, Any]], Key(f.list_of(BY_KEY, 2), sent=listed)] | None
    ) = None
    measured_alone: Switch = False
    speeds: Annotated[Sequence[float], Key(f.numbers)] | None = None
    metrics: Annotated[str | Sequence[str], Key(f.list_of(WORD, 64), sent=listed)] | None = None
    seed: Annotated[int, Key(f.integer(0, 2**63 - 1))] = 0
    burden_ns: Quantity = 0.0
    advise: Switch = False
    predict_times: Switch = False
    components: Annotated[Mapping[str, str], Key(f.map_of(f.name))] | None = None
    level: Level = 0.9
    machine: Machine | None = None
    draws: Annotated[int, Key(f.integer(1, limits.SIMULATE_RUNS_MAX))] = 64
    shared: Quantity = 1.0


@verb("profile", "read")
class ProfileAsked(Question):
    """Return the profile of a producer's newest run, or without producer which runs there are.

    incarnation: which of its runs; nil: the newest
    diagnosis: with the diagnosis
    nodes: with the tree
    ended: as if the run had ended
    """

    producer: Producer | None = None
    _: KW_ONLY
    incarnation: Annotated[bytes, Key(f.binary(16))] | None = None
    diagnosis: Annotated[bool, Key(f.boolean)] = True
    nodes: Annotated[bool, Key(f.boolean)] = True
    ended: Annotated[bool, Key(f.boolean)] = False


@verb("predict_run", "read")
class PredictRun(Question):
    """Predict runs of a whole program: larger inputs, more workers; scalars, or lists of one length, or one a list.

    size: sizes of the input
    workers: numbers of workers that run it
    model: paper 3's model, extended by the span or as printed
    """

    program: Program
    _: KW_ONLY
    size: Annotated[Number | Numbers, Key(f.number_or_list)]
    workers: Annotated[Number | Numbers, Key(f.number_or_list)]
    level: Level = 0.9
    model: Annotated[VariantWord, Key(f.one_of(*VARIANTS))] | None = None
