"""Why an answer is as it is, in sentences: what was asked, what was answered, what it rests on; and whether it is the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, cast

from advisor.domain.answers import Basis, Suggestions
from advisor.engine.replay import advisor_of, replay_answer

TEXT_SHOWN = 200  # characters of a network's text in a sentence
FEW_RUNS = 30  # observations below which a curve is said to rest on few
DEFAULTS: Mapping[str, Any] = {"instances_max": 1}
COMPONENTS_SAID = 12  # of each sentence about several


def sentences(answer: Mapping[str, Any], request: Mapping[str, Any], network: Any = None) -> Iterator[str]:
    """Yield why an answer is as it is, in sentences. Cost O(components).

    answer: as it comes over the wire, or as a command prints it with `--json`
    request: what it was asked with, as far as that is known
    network: the text that it was asked about, or anything else
    """
    if "networks" in answer:
        yield from _sentences_together(answer, request)
    elif "instances" in answer:
        yield from _sentences(answer, request, network)
    elif "jobs" in answer:
        yield from (f"Job {job['id']}: {_sentence(job['why'])}" for job in answer["jobs"])
        yield from (f"{component}: {_sentence(text)}" for component, text in answer["assumed"].items())
    elif "suggestions" in answer:
        yield from (_sentence(f"{at}. {each['why']}") for at, each in enumerate(answer["suggestions"], 1))
    elif "why" in answer:
        low, high = _figure(answer["low_s"]), _figure(answer["high_s"])
        yield f"{_several(answer['cores'], 'core')}: {_figure(answer['elapsed_s'])} s expected, {low} to {high} s."
        yield from map(_sentence, (answer["why"], *answer["assumed"]))
    else:
        yield from _sentences_of_prediction(answer, request)


def _sentences_of_prediction(answer: Mapping[str, Any], request: Mapping[str, Any]) -> Iterator[str]:
    columns = (
        [each] if isinstance(each, float) else each for each in map(answer.get, ("elapsed_s", "low_s", "high_s"))
    )
    points = list(zip(*columns, strict=True))
    unit = {"peak_bytes": " bytes", "energy_j": " J"}.get(str(request.get("measure")), " s")
    for value, low, high in points[:COMPONENTS_SAID]:
        yield f"{_figure(value)}{unit} expected, {_figure(low)} to {_figure(high)}{unit} for a single run."
    if len(points) > COMPONENTS_SAID:
        yield f"And {len(points) - COMPONENTS_SAID:,} points more."
    runs = cast(
        "list[int]", answer["observations"] if isinstance(answer["observations"], list) else [answer["observations"]]
    )
    yield f"The model is {answer['model']}, learned from {_span(runs)} runs."
    yield from map(_sentence, answer["notes"])


def sentences_of_basis(basis: Basis) -> Iterator[str]:
    """Yield what an answer rests on, in sentences. Raises StateDamaged, StateTooNew."""
    components = advisor_of(basis).status()["components"]
    shown = [f"{each['component']} ({_several(each['rows'], 'row')})" for each in components[:COMPONENTS_SAID]]
    more = ", …" if len(components) > COMPONENTS_SAID else ""
    yield f"Advisor {basis.versions.get('advisor', '?')} answered {basis.verb} from {', '.join(shown) or 'no component'}{more}."
    if basis.verb != "allocate":  # whose sentences have it
        asked = [f"{key} {str(value)[:TEXT_SHOWN]}" for key, value in basis.request.items() if key != "jobs"]
        yield f"Asked with {'; '.join(asked)}."


def _sentences_together(answer: Mapping[str, Any], request: Mapping[str, Any]) -> Iterator[str]:
    cores = request.get("cores", sum(part["cores_used"] for part in answer["networks"]) + answer["spare"])
    yield (
        f"Objective {request.get('objective', answer['networks'][0].get('objective', 'throughput'))}:"
        f" {_several(len(answer['networks']), 'network')} that share {cores:,} cores;"
        f" {_several(answer['spare'], 'core')} to spare."
    )
    for reason in answer["why"]:
        yield _sentence(reason["text"])
    yield from _gap(answer)
    for part in answer["networks"]:
        yield (
            f"Network {part['name']} (weight {part['weight']:g}, priority {part['priority']}) has"
            f" {_figure(part['guaranteed_per_s'])} records/s while the others run beside it,"
            f" {_figure(part['throughput_per_s'])} at most; a record takes {_figure(part['latency_s'])} s."
        )
        yield _given(part)
        yield from _evidence(part)


def _sentences(allocation: Mapping[str, Any], request: Mapping[str, Any], network: Any) -> Iterator[str]:
    cores = allocation["cores_used"] + allocation["spare"]
    yield (
        f"Objective {request.get('objective', allocation.get('objective', 'throughput'))}: a network of"
        f" {_several(len(allocation['instances']), 'component')} on {_several(cores, 'core')}."
    )
    if isinstance(network, str):
        text = " ".join(network.split())
        yield f"The network: {text[:TEXT_SHOWN]}{'…' if len(text) > TEXT_SHOWN else ''}"
    options = [
        f"{key} {value}"
        for key, value in request.items()
        if key not in ("cores", "objective") and value != DEFAULTS.get(key)
    ]
    if options:
        yield f"Asked with {'; '.join(option[:TEXT_SHOWN] for option in options)}."
    yield _given(allocation)
    queued, quantile = allocation.get("latency_queued_s"), allocation.get("latency_quantile_s")
    with_queues = "" if queued is None else f", {_figure(queued)} s with queueing"
    at_quantile = (
        "" if quantile is None else f", {_figure(quantile)} s at the quantile {request.get('quantile', 'asked')}"
    )
    yield (
        f"That is {_figure(allocation['throughput_per_s'])} records/s, and {_figure(allocation['latency_s'])} s a record in the"
        f" network{with_queues}{at_quantile}."
    )
    for reason in allocation.get("why", ()):
        yield _sentence(reason["text"])
    yield from _gap(allocation)
    yield from _evidence(allocation)


def _given(allocation: Mapping[str, Any]) -> str:
    shown: list[str] = []
    own = {key: cores for key, cores in allocation["cores"].items() if key not in allocation.get("in_turn", {})}
    for key, cores in list(own.items())[:COMPONENTS_SAID]:
        instances = allocation["instances"][key]
        shown.append(f"{key} {cores}" if instances == 1 else f"{key} {instances} x {cores}")
    more = len(own) - len(shown)
    tail = f", and {more:,} more" if more else ""
    shared = [f"{group['cores']} in turns for {', '.join(group['components'][:COMPONENTS_SAID])}"
              for group in allocation.get("groups", ()) if len(group["components"]) > 1]  # fmt: skip
    shown = [*shared[:COMPONENTS_SAID], *shown]
    return f"Cores: {', '.join(shown)}{tail}; {_several(allocation['spare'], 'core')} to spare."


def _gap(allocation: Mapping[str, Any]) -> Iterator[str]:
    gap = allocation.get("gap")
    if gap is not None:
        yield "It is proved best." if gap == 0 else f"It is at most {100 * gap:.2g} % from the best that is possible."


def _evidence(allocation: Mapping[str, Any]) -> Iterator[str]:
    known: Mapping[str, Mapping[str, Any]] = allocation.get("evidence", {})
    if not known:
        return
    runs = [int(entry["observations"]) for entry in known.values()]
    models = sorted({str(entry["model"]) for entry in known.values()})
    yield (
        f"The curves of {_several(len(known), 'component')} rest on {_span(runs)} runs each"
        f" ({', '.join(models[:3])}{', …' if len(models) > 3 else ''})."
    )
    few = [f"{key} ({entry['observations']})" for key, entry in known.items() if entry["observations"] < FEW_RUNS]
    if few:
        yield f"On few runs: {', '.join(few[:COMPONENTS_SAID])}{', …' if len(few) > COMPONENTS_SAID else ''}."
    beyond = [
        f"{key} on {allocation['cores'][key]} cores (seen {entry['cores_range'][0]:g} to {entry['cores_range'][1]:g})"
        for key, entry in known.items()
        if entry["extrapolates"] > 0
    ]
    if beyond:
        yield f"Extrapolated: {', '.join(beyond[:COMPONENTS_SAID])}{', …' if len(beyond) > COMPONENTS_SAID else ''}."


def _sentence(text: str) -> str:
    """Return a reason as a sentence; it may begin with a component's name, which stays as it is."""
    return text if text.endswith(".") else f"{text}."


def _several(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _span(runs: list[int]) -> str:
    return f"{min(runs):,}" if min(runs) == max(runs) else f"{min(runs):,} to {max(runs):,}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if 1e4 <= value < 1e15 else f"{value:.4g}"


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
