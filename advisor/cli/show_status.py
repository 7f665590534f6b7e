"""What `advisor status` and `advisor top` show: the service in sentences, totals, and a table of components."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.markup import escape

from advisor.cli import show
from advisor.cli.tables import Table, put, say, table
from advisor.domain.wording import seconds

# Totals that are shown in a sentence, and what the first lines say already.
IN_SENTENCES = frozenset((
    "scores", "coverage", "score_error", "score_bias", "prediction_error", "predictions_scored", "offset",
    "components_known", "components_max", "state_bytes", "model_memory_bytes", "model_memory_used_bytes",
))  # fmt: skip
UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def status(found: Mapping[str, Any], *, as_json: bool) -> None:
    """Show the status of an advisor or of a service."""
    if as_json:
        show.put_json(found)
        return
    for line in lines(found):
        say(line)
    facts = [
        (key, value)
        for key, value in found.items()
        if not isinstance(value, (Mapping, list, tuple)) and key not in IN_SENTENCES
    ]
    service: Mapping[str, Any] = found.get("service") or {}
    if "shards" in service:
        put_shards(service["shards"], service["moves"])
    for key, value in (*facts, *sorted(found.get("totals", {}).items())):
        say(f"  {key} {_cell(key, value)}", style="dim")
    page: Sequence[Mapping[str, Any]] = found.get("components") or ()
    if page:
        put(components(page))
    known, offset = found["components_known"], found.get("offset", 0)
    if 0 < len(page) < known - offset:
        say(
            f"components {offset + 1:,} to {offset + len(page):,} of {known:,}: --offset and --limit show others",
            style="dim",
        )
    for entry in page:
        for how in ("changed", "drifted"):
            if entry.get(f"{how}_at") is not None:
                ratio, at = 2.0 ** entry[f"{how}_by"], f"{how} at its row {entry[f'{how}_at']:,}"
                say(f"  {entry['component']} {at}: runs take {ratio:.3g} times as long", style="dim")


def put_shards(shards: Sequence[Mapping[str, Any]], moves: Mapping[str, Any]) -> None:
    """Show how the shards of a service stand, and what moves between them."""
    rows = table(
        "shard", "components", "buckets", "rows", "bytes", "waiting", "lag", "recoveries", "failure", words=("failure",),
    )  # fmt: skip
    for each in shards:
        rows.add_row(
            str(each["shard"]), f"{each['components']:,}", str(each["buckets"]), f"{each['rows']:,}",
            show.size(each["bytes"]), f"{each['rows_waiting']:,}", seconds(each["lag_s"]), str(each["recoveries"]),
            escape(each["failure"] or ""),
        )  # fmt: skip
    put(rows)
    moved = f"{show.several(moves['done'], 'move')} done, {moves['left']} left, {show.size(moves['bytes'])}"
    behind = f"{moves['copies_behind_rows']:,} rows, {seconds(moves['copies_behind_s'])}"
    say(f"{moved}; answers lack {behind} at most", style="dim")
    if moves["waiting_for"]:
        say(f"moves wait until these send again what was cut off: {', '.join(moves['waiting_for'])}")


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is asked first, a sentence each."""
    service: Mapping[str, Any] | None = found.get("service")
    if service is not None:
        yield from _service(service)
    yield (
        f"{show.several(found['components_known'], 'component')} of at most {found['components_max']:,}, "
        f"{show.size(found['state_bytes'])}; learners {show.size(found['model_memory_used_bytes'])} "
        f"of {show.size(found['model_memory_bytes'])}"
    )
    if found.get("scores"):
        yield (
            f"{found['scores']:,} predictions scored: off by {show.percent(found['score_error'])} on average, "
            f"{show.percent(found['coverage'])} within their 90% interval"
        )


def _service(service: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"advisor {service['version']}, up {lasted(service['uptime_s'])}, "
        f"{show.several(service['connections'], 'connection')}, {show.several(service['producers_live'], 'producer')} "
        f"connected, {service['producers']:,} remembered{', STOPPING' if service['stopping'] else ''}"
    )
    yield (
        f"{service['rows_per_s']:,.0f} rows/s, {service['requests_per_s']:,.0f} requests/s, memory "
        f"{show.size(service['memory_bytes'])}{', SHORT OF MEMORY' if service['short_of_memory'] else ''}"
    )
    if service["storage"] == "none":
        yield "storage none: nothing survives the service (serve --state FILE)"
    elif service["storage"] == "ok":
        commits = f"{show.several(service['commits'], 'commit')}, {seconds(service['commit_mean_s'])} each"
        yield f"storage ok: {service['state']}, {commits}"
    else:
        yield f"storage FAILED, nothing is acknowledged: {service['storage_failure']}"
    if service["errors_sampled"]:
        covered = service["errors_covered"] / service["errors_sampled"]
        yield (
            f"half of the predictions are off by less than {show.percent(service['error_median'])}, nine of ten by less than "
            f"{show.percent(service['error_9_of_10'])}; {show.percent(covered)} within their 90% interval "
            f"({show.several(service['errors_sampled'], 'row')} sampled)"
        )
    slow = [state for state in service["kernels"].values() if state != "compiled"]
    if slow:
        kernels = len(service["kernels"])
        yield f"kernels: {kernels - len(slow)} of {kernels} compiled, the others {', '.join(sorted(set(slow)))}"


def components(page: Sequence[Mapping[str, Any]], rates: Mapping[str, float] | None = None) -> Table:
    """Return the table of components; `rates`, rows a second by name, is a column where it is given. --json has more."""
    rows = table(
        "component", "model", "runs", *(["rows/s"] if rates is not None else []), "error", "bias", "in 90%", "changes",
        "predictor", "cores", text_columns=2,
    )  # fmt: skip
    for entry in page:
        model = "learner" if entry.get("cells") else str(entry.get("model") or "–")
        if entry.get("pinned"):
            model = f"{entry['pinned']} (pinned)"
        name = str(entry["component"])
        rows.add_row(
            escape(name), escape(model), _cell("runs", entry.get("runs")),
            *([f"{rates.get(name, 0.0):,.0f}"] if rates is not None else []),
            show.percent(_first(entry, "score_error", "prediction_error")), show.percent(_first(entry, "score_bias", "bias")),
            show.percent(entry.get("coverage")), _cell("changes", entry.get("changes")),
            *(show.span(entry.get(key)) for key in ("predictor_range", "cores_range")),
        )  # fmt: skip
    return rows


def lasted(elapsed_s: float) -> str:
    """Return a time of seconds to days in its two largest units."""
    left, words = int(elapsed_s), list[str]()
    for scale, unit in UNITS:
        count, left = divmod(left, scale)
        if count or words:
            words.append(show.several(count, unit))
    return " ".join(words[:2]) or "0 seconds"


def _first(entry: Mapping[str, Any], *keys: str) -> Any:
    """Return the first of the values that is there."""
    return next((entry[key] for key in keys if entry.get(key) is not None), None)


def _cell(key: str, value: Any) -> str:
    if key.endswith("_bytes"):
        return show.size(value)
    if isinstance(value, float):
        return seconds(value) if key.endswith("_s") else f"{value:,.6g}"
    return (
        "–" if value is None else f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    )
