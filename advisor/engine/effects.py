"""What each type of event does to the state, and what is answered when its number was applied before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple, Protocol

from advisor.domain.observations import Columns, bad_rows
from advisor.domain.runs import checked_run
from advisor.domain.task_events import TaskEvents
from advisor.engine import events as e
from advisor.engine.advisor import Advisor
from advisor.engine.exactly_once import Producer, ProducerLedger
from advisor.engine.frames import Block
from advisor.engine.profiles import ANONYMOUS, Profiles, refusals
from advisor.errors import InvalidValue

Answer = dict[str, Any]


class Learned(Protocol):
    """What events change and what is written then, see `advisor.engine.engine`."""

    advisor: Advisor
    profiles: Profiles
    ledger: ProducerLedger

    def count_total(self, name: str, n: int = 1) -> None: ...
    def blocks(self) -> Iterator[Block]: ...


RUN_NEEDS = ("size", "workers", "elapsed_s", "work_s", "delay_s", "no_work_s", "creates", "waits")


NOTHING: Answer = {"accepted": 0, "refused": refusals(None)}


class EventType(NamedTuple):
    """What there is to know of a type of event."""

    # takes the engine, the producer and the event; changes the state; returns the answer, and the events as the log has them
    fold: Callable[[Learned, Producer | None, Any], tuple[Any, ...]]
    # what is answered, beside the number, to an event whose number was applied before; and fields of the event
    nothing: Answer = NOTHING
    named: tuple[str, ...] = ()

    def answer_again(self, event: Any) -> Answer:
        """Return what is answered to an event whose number was applied before."""
        return self.nothing | {name: getattr(event, name) for name in self.named}


def _fold_rows(engine: Learned, _: Producer | None, columns: Columns) -> tuple[Answer, e.Event]:
    return engine.advisor.learn_batch(columns).as_dict(), columns


def _fold_profile(engine: Learned, key: Producer | None, event: e.Profiled) -> tuple[Answer, e.Counted]:
    return _profiled(engine, key or ANONYMOUS, event.events)[:2]


def _fold_travels(engine: Learned, _: Producer | None, event: e.Travels) -> tuple[Answer, e.Event]:
    engine.advisor.components.flows.count_flow_rows(event.rows, bad_rows(event.rows))
    return NOTHING, event


def _fold_events(engine: Learned, key: Producer | None, events: TaskEvents) -> tuple[Answer, e.Counted, e.Ended]:
    answer, counted, ended = _profiled(engine, key or ANONYMOUS, events)
    _fold_ended(engine, None, ended)
    return answer, counted, ended


def _counted(engine: Learned, _: Producer | None, event: e.Counted) -> tuple[Answer, e.Counted]:
    engine.advisor.components.totals.update(event.counts)
    return NOTHING, event


def _profiled(engine: Learned, key: Producer, events: TaskEvents) -> tuple[Answer, e.Counted, e.Ended]:
    """Fold task events into the profile of their producer's run, those without a number into one of all that come so."""
    folded = engine.profiles.fold_events(key, events)
    counted = e.Counted({
        "events_accepted": folded.accepted, **{f"events_refused.{code}": n for code, n in folded.refused.items()},
        "events_late": folded.late, "events_dropped": folded.dropped, "tasks_ended": len(folded.ended) + folded.summed,
    })  # fmt: skip
    _counted(engine, None, counted)
    return {
        "accepted": folded.accepted, "refused": refusals(folded), "late": folded.late, "waiting": folded.waiting,
    }, counted, engine.profiles.ended(key, folded)  # fmt: skip


def _fold_ended(engine: Learned, _: Producer | None, ended: e.Ended) -> tuple[Answer, e.Ended]:
    """Teach each task type its instances, see `Advisor.observe_instances`."""
    if len(ended):
        columns = {name: getattr(ended, name) for name in ended.__struct_fields__}
        engine.count_total("tasks_learned", engine.advisor.observe_instances(**columns).accepted)
    return NOTHING, ended


def _observe_run(engine: Learned, _: Producer | None, event: e.RunObserved) -> tuple[Answer, e.Event]:
    """Learn a run; where it names a `profile` by its producer, what that says fills in what is not given."""
    given = {key: value for key, value in event.run.items() if value is not None}
    named = given.pop("profile", None)
    measured = engine.profiles.run_of(**named) if named else {}
    missing = [each for each in RUN_NEEDS if each not in given and each not in measured]
    if missing:
        raise InvalidValue(missing[0], None, "given, or measured by a profile", "name the producer of its task events")
    run = checked_run(**(measured | given))
    engine.count_total("runs_observed")
    return engine.advisor.programs.learn_run(run), e.RunObserved(asdict(run))


def _define_network(engine: Learned, _: Producer | None, event: e.NetworkDefined) -> tuple[Answer, e.Event]:
    answer = engine.advisor.define_network(event.network, id=event.id, read=event.read)
    definition = engine.advisor.components.flows.definition(answer["id"])
    return answer, e.NetworkDefined(definition, answer["id"])


def _forget(engine: Learned, _: Producer | None, event: e.ComponentForgotten) -> tuple[Answer, e.Event]:
    return engine.advisor.forget(event.component, event.keep), event


def _pin(engine: Learned, _: Producer | None, event: e.ComponentPinned) -> tuple[Answer, e.Event]:
    return engine.advisor.pin(event.component, event.model), event


def _set_allowed(engine: Learned, _: Producer | None, event: e.AllowedSet) -> tuple[Answer, e.Event]:
    answer = engine.advisor.set_allowed(event.component, event.allowed)
    return answer, e.AllowedSet(event.component, answer["allowed"])


def _forget_program(engine: Learned, _: Producer | None, event: e.ProgramForgotten) -> tuple[Answer, e.Event]:
    answer = engine.advisor.forget_program(event.program)
    engine.count_total("programs_forgotten")
    return answer, event


def _forget_profile(engine: Learned, _: Producer | None, event: e.ProfileForgotten) -> tuple[Answer, e.Counted]:
    answer = engine.profiles.forget(event.producer, event.incarnation)
    counted = e.Counted({"profiles_forgotten": answer["runs"]})
    _counted(engine, None, counted)
    return {"profile": answer}, counted


KINDS: Mapping[type, EventType] = {
    Columns: EventType(_fold_rows),
    e.Travels: EventType(_fold_travels),
    TaskEvents: EventType(_fold_events, NOTHING | {"late": 0}),
    e.Profiled: EventType(_fold_profile, NOTHING | {"late": 0}),
    e.Ended: EventType(_fold_ended),
    e.RunObserved: EventType(_observe_run, {}, ("program",)),
    e.NetworkDefined: EventType(_define_network, {}, ("id",)),
    e.ComponentForgotten: EventType(_forget, {}, ("component", "keep")),
    e.ComponentPinned: EventType(_pin, {}, ("component", "model")),
    e.AllowedSet: EventType(_set_allowed, {}, ("component", "allowed")),
    e.ProgramForgotten: EventType(_forget_program, {}, ("program",)),
    e.ProfileForgotten: EventType(_forget_profile, {}, ("profile",)),
    e.Counted: EventType(_counted, {}, ("counts",)),
}
