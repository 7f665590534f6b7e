"""The advisor: observations in, state and answers out. No input or output, no clock, no threads.

Thread contract: one thread at a time. Calls from several threads need a lock around each call; nothing is kept between calls
that a lock would have to protect longer. A call that comes while another thread is inside raises `ConcurrentUse`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Unpack, cast

from msgspec import MsgspecError
from numpy.typing import ArrayLike

from advisor.domain import limits
from advisor.domain.allowed_cores import parse_allowed
from advisor.domain.answer_types import Status
from advisor.domain.answers import Receipt
from advisor.domain.names import checked_name
from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.domain.rows import ColumnFields, Point, RowFields, row_of, whole
from advisor.engine import batches, state_bytes
from advisor.engine.asking import Asking
from advisor.engine.bundles import Bundles
from advisor.engine.component_questions import ComponentQuestions
from advisor.engine.components import Components
from advisor.engine.curve_tables import CurveTables
from advisor.engine.evidence import answer_with_evidence
from advisor.engine.guards import alone
from advisor.engine.kinds import RecordKind
from advisor.engine.learners import MODEL_MEMORY_BYTES
from advisor.engine.networks import Networks
from advisor.engine.programs import Programs
from advisor.engine.report import component_status, fate
from advisor.engine.rows import WITHOUT_PREDICTOR, columns_of_row
from advisor.engine.task_types import TaskTypeModels
from advisor.errors import CallerError, InvalidValue, StateDamaged, TooLarge

PARTS: Sequence[str] = ("networks", "programs", "totals")  # of a state, beside what is of one component


class Advisor:
    """Learns in constant space how long each component takes, and answers how many cores to give to what.

    Parameters
    ----------
    components_max : int
        Components learned; rows of further ones are refused and counted. About 1300 bytes each.
    model_memory_bytes : int
        Budget for the learners of components, about 4.5 KB each; those that come later are answered by the base tier's
        form alone.

    Examples
    --------
    >>> adv = Advisor()
    >>> for cores in (1, 2, 4, 8):
    ...     for size in (100, 200, 300, 400):
    ...         adv.observe("blur", predictor=size, cores=cores, elapsed_s=1e-3 * size * (0.1 + 0.9 / cores))
    >>> round(adv.predict("blur", predictor=250, cores=2).elapsed_s, 4)
    0.1371
    >>> adv.choose_cores("blur", predictor=400, cores_max=8).cores
    8
    """

    def __init__(
        self,
        components_max: int = limits.COMPONENTS_MAX,
        model_memory_bytes: int = MODEL_MEMORY_BYTES,
    ) -> None:
        components_max = whole("components_max", components_max, 1)
        model_memory_bytes = whole("model_memory_bytes", model_memory_bytes, 0)
        self.turn: list[None] = [None]  # of `alone`
        self._adopt(Components(components_max, model_memory_bytes))
        self.programs = Programs()

    def __repr__(self) -> str:
        known, rows = len(self.components.slots.components), self.components.totals["rows_accepted"]
        return f"<Advisor: {known} component{'s' * (known != 1)}, {rows} rows, {self.components.bytes} bytes>"

    def _adopt(self, components: Components) -> None:
        self.components = components
        self._asking = Asking(components)
        self.bundles = Bundles(components, self._asking)
        self.curve_tables = CurveTables(components, self._asking)
        self.networks = Networks(components, self.bundles, self.curve_tables)
        self.task_types = TaskTypeModels(components)
        self._questions = ComponentQuestions(components, self._asking, self.task_types)

    def _drop(self, slot: int | None = None) -> None:
        """Forget what was solved: a component, or all, changed otherwise than by new rows."""
        self._asking.clear_solutions()
        self.bundles.touch(slot)
        self.curve_tables.clear_tables()

    # -- learning ---------------------------------------------------------------------------------------------------------

    @alone
    def observe(
        self,
        component: str,
        predictor: Point = None,
        cores: float = 1,
        elapsed_s: float = cast("float", None),  # refused: it must be given
        **optional: Unpack[RowFields],
    ) -> None:
        """Learn one run: `component` took `elapsed_s` seconds on `cores` for an input of value `predictor`.

        Runs without one are learned apart from those with one. The first run with one fixes how many values they have.

        Parameters
        ----------
        predictor : float or up to four values
        dimensions : int, optional
            How many values the predictor has: must agree.
        count : int, optional
            Equal runs that this one stands for.
        ok, running : bool, optional
            Not `ok`: the run failed; `running`: it has not ended. Such runs are counted, and not learned.
        machine : str, optional
            Where it ran.
        measures : mapping, optional
            ``peak_bytes`` and ``energy_j``, as far as they were measured.
        network, entered, replica : optional
            Where it ran among others: teaches the flow of records (see `flow`).
        active_cores : float, optional
            The cores busy on the machine meanwhile, its own among them: teaches contention (see `contention`).
        killed : str, optional
            The run was killed for ``memory`` or ``time``: its time and measures are then lower bounds.

        Raises
        ------
        InvalidValue, UnknownKey
            Naming field, value and bound; nothing is learned then.
        TooLarge
            When the component is new and there is no room for it.
        """
        slots = self.components.slots
        name, x, p, t, *more = row_of(component, predictor, cores, elapsed_s, optional)
        further: dict[str, Any] = more[0] if more else {}
        slot = slots.by_name.get(name if x is not None else name + WITHOUT_PREDICTOR)
        if slot is None and slots.full:
            raise TooLarge(
                "components", len(slots) + 1, slots.components_max, "forget is no cure: raise components_max"
            )
        if slot is not None and type(x) is not list and further.keys() <= {"count"}:
            point = 1.0 if x is None else x, p
            if batches.fold_one(self.components, slot, point, t, further.get("count", 1)):
                return
        batches.learn_columns(self.components, columns_of_row(name, x, p, t, further))

    def observe_columns(
        self,
        *,
        components: Sequence[str],
        index: ArrayLike,
        cores: ArrayLike,
        elapsed_s: ArrayLike,
        predictor: ArrayLike | None = None,
        **optional: Unpack[ColumnFields],
    ) -> Receipt:
        """Learn n runs given as columns; row i is of component ``components[index[i]]``. Cost O(n).

        Bad rows are refused one by one and counted in the receipt; a column of the wrong shape refuses the batch.

        Raises
        ------
        InvalidValue, TooLarge, Unsupported
        """
        return self.learn_batch(columns_of(ComponentNames(components), index, predictor, cores, elapsed_s, **optional))

    @alone
    def learn_batch(self, columns: Columns) -> Receipt:
        """Learn a batch of checked shape; its rows are refused one by one."""
        return batches.learn_columns(self.components, columns)

    def flush(self) -> None:
        """Do nothing: rows are learned when they are observed. A client's `flush` waits; code may have either."""

    @alone
    def forget(self, component: str) -> dict[str, Any]:
        """Forget what was learned of a component: it begins anew. Exact counts never go back.

        Raises
        ------
        UnknownComponent, InvalidValue
        """
        slot = self.components.forget(component)
        self.task_types.remove_record(component)
        self._drop(slot)
        return {"component": component, "rows": self.components.rows(slot)}

    @alone
    def pin(self, component: str, model: str | None) -> dict[str, Any]:
        """Hold a component to one model from now on, whatever the evidence says; None lets the evidence choose again.

        Parameters
        ----------
        model : str or None
            As for `predict`: ``two_step``, ``joint degree K``, ``amdahl``, ``learner``.

        Raises
        ------
        UnknownComponent, InvalidValue
        TooLarge
            When the component has no learner and the budget allows none: the pin has nowhere to stand.
        """
        self._asking.pin(component, model)
        self._drop(self.components.slots.slot_of(component))
        return {"component": component, "model": model}

    @alone
    def set_allowed(self, component: str, allowed: Any) -> dict[str, Any]:
        """Set the core counts that a component itself allows: every question about it keeps to them; None: every count.

        A merge keeps the counts that both sides allow. Returns `{component, allowed}`.

        Raises
        ------
        UnknownComponent, InvalidValue, TooLarge, UnknownKey
        """
        given = None if allowed is None else parse_allowed("allowed", allowed)
        self._asking.set_allowed(component, given)
        self._drop(self.components.slots.slot_of(component))
        return {"component": component, "allowed": None if given is None else given.as_wire()}

    @alone
    def merge(self, other: Advisor) -> None:
        """Add what another advisor has learned; `other` is only flushed.

        Counts are exact, unweighted sums exact to rounding, weighted sums approximate (`advisor.models.combine`).

        Raises
        ------
        Mismatch, TooLarge, InvalidValue
        """
        if not isinstance(other, Advisor):
            raise InvalidValue("other", other, "an Advisor")
        pairs = zip(self.kinds, other.kinds, strict=True)
        records = [mine.merged_records(theirs) for mine, theirs in pairs]  # what is refused changes nothing
        self.components.merge(other.components)
        for mine, some in zip(self.kinds, records, strict=True):
            mine.set_records(some)
        self._drop()

    # -- questions --------------------------------------------------------------------------------------------------------

    predict = alone(ComponentQuestions.predict, "_questions", answer_with_evidence)
    choose_cores = alone(ComponentQuestions.choose_cores, "_questions", answer_with_evidence)
    choose_together = alone(ComponentQuestions.choose_together, "_questions", answer_with_evidence)
    suggest = alone(ComponentQuestions.suggest, "_questions", answer_with_evidence)
    simulate = alone(ComponentQuestions.simulate, "_questions")
    contention = alone(ComponentQuestions.contention, "_questions")
    model = alone(ComponentQuestions.model, "_questions")

    @alone
    def status(self, *, components: bool | Iterable[str] | None = None, offset: int = 0, limit: int = 100) -> Status:
        """Return totals and a page of components (these; all by default, none if False): counts, ranges, model, errors.

        Raises
        ------
        InvalidValue, TooLarge, UnknownComponent
        """
        offset, limit = whole("offset", offset, 0), whole("limit", limit, 0)
        if limit > limits.STATUS_PAGE_MAX:
            raise TooLarge("limit", limit, limits.STATUS_PAGE_MAX, "page with offset")
        if components is None or components is True:
            chosen = [*self.components.slots.components]
        elif isinstance(components, (str, bytes)) or not (components is False or isinstance(components, Iterable)):
            raise InvalidValue("components", components, "a list of names")
        else:
            chosen = [checked_name("components", name) for name in components or ()]
        slots = [self.components.slots.slot_of(name) for name in chosen[offset : offset + limit]]
        return cast("Status", {
            "totals": dict(self.components.totals),
            "components_known": len(self.components.slots.components),
            "components_max": self.components.slots.components_max,
            "state_bytes": self.components.bytes,
            "model_memory_bytes": self.components.learners.memory_bytes,
            "model_memory_used_bytes": self.components.learners.used_bytes,
            **fate(**self.ledger()),
            "programs": self.programs.status(),
            "task_types": self.task_types.status(),
            "offset": offset,
            "components": component_status(self.components, slots, self._asking),
        })  # fmt: skip

    def ledger(self) -> dict[str, Any]:
        """Return how predictions of elapsed times made before their rows were learned have fared, in sums.

        `scores` of them were made, `covered` lay within their 90 % interval; `error` is the sum of
        |t - prediction| / max(t, prediction), `bias` that of (prediction - t) / max(t, prediction).
        """
        return self.components.learners.ledger()

    # -- networks, whole programs (paper 3), instances of task types (paper 2) ----------------------------------------------

    network = alone(Networks.network, "networks")
    allocate = alone(Networks.allocate, "networks", answer_with_evidence)
    allocate_together = alone(Networks.allocate_together, "networks")
    define_network = alone(Networks.define_network, "networks")
    flow = alone(Networks.flow, "networks")
    bundle = alone(Networks.bundle, "networks")
    observe_run = alone(Programs.observe_run, "programs")
    predict_run = alone(Programs.predict_run, "programs")
    forget_program = alone(Programs.forget_program, "programs")
    observe_instances = alone(TaskTypeModels.observe_instances, "task_types")
    task_type = alone(TaskTypeModels.task_type, "task_types")

    # -- state ------------------------------------------------------------------------------------------------------------

    @property
    def kinds(self) -> tuple[RecordKind[Any, Any], ...]:
        """What is kept by key, beside components."""
        return self.components.allowed, self.components.flows, self.programs, self.task_types

    @alone
    def to_bytes(self) -> bytes:
        """Return the whole state; `from_bytes` gives an equal advisor. Size about 1 KB a component."""
        return state_bytes.whole_state(self.components, self.kinds)

    @alone
    def extract(self, names: Iterable[str] | None = None, parts: state_bytes.Parts = PARTS) -> bytes:
        """Return a part of the state, as bytes that `from_bytes` opens and another state merges.

        Parameters
        ----------
        names : iterable of str, optional
            Components, with their measures, contention and task types; names that nobody knows are left
            out. Absent: all of them.
        parts : collection of str, or mapping of str to keys
            What spans components: ``networks`` (and what was learned of their flow), ``programs`` and ``totals``.

        Notes
        -----
        Components stand in the order of their names, so equal states give equal bytes, however they came about: parts of a
        state that have each name, and each part that spans components, once, merge to a state whose ``extract()`` is that of
        the whole, to the byte. What a component without rows takes from the others, the prior, is no state: it
        follows from the components that are there.
        """
        return state_bytes.part_of_state(self.components, self.kinds, state_bytes.keys_of_parts(names, parts))

    @alone
    def remove_components(self, names: Iterable[str]) -> int:
        """Take components away, with all that was learned of them; return how many there were. Totals never go back."""
        names = list(names)
        dropped = self.components.remove_components(names)
        for name in names:
            self.task_types.remove_record(name)
        if dropped:
            self._drop()
        return len(dropped)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    @classmethod
    def from_bytes(cls, data: bytes) -> Advisor:
        """Return the advisor whose `to_bytes` gave `data`.

        Raises
        ------
        StateDamaged, StateTooNew, InvalidValue
        """
        return cls.from_state(state_bytes.from_bytes(data))

    @classmethod
    def from_state(cls, found: state_bytes.Decoded) -> Advisor:
        """Return the advisor of a state that was read.

        Raises
        ------
        StateDamaged
        """
        restored = cls()
        restored._adopt(found.components)
        for kind in restored.kinds:
            restore_records(kind, found)
        return restored


def restore_records(kind: RecordKind[Any, Any], found: state_bytes.Decoded) -> None:
    """Take the records of a kind from what was decoded; raises StateDamaged, StateTooNew."""
    for key, data in found.records.get(kind.name, {}).items():
        try:
            kind.restore_record(key, data)
        except (TypeError, ValueError, LookupError, AttributeError, CallerError, MsgspecError) as error:
            raise StateDamaged(
                f"{kind.name} of the state: {key!r} does not read: {error}", hint="restore a backup"
            ) from error
