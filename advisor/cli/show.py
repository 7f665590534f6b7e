"""Answers as tables for people, or as JSON for programs; standard output and nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.markup import escape

from advisor.cli.tables import notes, put, say, table
from advisor.domain.allowed_cores import parse_allowed
from advisor.domain.answers import CoreChoice, Prediction, Suggestion
from advisor.domain.runs import RunPrediction
from advisor.domain.wording import seconds

LEAST_SHARE = 1e-4  # that is shown in digits
SIZES = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))


def size(value: float | None) -> str:
    """Return bytes with three digits and the unit that suits them."""
    if value is None or not math.isfinite(value):
        return "–"
    scale, unit = next((pair for pair in SIZES if abs(value) >= pair[0]), SIZES[-1])
    return f"{value / scale:.4g} {unit}"


def point(predictor: Any) -> str:
    """Return a predictor, its values with x between them."""
    if predictor is None:
        return "observed load"
    return "x".join(f"{value:g}" for value in (predictor if isinstance(predictor, (list, tuple)) else (predictor,)))  # pyright: ignore[reportUnknownVariableType]


def several(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def percent(value: float | None) -> str:
    """Return a share as a percentage."""
    return "–" if value is None or not math.isfinite(value) else f"{value:z.1%}"


MEASURE_TEXTS: Mapping[str, Callable[[float], str]] = {"peak_bytes": size, "energy_j": lambda value: f"{value:.4g} J"}


def prediction(
    component: str, x: Sequence[Any] | None, p: Sequence[float], level: float, found: Prediction, measure: str | None, *,
    as_json: bool,
) -> None:  # fmt: skip
    """Show a prediction at points (x, p)."""
    plain = found.as_dict()
    if as_json:
        about = {"measure": measure} if measure else {}
        put_json({"component": component, "predictor": x and list(x), "cores": list(p), "level": level} | about | plain)
        return
    rows = table("predictor", "cores", measure or "elapsed", "low", "high", "extrapolates", text_columns=0)
    text_of = MEASURE_TEXTS.get(measure or "", seconds)
    each = (plain[key] for key in ("elapsed_s", "low_s", "high_s", "extrapolates"))
    for size, cores, elapsed, low, high, outside in zip(x or [None] * len(p), p, *each, strict=True):
        shown = "nothing seen" if math.isinf(outside) else f"{outside:.1f} doublings" if outside else "no"
        rows.add_row(point(size), f"{cores:g}", text_of(elapsed), text_of(low), text_of(high), shown)
    put(rows)
    say(
        f"{component}: {found.model}, {several(found.observations, 'run')}; low to high holds one run in {level:.0%} of cases"
    )
    notes(found.notes)


def settings(found: Mapping[str, Any]) -> None:
    """Show what is advised to a workflow or batch system, as JSON."""
    put_json(dict(found))


def choice(component: str, predictor: Any, level: float, found: CoreChoice, *, as_json: bool) -> None:
    """Show the cores chosen for one invocation."""
    if as_json:
        put_json({"component": component, "predictor": predictor, "level": level} | found.as_dict())
        return
    say(f"{several(found.cores, 'core')} for {component} at {point(predictor)}", style="bold")
    say(
        f"expected {seconds(found.elapsed_s)}, in {level:.0%} of cases from {seconds(found.low_s)} to "
        f"{seconds(found.high_s)} ({found.model})"
    )
    notes((found.why,))


def suggestions(component: str, found: Sequence[Suggestion], *, as_json: bool) -> None:
    """Show what to run next."""
    if as_json:
        put_json({"component": component, "suggestions": [each.as_dict() for each in found]})
        return
    rows = table("predictor", "cores", "elapsed", "cost", "narrower", text_columns=0)
    for each in found:
        cost = f"{each.cost_core_s:.3g} core-s"
        rows.add_row(point(each.predictor), f"{each.cores:g}", seconds(each.elapsed_s), cost, _fine(each.narrower))
    put(rows)
    say(f"run next, for {component}: best first; narrower is by how much the predictions' intervals should shrink")
    notes(dict.fromkeys(each.why for each in found))


def would_forget(what: str, keep: float, *, as_json: bool) -> None:
    """Show what would be forgotten."""
    if as_json:
        put_json({"would_forget": what, "keep": keep})
    else:
        say(f"would forget {f'{1.0 - keep:.0%} of ' if keep else ''}{what}; nothing was forgotten")


def forgotten(component: str, keep: float, answer: Any, *, as_json: bool) -> None:
    """Show what was forgotten."""
    if as_json:
        put_json(answer if isinstance(answer, Mapping) else {"component": component, "keep": keep})
    else:
        say(f"kept {keep:.0%} of what was learned of {component}")


def dropped(what: str, answer: Mapping[str, Any], *, as_json: bool) -> None:
    """Show which whole program, or which producer's profiles, were forgotten; nothing is known of an answer that was lost."""
    if as_json:
        put_json(answer)
        return
    body = answer.get("profile", answer)
    name, runs = body.get("producer", body.get("program", "")), body.get("runs")
    say(f"forgot the {what} {name}: {several(runs, 'run')}" if runs is not None else f"forgot the {what}")


def pinned(component: str, model: str | None, answer: Any, *, as_json: bool) -> None:
    """Show what a component is held to."""
    if as_json:
        put_json(answer if isinstance(answer, Mapping) and answer else {"component": component, "model": model})
    elif model is None:
        say(f"{component} is answered by what the evidence supports")
    else:
        say(f"{component} is held to {model}")


def allowed_set(component: str, answer: Mapping[str, Any], *, as_json: bool) -> None:
    """Show which core counts a component allows now."""
    if as_json:
        put_json(answer)
        return
    allowed = answer.get("allowed")
    say(f"{component} allows {'every core count' if allowed is None else parse_allowed('allowed', allowed)}")


def replayed(result: Mapping[str, Any], limit: int, *, as_json: bool) -> None:
    """Show a replay: the error of each component beside the model that the table led to."""
    if as_json:
        put_json(result)
        return
    entries: Sequence[Mapping[str, Any]] = result["components"]
    shown = entries[: limit or None]
    rows = table(
        "component", "model", "rows", "median error", "9 of 10", "bias", "parallel", "predictor", "cores", text_columns=2,
    )  # fmt: skip
    for entry in shown:
        errors = (entry[f"online_{name}"] for name in ("error_median", "error_9_of_10", "bias"))
        rows.add_row(
            escape(entry["component"]), entry.get("model") or "–", f"{entry['rows']:,}", *map(percent, errors),
            percent(entry.get("parallel_fraction")), span(entry.get("predictor_range")), span(entry.get("cores_range")),
        )  # fmt: skip
    put(rows)
    if len(shown) < len(entries):
        say(f"{several(len(entries) - len(shown), 'more component')}: --limit 0 shows all", style="dim")
    scored = sorted(entry["online_error_median"] for entry in entries if entry["scored"])
    if scored:
        middle = 0.5 * (scored[(len(scored) - 1) // 2] + scored[len(scored) // 2])
        say(
            f"{several(result['rows'], 'row')}, {several(len(entries), 'component')}; "
            f"median error of the median component {percent(middle)}"
        )
    if "plot" in result:
        say(f"picture: {result['plot']}")
    if "out" in result:
        say(f"what was learned: {result['out']}")


def differences(found: Sequence[Any], *, level: float, as_json: bool) -> None:
    """Show what became slower or faster from one state to another."""
    if as_json:
        keys = ("component", "ratio", "low", "high", "significant", "points", "note")
        put_json({"level": level, "differences": [{key: getattr(each, key) for key in keys} for each in found]})
        return
    rows = table("component", "", "times as long", "low", "high", "compared at", "", text_columns=2)
    for each in found:
        verdict = ("slower" if each.ratio > 1.0 else "faster") if each.significant else "–"
        figures = (
            "–" if value is None or not math.isfinite(value) else f"{value:.3g}"
            for value in (each.ratio, each.low, each.high)
        )
        rows.add_row(escape(each.component), verdict, *figures, several(each.points, "point"), escape(each.note or ""))
    put(rows)
    slower = sum(each.significant and each.ratio > 1.0 for each in found)
    faster = sum(each.significant and each.ratio < 1.0 for each in found)
    say(
        f"{slower} slower, {faster} faster, {len(found) - slower - faster} without a difference that {level:.1%} would bear out"
    )


def moved(target: str, status: Mapping[str, Any], size: int, *, as_json: bool) -> None:
    """Show what was exported or imported."""
    if as_json:
        put_json({"file": target, "bytes": size, "components": status["components_known"], "totals": status["totals"]})
    else:
        say(f"{target}: {several(status['components_known'], 'component')}, {size:,} bytes")


def runs_learned(program: str, runs: int, answer: Mapping[str, Any], *, as_json: bool) -> None:
    """Show that runs were learned."""
    if as_json:
        put_json({"program": program, "sent": runs} | dict(answer))
        return
    known = f", {several(int(answer['runs']), 'run')} learned of it now" if "runs" in answer else ""
    say(f"{program}: {several(runs, 'run')} sent{known}")


def learned(result: Mapping[str, Any], *, as_json: bool) -> None:
    """Show what the files of a run have taught."""
    if as_json:
        put_json(result)
        return
    parts = _counted(result, rows="of boxes learned", learned_before="learned before", unmapped="of tasks in no map")
    goes_on = [] if result["ended"] else ["the run goes on: what it has begun is learned later"]
    say(f"{result['network']}: {', '.join([*parts, *goes_on])}")


def files_learned(files: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Show what files of runs have taught."""
    if as_json:
        put_json({"files": list(files)})
        return
    for each in files:
        parts = _counted(each, runs="learned", failed="failed, counted", learned_before="learned before", bad="bad")
        say(
            f"{each['file']}: {', '.join([*parts, *(f'{count} {why}' for why, count in sorted(each['passed'].items()))])}"
        )


def _counted(found: Mapping[str, Any], **words: str) -> list[str]:
    """Return how many runs were learned, by the first key, then what else there was of, and what was refused."""
    (first, learned), *others = words.items()
    parts = [f"{several(found[first], 'run')} {learned}", *(f"{found[key]} {of}" for key, of in others if found[key])]
    refused: Mapping[str, int] = found["refused"]
    return [*parts, f"{sum(refused.values())} refused ({', '.join(sorted(refused))})"] if refused else parts


def run_prediction(
    program: str, sizes: Sequence[float], workers: Sequence[float], level: float, found: RunPrediction, *, as_json: bool
) -> None:
    """Show predictions of runs at points (size, workers)."""
    if as_json:
        about = {"program": program, "size": list(sizes), "workers": list(workers), "level": level}
        put_json(about | found.as_dict())
        return
    rows = table(
        "size", "workers", "elapsed", "low", "high", "work", "delay", "no work", "speedup", "extrapolates", text_columns=0,
    )  # fmt: skip
    parts = found.parts
    columns = (found.elapsed_s, found.low_s, found.high_s, parts["work_s"], parts["delay_s"], parts["no_work_s"])
    for place, (size, count) in enumerate(zip(sizes, workers, strict=True)):
        times = [seconds(column[place]) for column in columns]
        speedup = parts["serial_work_s"][place] / found.elapsed_s[place] if found.elapsed_s[place] else 0.0
        far = found.extrapolates[place]
        rows.add_row(f"{size:g}", f"{count:g}", *times, f"{speedup:.3g}", f"{far:.1f} doublings" if far else "no")
    put(rows)
    say(
        f"{program}: {found.model}, {several(found.observations, 'run')}; "
        f"low to high holds one run in {level:.0%} of cases"
    )
    notes(found.notes)


def put_json(value: Any) -> None:
    """Print JSON; what is not finite is null."""
    print(json.dumps(finite(value), indent=2, ensure_ascii=False, allow_nan=False))


def finite(value: Any) -> Any:
    """Return a value as JSON has it: what is not finite is null."""
    if isinstance(value, Mapping):
        return {str(key): finite(each) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _fine(value: float | None) -> str:
    """Return a share that may be small as a percentage of two digits; a smaller one is shown as less than that."""
    return "–" if value is None else f"{100.0 * value:.2g}%" if abs(value) >= LEAST_SHARE else "none"


def rate(value: float | None) -> str:
    """Return records a second with as many digits as say something."""
    return "–" if value is None else f"{value:,.0f}" if 1e4 <= value < 1e15 else f"{value:.4g}"


def span(pair: Sequence[float] | None) -> str:
    """Return a range."""
    if not pair:
        return "–"
    return f"{pair[0]:g}" if pair[0] == pair[1] else f"{pair[0]:g} – {pair[1]:g}"
