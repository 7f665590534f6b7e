"""What `advisor status` shows: the service in sentences, totals, and a table of components."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from advisor.cli import tables
from advisor.cli.tables import Column, Printed, Table, dim, format_count, percent, seconds, several, size, table

SHARDS = (
    Column("shard", "shard"), Column("components", "components", format_count), Column("buckets", "buckets", str),
    Column("rows", "rows", format_count), Column("bytes", "bytes", size), Column("waiting", "rows_waiting", format_count),
    Column("lag", "lag_s", seconds), Column("recoveries", "recoveries", str),
    Column("failure", lambda shard: shard["failure"] or ""),
)  # fmt: skip


def status(found: Mapping[str, Any]) -> Iterator[Printed]:
    """Yield the status of an advisor or of a service."""
    yield from lines(found)
    service: Mapping[str, Any] = found.get("service") or {}
    if "shards" in service:
        yield from shards(service["shards"], service["moves"])
    page: Sequence[Mapping[str, Any]] = found.get("components") or ()
    if page:
        yield components(page)
    known, offset = found["components_known"], found.get("offset", 0)
    if 0 < len(page) < known - offset:
        those = f"components {offset + 1:,} to {offset + len(page):,} of {known:,}"
        yield dim(f"{those}: --offset and --limit show others")
    for entry in page:
        for how in ("changed", "drifted"):
            if entry.get(f"{how}_at") is not None:
                ratio, at = 2.0 ** entry[f"{how}_by"], f"{how} at its row {entry[f'{how}_at']:,}"
                yield dim(f"  {entry['component']} {at}: runs take {ratio:.3g} times as long")


def shards(found: Sequence[Mapping[str, Any]], moves: Mapping[str, Any]) -> Iterator[Printed]:
    """Yield how the shards of a service stand, and what moves between them."""
    yield table(SHARDS, found)
    left = f"{several(moves['left'], 'move')} left"
    yield dim(f"{left}; answers lack rows of {seconds(moves['replicas_behind_s'])} at most")
    if moves["waiting_for"]:
        yield f"moves wait until these send again what was cut off: {', '.join(moves['waiting_for'])}"


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is asked first, a sentence each."""
    service: Mapping[str, Any] | None = found.get("service")
    if service is not None:
        yield from _service(service)
    yield (
        f"{several(found['components_known'], 'component')} of at most {found['components_max']:,}, "
        f"{size(found['state_bytes'])}; learners {size(found['model_memory_used_bytes'])} "
        f"of {size(found['model_memory_bytes'])}"
    )
    totals = Counter[str](found["totals"])
    yield f"{several(totals['rows_accepted'], 'row')} accepted, {totals['rows_refused']:,} refused"
    yield from scored(found)


def scored(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield how predictions of rows that were learned later fared."""
    if found.get("scores"):
        yield (
            f"{found['scores']:,} predictions scored: off by {percent(found['score_error'])} on average, "
            f"{percent(found['coverage'])} within their 90% interval"
        )


def _service(service: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"advisor {service['version']}, up {timedelta(seconds=int(service['uptime_s']))}, "
        f"{several(service['connections'], 'connection')}, {several(service['producers_live'], 'producer')} "
        f"connected, {service['producers']:,} remembered{', STOPPING' if service['stopping'] else ''}"
    )
    yield (
        f"{service['rows_per_s']:,.0f} rows/s, {service['requests_per_s']:,.0f} requests/s, memory "
        f"{size(service['memory_bytes'])}"
    )
    if service["storage"] == "none":
        yield "storage none: nothing survives the service (serve --state FILE)"
    elif service["storage"] == "ok":
        commits = f"{several(service['commits'], 'commit')}, {seconds(service['commit_mean_s'])} each"
        yield f"storage ok: {service['state']}, {commits}"
    else:
        yield f"storage FAILED, nothing is acknowledged: {service['storage_failure']}"
    slow = [state for state in service["kernels"].values() if state != "compiled"]
    if slow:
        kernels = len(service["kernels"])
        yield f"kernels: {kernels - len(slow)} of {kernels} compiled, the others {', '.join(sorted(set(slow)))}"


def components(page: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table of components. --json has more."""
    return table(
        [
            Column("component", "component"), Column("model", _model), Column("runs", "runs", format_count),
            Column("error", lambda entry: _first(entry, "score_error", "prediction_error"), percent),
            Column("bias", lambda entry: _first(entry, "score_bias", "bias"), percent),
            Column("in 90%", "coverage", percent), Column("changes", "changes", format_count),
            Column("predictor", "predictor_range", tables.span), Column("cores", "cores_range", tables.span),
        ],
        page,
    )  # fmt: skip


def _model(entry: Mapping[str, Any]) -> str:
    if entry.get("pinned"):
        return f"{entry['pinned']} (pinned)"
    return "learner" if entry.get("cells") else entry.get("model") or "–"


def _first(entry: Mapping[str, Any], *keys: str) -> Any:
    """Return the first of the values that is there."""
    return next((entry[key] for key in keys if entry.get(key) is not None), None)
