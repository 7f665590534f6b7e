"""Why an answer is as it is, in sentences: what was answered, why, what it rests on; and whether it is the same again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, cast

from advisor.domain.answers import Basis, Suggestions
from advisor.engine.replay import advisor_of, replay_answer
from advisor.planning.reasons import amount, plural

TEXT_SHOWN = 200  # characters of a value that was asked with
SHOWN_MAX = 12  # components of each sentence about several, points of a prediction
UNITS = {"peak_bytes": " bytes", "energy_j": " J"}


def sentences(answer: Mapping[str, Any], measure: str | None = None) -> Iterator[str]:
    """Yield why an answer is as it is, in sentences. Cost O(components).

    answer: as it comes over the wire, or as a command prints it with `--json`
    measure: what was predicted, where it is known
    """
    if "instances" in answer:
        yield from _sentences_of_plan(answer)
        yield from (_sentence(reason["text"]) for reason in answer.get("why", ()))
        if answer.get("gap") == 0:
            yield "It is proved best."
    elif "jobs" in answer:
        yield from (f"Job {job['id']}: {_sentence(job['why'])}" for job in answer["jobs"])
        yield from (f"{component}: {_sentence(text)}" for component, text in answer["assumed"].items())
    elif "suggestions" in answer:
        yield from (_sentence(f"{at}. {each['why']}") for at, each in enumerate(answer["suggestions"], 1))
    elif "why" in answer:
        yield f"{plural(answer['cores'], 'core')}: {_expected(answer['elapsed_s'], answer['low_s'], answer['high_s'])}"
        yield from map(_sentence, (answer["why"], *answer["assumed"]))
    else:
        columns = [[each] if isinstance(each, float) else each
                   for each in map(answer.get, ("elapsed_s", "low_s", "high_s"))]  # fmt: skip
        points = list(zip(*columns, strict=True))
        unit = UNITS.get(str(measure), " s")
        yield from (_expected(value, low, high, unit) for value, low, high in points[:SHOWN_MAX])
        if len(points) > SHOWN_MAX:
            yield f"And {len(points) - SHOWN_MAX:,} points more."
        given: Any = answer["observations"]
        runs = cast("list[int]", given if isinstance(given, list) else [given])
        yield f"The model is {answer['model']}, learned from {_span(runs)} runs."
        yield from map(_sentence, answer["notes"])


def sentences_of_basis(basis: Basis) -> Iterator[str]:
    """Yield what an answer rests on, in sentences. Raises StateDamaged, StateTooNew."""
    components = advisor_of(basis).status()["components"]
    known = _listed([f"{each['component']} ({plural(each['rows'], 'row')})" for each in components])
    yield f"Advisor {basis.versions.get('advisor', '?')} answered {basis.verb} from {known or 'no component'}."
    asked = [f"{key} {str(value)[:TEXT_SHOWN]}" for key, value in basis.request.items() if key != "jobs"]
    yield f"Asked with {'; '.join(asked)}."


def _sentences_of_plan(plan: Mapping[str, Any]) -> Iterator[str]:
    instances, sharing = plan["instances"], plan.get("in_turn", {})
    own = [f"{key} {cores}" if instances[key] == 1 else f"{key} {instances[key]} x {cores}"
           for key, cores in plan["cores"].items() if key not in sharing]  # fmt: skip
    groups = [group for group in plan.get("groups", ()) if len(group["components"]) > 1]
    shared = [f"{group['cores']} in turns for {_listed(group['components'])}" for group in groups]
    spare = f"; {plural(plan['spare'], 'core')} to spare" if "spare" in plan else ""
    yield f"Cores: {_listed([*shared, *own])}{spare}."
    rates = f"{amount(plan['throughput_per_s'])} records/s, and {amount(plan['latency_s'])} s a record in the network"
    queued, quantile = plan.get("latency_queued_s"), plan.get("latency_quantile_s")
    with_queues = "" if queued is None else f", {amount(queued)} s with queueing"
    yield f"That is {rates}{with_queues}{'' if quantile is None else f', {amount(quantile)} s at the quantile asked'}."
    known: Mapping[str, Mapping[str, Any]] = plan.get("evidence", {})
    if known:
        runs = _span([int(each["observations"]) for each in known.values()])
        models = _listed(sorted({str(each["model"]) for each in known.values()}))
        yield f"The curves of {plural(len(known), 'component')} rest on {runs} runs each ({models})."
    beyond = [f"{key} on {plan['cores'][key]} cores (seen {each['cores_range'][0]:g} to {each['cores_range'][1]:g})"
              for key, each in known.items() if each["extrapolates"] > 0]  # fmt: skip
    if beyond:
        yield f"Extrapolated: {_listed(beyond)}."


def _expected(value: float, low: float, high: float, unit: str = " s") -> str:
    return f"{amount(value)}{unit} expected, {amount(low)} to {amount(high)}{unit} for a single run."


def _sentence(text: str) -> str:
    """Return a reason as a sentence; it may begin with a component's name, which stays as it is."""
    return text if text.endswith(".") else f"{text}."


def _listed(names: list[str]) -> str:
    more = len(names) - SHOWN_MAX
    return ", ".join(names[:SHOWN_MAX]) + (f", and {more:,} more" if more > 0 else "")


def _span(runs: list[int]) -> str:
    return f"{min(runs):,}" if min(runs) == max(runs) else f"{min(runs):,} to {max(runs):,}"


# -- the answer again -------------------------------------------------------------------------------------------------------


def replayed(basis: Basis) -> dict[str, Any]:
    """Return the answer to a request, computed again from its evidence alone, as it comes over the wire.

    Raises as `advisor.engine.replay.replay_answer`.
    """
    found = replay_answer(basis)
    return {"suggestions": found.as_wire()} if isinstance(found, Suggestions) else found.as_dict()


def differences(answer: Any, again: Any, field: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield each field in which an answer differs from another, with both values; None stands for one that is not there."""
    if isinstance(answer, Mapping) and isinstance(again, Mapping):
        here, there = cast("Mapping[str, Any]", answer), cast("Mapping[str, Any]", again)
        for key in dict.fromkeys((*here, *there)):
            yield from differences(here.get(key), there.get(key), f"{field}.{key}" if field else key)
    elif isinstance(answer, list) and isinstance(again, list):
        for at, (one, other) in enumerate(zip_longest(cast("list[Any]", answer), cast("list[Any]", again))):
            yield from differences(one, other, f"{field}[{at}]")
    elif answer != again or isinstance(answer, bool) is not isinstance(again, bool):
        yield field, answer, again
