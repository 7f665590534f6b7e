"""What each type of event does to the state, and what is answered when its number was applied before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict as as_fields
from typing import Any

from msgspec.structs import asdict

from advisor.domain.observations import Columns, bad_rows
from advisor.domain.runs import checked_run
from advisor.domain.task_events import TaskEvents
from advisor.engine import events as e
from advisor.engine.advisor import Advisor
from advisor.engine.exactly_once import Producer
from advisor.engine.profiles import ANONYMOUS, refusals
from advisor.engine.state import State

Answer = dict[str, Any]


# Takes the state, the producer and an event; changes the state; returns the answer, and the events as the log has them.
Fold = Callable[[State, Producer | None, Any], tuple[Any, ...]]
NOTHING: Answer = {"accepted": 0, "refused": refusals(None)}
# What is answered, beside the number, to an event whose number was applied before: of other types nothing.
AGAIN: Mapping[type, Answer] = {
    Columns: NOTHING,
    e.Travels: NOTHING,
    TaskEvents: NOTHING | {"late": 0},
    e.Ended: NOTHING,
}


def _fold_rows(state: State, _: Producer | None, columns: Columns) -> tuple[Answer, e.Event]:
    return state.advisor.learn_batch(columns).as_dict(), columns


def _fold_travels(state: State, _: Producer | None, event: e.Travels) -> tuple[Answer, e.Event]:
    state.advisor.components.flows.count_flow_rows(event.rows, bad_rows(event.rows))
    return NOTHING, event


def _fold_events(state: State, producer: Producer | None, events: TaskEvents) -> tuple[Answer, e.Ended]:
    """Fold task events into the profile of their producer's run, those without a number into one of all that come so."""
    key = producer or ANONYMOUS
    folded = state.profiles.fold_events(key, events)
    counted = {
        "events_accepted": folded.accepted, **{f"events_refused.{code}": n for code, n in folded.refused.items()},
        "events_late": folded.late, "events_dropped": folded.dropped, "tasks_ended": len(folded.ended) + folded.summed,
    }  # fmt: skip
    for name, n in counted.items():
        state.totals_add(name, n)
    answer = {
        "accepted": folded.accepted, "refused": refusals(folded), "late": folded.late, "waiting": folded.waiting,
    }  # fmt: skip
    return answer, _fold_ended(state, None, state.profiles.ended(key, folded))[1]


def _fold_ended(state: State, _: Producer | None, ended: e.Ended) -> tuple[Answer, e.Ended]:
    """Teach each task type its instances, see `Advisor.observe_instances`."""
    if len(ended):
        columns = {name: getattr(ended, name) for name in ended.__struct_fields__}
        state.count_total("tasks_learned", state.advisor.observe_instances(**columns).accepted)
    return NOTHING, ended


def _observe_run(state: State, _: Producer | None, event: e.RunObserved) -> tuple[Answer, e.Event]:
    """Learn a run; where it names a `profile` by its producer, what that says fills in what is not given."""
    given = {key: value for key, value in event.run.items() if value is not None}
    named = given.pop("profile", None)
    measured = state.profiles.run_of(**named) if named else {}
    run = checked_run(**(measured | given))
    state.count_total("runs_observed")
    return state.advisor.programs.learn_run(run), e.RunObserved(as_fields(run))


def _define_network(state: State, _: Producer | None, event: e.NetworkDefined) -> tuple[Answer, e.Event]:
    answer = state.advisor.define_network(event.network, id=event.id, read=event.read)
    definition = state.advisor.components.flows.definition(answer["id"])
    return answer, e.NetworkDefined(definition, answer["id"])


def _by_method(method: Callable[..., Answer]) -> Fold:
    """Return what folds an event by the method of an `Advisor` that has its fields as arguments."""
    return lambda state, _, event: (method(state.advisor, **asdict(event)), event)


def _forget_program(state: State, _: Producer | None, event: e.ProgramForgotten) -> tuple[Answer, e.Event]:
    answer = state.advisor.forget_program(event.program)
    state.count_total("programs_forgotten")
    return answer, event


KINDS: Mapping[type, Fold] = {
    Columns: _fold_rows,
    e.Travels: _fold_travels,
    TaskEvents: _fold_events,
    e.Ended: _fold_ended,
    e.RunObserved: _observe_run,
    e.NetworkDefined: _define_network,
    e.ComponentForgotten: _by_method(Advisor.forget),
    e.ComponentPinned: _by_method(Advisor.pin),
    e.AllowedSet: _by_method(Advisor.set_allowed),
    e.ProgramForgotten: _forget_program,
}


def answer_again(event: e.Event, sequence: int) -> Answer:
    """Return what is answered to an event whose number was applied before."""
    return {**AGAIN.get(type(event), {}), "sequence": sequence, "replayed": True}
