"""Why an answer is as it is, in sentences: what was asked, what was answered, what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

TEXT_SHOWN = 200  # characters of a network's text in a sentence
FEW_RUNS = 30  # observations below which a curve is said to rest on few
DEFAULTS: Mapping[str, Any] = {"instances_max": 1}
COMPONENTS_SAID = 12  # of each sentence about several


def sentences(answer: Mapping[str, Any], request: Mapping[str, Any], network: Any = None) -> Iterator[str]:
    """Yield why an answer of `allocate` or `allocate_together` is as it is, in sentences. Cost O(components).

    answer: as it comes over the wire, or as `advisor allocate --json` prints it
    request: what it was asked with, as far as that is known
    network: the text that it was asked about, or anything else
    """
    if "networks" in answer:
        yield from _sentences_together(answer, request)
    else:
        yield from _sentences(answer, request, network)


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
    yield from _marginal(allocation)
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


def _marginal(allocation: Mapping[str, Any]) -> Iterator[str]:
    """Say which component could give up a core for least."""
    latency = allocation.get("objective") == "latency"
    name, unit = ("latency_s", "s a record") if latency else ("throughput_per_s", "records/s")
    now: float = allocation[name]
    if latency:
        now = allocation.get("latency_quantile_s") or allocation.get("latency_queued_s") or now
    rows: list[Mapping[str, Any]] = [
        row for row in allocation.get("marginal", ()) if row.get(f"last_{name}") is not None
    ]
    if not rows:
        return
    least = min(rows, key=lambda row: abs(float(row[f"last_{name}"]) - now))
    value: float = least[f"last_{name}"]
    yield (
        f"The core that would be missed least is the last of {least['key']}: without it {_figure(value)} {unit} instead of"
        f" {_figure(now)}."
    )


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
