"""The verbs about task graphs, profiles of runs, and whole programs."""

# No postponed annotations here: `verb` reads them.
from collections.abc import Mapping
from dataclasses import KW_ONLY, replace
from typing import Annotated, Any, Self

from msgspec import Meta

from advisor.domain import limits
from advisor.protocol.declaring import Question, verb
from advisor.protocol.verbs.keys import *


@verb("simulate", "read")
class SimulateAsked(Question):
    """Return what executing a task graph would take: a `TaskGraph`, or its flat form; the answer of `Advisor.simulate`.

    graph: `unit` (`s`, `ms`, `us`, `ns`, or `unit` for one without a name), `times` (bin f64, one a task), `edges` (bin
        u32, pairs parent, child of task numbers from 0), and as known `names` (texts), `types` (texts) with `type` (bin
        u32, indices of them) and `size` (bin f64), `columns` (map of bin f64, one value a task: `loop`, `queue`,
        `tied`, `part`, … as policies and contention models read them)
    cores: one analysis each, with each policy
    policies: `fifo` by default; all are in the table of [simulation](simulation.md), and a wrong name is answered with them
    contention: at most one model and one lock: `{model: "bandwidth", demand}`, `{model: "bus", rate, inv, rwb, cache,
        cycle}`, `{model: "queueing", rate, method, centres: [{demand, kind, rates}]}`, `{model: "lock", hold}`; text in
        place of a number names a column of the graph
    measured_alone: the times hold the overhead that a task has when it runs alone: it is taken off first
    metrics: `makespan`, `speedup`, `efficiency`, `bounds` (these by default), `utilization`, `idle`, `critical_path`
    seed: of `work_stealing`
    advise: say how many cores are enough, and what holds the program on them
    predict_times: take the times from what was learned: a task's type is the component, its size the predictor, on one
        core
    components: by type: the component that it stands for, where the names differ
    machine: where the tasks run
    """

    graph: Graph
    cores: Annotated[OneOrMore[Processors], Meta(max_length=limits.SIMULATE_RUNS_MAX)] = (1,)
    _: KW_ONLY
    policies: Annotated[OneOrMore[Word], Meta(max_length=limits.SIMULATE_RUNS_MAX)] | None = None
    contention: Annotated[OneOrMore[Mapping[str, Any]], Meta(max_length=2)] | None = None
    measured_alone: bool = False
    metrics: Annotated[OneOrMore[Word], Meta(max_length=64)] | None = None
    seed: Whole = 0
    advise: bool = False
    predict_times: bool = False
    components: Mapping[str, Name] | None = None
    machine: Machine | None = None

    def wire(self) -> Self:
        """Return it with a graph laid flat, and one of several as a list."""
        given: dict[str, Any] = {key: getattr(self, key) for key in ("cores", "policies", "contention", "metrics")}
        listed: Any = {
            key: [value] for key, value in given.items() if isinstance(value, (str, int)) or hasattr(value, "keys")
        }
        if isinstance(self.graph, Mapping):
            return replace(self, **listed)
        from advisor.domain.task_graphs import checked_graph, graph_as_flat  # noqa: PLC0415 - numpy comes with the graph

        return replace(self, graph=graph_as_flat(checked_graph(self.graph)), **listed)

    def components_asked(self) -> Sequence[str]:
        """Return the components that task times are predicted of, none where all times are given."""
        if not self.predict_times:
            return ()
        named: Mapping[str, str] = self.components or {}
        types: Sequence[str] = self.graph.get("types", ())
        return [named.get(each, each) for each in types]


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
    incarnation: Bin128 | None = None
    diagnosis: bool = True
    nodes: bool = True
    ended: bool = False


@verb("predict_run", "read")
class PredictRun(Question):
    """Predict runs of a whole program: larger inputs, more workers; scalars, or lists of one length, or one a list.

    size: sizes of the input
    workers: numbers of workers that run it
    """

    program: Program
    _: KW_ONLY
    size: Points
    workers: Points
    level: Level = 0.9
