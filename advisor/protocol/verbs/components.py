"""The verbs that ask about components."""

# No postponed annotations here: `verb` reads them.
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, replace
from typing import Annotated, Any, Self

from msgspec import Meta

from advisor.domain import limits
from advisor.domain.answer_types import ChoiceObjectiveWord, MeasureWord
from advisor.domain.job_pools import OrderWord
from advisor.protocol.declaring import Question, verb
from advisor.protocol.verbs.keys import *


@verb("predict", "read", positional=3)
class Predict(Question):
    """Return the elapsed time to expect, or the `measure`; `predictor` and `cores` may be arrays.

    They are of one length, or one of them is a number. Without `predictor` it is a run that tells none. Predictors of d
    values are the rows of an array (n, d); one point of a component that has d is an array (d,).

    predictor: nil: a run that tells none: as such rows were, where six or more of them came beside rows with one; else a run of
        the observed load, its expected time and the interval of one run over all the predictors that rows had (1 with a model
        of task types)
    cores: where `predictor` is an array too, of the same length
    model: a named form (below), instead of the pinned one, or of what the evidence supports
    measure: what to predict
    level: share of runs that the interval should hold
    """

    component: Component
    predictor: Inputs | None = None
    cores: Points = 1
    _: KW_ONLY
    level: Level = 0.9
    model: Word | None = None
    machine: Machine | None = None
    measure: MeasureWord = "elapsed_s"
    prior: Prior = False
    evidence: Evidence = False
    fresh: Fresh = False


@verb("choose_cores", "read")
class ChooseCores(Question):
    """Return the cores for one run: the fewest within `tolerance` of the best, near the counts that were seen.

    The first run is on `usual`, else between the least and the most allowed. The last count stays while it is nearly as good.
    Nothing is tried unless `explore` asks. An unknown component is answered, too: `assumed` says so.

    cores_max: counts from 1 to so many may be chosen; give it or `allowed`, unless the component has counts of its own
    usual: cores that runs had so far: where the first one begins
    tolerance: 0 to 1: take the fewest cores whose time is within (1 + tolerance) of the best
    objective: `core_seconds`: cores times time is minimised
    explore: true: try a count where it may well be better and the runs seen make up for the loss; `freeze`: seen counts only
    count: runs that begin at once: `counts` has one for each, at most 2 % of them trials
    under_way: runs of the component that have not ended: no trial beside another
    risk: 0 to 1: how far towards the interval's upper end a gain must hold for more cores to be taken
    """

    component: Component
    predictor: Point | None = None
    _: KW_ONLY
    cores_max: Count | None = None
    allowed: Allowed | None = None
    usual: Count | None = None
    tolerance: Share = 0.05
    objective: ChoiceObjectiveWord = "time"
    explore: Explore = False
    count: Annotated[int, Meta(ge=1, le=limits.RUNS_AT_ONCE_MAX)] = 1
    under_way: Runs | None = None
    level: Level = 0.9
    risk: Share = 0.0
    machine: Machine | None = None
    evidence: Evidence = False
    fresh: Fresh = False

    def wire(self) -> Self:
        """Return it with runs under way as pairs: a map has only texts as keys."""
        runs: Any = self.under_way
        return replace(self, under_way=list(runs.items())) if hasattr(runs, "items") else self


@verb("choose_together", "read", positional=2)
class ChooseTogether(Question):
    """Return the cores of jobs that share one pool, of those that wait and of those that run.

    jobs: in the order of arrival: maps, as below
    cores: of the pool, with those of the running jobs
    order: `given`: the jobs' own; `work`: the least expected core-seconds by weight first
    wait_max_s: a job whose `waited_s` reaches it comes first, and no other job starts before it; `work` requires it
    """

    jobs: Annotated[Sequence[Mapping[str, Any]], Meta(max_length=limits.JOBS_TOGETHER_MAX)]
    cores: Count
    _: KW_ONLY
    order: OrderWord = "given"
    wait_max_s: Seconds | None = None
    evidence: Evidence = False
    fresh: Fresh = False

    def components_asked(self) -> Sequence[str]:
        """Return the components of the jobs."""
        return [job["component"] for job in self.jobs if isinstance(job.get("component"), str)]


@verb("suggest", "read")
class Suggest(Question):
    """Return which (predictor, cores) to run next, the one that narrows the answers most first.

    Of predictors of the observed load, on the allowed counts nearest to powers of two.

    cores_max: cores there are to run on; absent, with `allowed` and the component's own counts: 64
    limit: suggestions to make
    """

    component: Component
    _: KW_ONLY
    cores_max: Count | None = None
    allowed: Allowed | None = None
    limit: Annotated[int, Meta(ge=1, le=limits.CANDIDATES_MAX)] = 3
    evidence: Evidence = False
    fresh: Fresh = False


@verb("curves", "read")
class CurvesAsked(Question):
    """Return the curves of components, or of all, as a bundle: those that changed after the version `since`.

    Nothing is pushed. Of several pages keep the `version` of the first: what changes between pages comes again.

    components: these; nil: all
    since: a `version`: only what changed after it; all, where it is of another run of the service
    after: `next` of an answer: the following page of the same question
    cores_max: tables reach so far
    level: of the intervals
    """

    components: Sequence[Name] | None = None
    _: KW_ONLY
    since: Whole | None = None
    after: Name | None = None
    level: Level = 0.9
    cores_max: Count = 256


@verb("status", "read")
class StatusAsked(Question):
    """Return totals, producers and, page by page, components: all in order of name (True), these (a list), none (False).

    offset: components to skip
    limit: components to tell
    """

    components: Annotated[
        bool | Annotated[Sequence[Name], Meta(max_length=limits.STATUS_PAGE_MAX)],
        Meta(description="true, false, or a list of names"),
    ] = False
    _: KW_ONLY
    offset: Whole = 0
    limit: Annotated[int, Meta(ge=0, le=limits.STATUS_PAGE_MAX)] = 100


@verb("export", "read")
class Export(Question):
    """Return what was learned, a page at a time: ask again `after` the `next` of each answer, until it is None.

    after: `next` of the answer before; nil: begin
    """

    after: Annotated[str, within_bytes(EXPORT_AFTER_BYTES_MAX)] | None = None


@verb("shards", "admin")
class Shards(Question):
    """Return how the shards of a service on Ray stand, and let it have another number of them, rows coming meanwhile.

    shards: have so many; nil: only tell
    """

    shards: Annotated[int, Meta(ge=1, le=limits.SHARDS_MAX)] | None = None
