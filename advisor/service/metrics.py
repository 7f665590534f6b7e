"""What Prometheus sees: a picture of the state, taken when asked. Nothing below the service knows Prometheus.

No label a component but for the k worst: 100,000 series take half a second a scrape.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from advisor import __version__, kernels
from advisor.service.hub import Hub
from advisor.service.logs import lines_dropped
from advisor.service.measures import Histogram

# One line a counter of the engine: total, metric, help.
ENGINE_COUNTERS = (
    ("rows_accepted", "advisor_rows_accepted", "Rows accepted"),
    ("batches_replayed", "advisor_batches_replayed", "Numbered batches that came again and were not folded again"),
    ("gaps", "advisor_sequence_gaps", "Numbered batches refused because one before them is missing"),
    ("forgets", "advisor_forgets", "Requests to forget a component"),
    ("programs_forgotten", "advisor_programs_forgotten", "Whole programs forgotten"),
    ("pins", "advisor_pins", "Components held to a model, or let go"),
    ("events_accepted", "advisor_events_accepted", "Task events folded"),
    ("events_late", "advisor_events_late", "Task events left out: they came when later ones had been folded"),
    ("events_dropped", "advisor_events_dropped", "Task events that producers say they lost"),
    ("tasks_ended", "advisor_tasks_ended", "Task instances that ended"),
    ("changes", "advisor_model_changes", "Changes found in components' run times, their old sums discounted"),
    ("outliers", "advisor_outliers", "Rows too far off to be believed at once"),
    ("promotions", "advisor_promotions", "Components, and measures, given support points"),
    ("promotions_refused", "advisor_promotions_refused", "Promotions that the model memory did not allow"),
    ("measures_dropped", "advisor_measures_dropped", "Measures not learned for want of room"),
)
COUNTER, GAUGE = CounterMetricFamily, GaugeMetricFamily
Value = Callable[[Hub], float | int | bool | None]
Counts = Callable[[Hub], Mapping[str, float]]


def _refused(prefix: str) -> Counts:
    """Return what counts the engine's refusals by reason."""
    return lambda hub: {
        key.removeprefix(prefix): n for key, n in hub.engine.totals.items() if key.startswith(prefix)
    }  # fmt: skip


WORST_COMPONENTS = 10  # with a label each: more cost Prometheus a series each, and nobody reads them

# One line a number: type, metric, help, what it is; None is not reported.
NUMBERS: tuple[tuple[type[Any], str, str, Value], ...] = (
    (GAUGE, "advisor_components", "Components known", lambda hub: hub.backend.held().components),
    (GAUGE, "advisor_components_max", "Components at most", lambda hub: hub.backend.held().components_max),
    (GAUGE, "advisor_state_bytes", "Bytes of learned state in memory", lambda hub: hub.backend.held().state_bytes),
    (GAUGE, "advisor_kernels_compiled", "1 where all kernels are compiled, 0 where some are interpreted",
     lambda hub: all(word == "compiled" for word in kernels.states().values())),
    (GAUGE, "advisor_producers", "Producers remembered for exactly-once", lambda hub: len(hub.engine.producers)),
    (GAUGE, "advisor_producers_max", "Producers remembered at most", lambda hub: hub.engine.ledger.producers_max),
    (GAUGE, "advisor_model_memory_bytes", "Bytes that learners may take",
     lambda hub: hub.backend.held().model_bytes_max),
    (GAUGE, "advisor_model_memory_used_bytes", "Bytes that learners take",
     lambda hub: hub.backend.held().model_bytes),
    (GAUGE, "advisor_profiles", "Runs of tasks whose profile is kept", lambda hub: len(hub.engine.profiles.runs)),
    (COUNTER, "advisor_profiles_dropped", "Profiles that gave way", lambda hub: hub.engine.profiles.gave_way),
    (GAUGE, "advisor_watches", "Networks watched", lambda hub: len(hub.watching)),
    (GAUGE, "advisor_connections", "Connections open", lambda hub: len(hub.connections)),
    (GAUGE, "advisor_queue_depth", "Answers held back until a commit", lambda hub: hub.committer.answers_waiting),
    (GAUGE, "advisor_peer_bytes", "Bytes kept for peers", lambda hub: hub.peers.bytes),
    (GAUGE, "advisor_peer_bytes_max", "Bytes that may be kept for peers", lambda hub: hub.peers.bytes_max),
    (GAUGE, "advisor_producers_live", "Producers with a connection", lambda hub: len(hub.producers)),
    (COUNTER, "advisor_wrong_tokens", "Wrong tokens given", lambda hub: hub.measures.guesses),
    (COUNTER, "advisor_log_lines_dropped", "Lines of the log that nobody read in time", lambda _: lines_dropped()),
    (GAUGE, "advisor_commit_age_seconds", "Seconds that the oldest change not yet durable has waited",
     lambda hub: hub.committer.age_s),
    (GAUGE, "advisor_storage_healthy", "1 while the last commit succeeded",
     lambda hub: hub.committer.failure is None if hub.committer.durable_storage else None),
    (GAUGE, "advisor_rows_uncommitted", "Rows folded, not yet in a commit", lambda hub: hub.committer.rows_waiting),
)  # fmt: skip
# What became of the predictions that were scored: sums, so that any span of time can be asked for its rate.
SCORES: tuple[tuple[type[Any], str, str, str], ...] = (
    (COUNTER, "advisor_scores", "Answers scored when their measurement came", "scores"),
    (COUNTER, "advisor_scores_covered", "Of these, answers whose interval at 0.9 held the measurement", "covered"),
    (COUNTER, "advisor_score_error", "Sum of |t - predicted| / max(t, predicted) over the scored answers", "error"),
    # A sum of what may be negative is no counter; that of a Prometheus type would be called _sum.
    (GAUGE, "advisor_score_bias", "Sum of (predicted - t) / max(t, predicted) over the scored answers", "bias"),
)
# One line a family of numbers: type, metric, label, help, the numbers by the label's value.
FAMILIES: tuple[tuple[type[Any], str, str, str, Counts], ...] = (
    (COUNTER, "advisor_rows_refused", "reason", "Rows refused, by reason", _refused("refused.")),
    (COUNTER, "advisor_events_refused", "reason", "Task events refused as illegal in their stream, by reason",
     _refused("events_refused.")),
    (GAUGE, "advisor_worst_prediction_error_ratio", "component",
     "The components with the largest mean of |t - predicted| / max(t, predicted)",
     lambda hub: {name: mean for name, mean, _ in hub.engine.advisor.components.worst(WORST_COMPONENTS)}),
    (COUNTER, "advisor_notifications", "kind", "Notifications of watches, by kind", lambda hub: hub.measures.notifications),
    (COUNTER, "advisor_replans", "found", "Looks at watched networks, by what they found",
     lambda hub: hub.measures.replans),
    (COUNTER, "advisor_connections_ended", "how", "Connections ended, by how", lambda hub: hub.measures.ends),
    (COUNTER, "advisor_errors", "code", "Requests answered with an error, by code", lambda hub: hub.measures.errors),
)  # fmt: skip
# One line a number of each shard, where the state has some: type, metric, help, key.
SHARDS: tuple[tuple[type[Any], str, str, str], ...] = (
    (GAUGE, "advisor_shard_components", "Components of a shard", "components"),
    (GAUGE, "advisor_shard_state_bytes", "Bytes of its learned state in memory", "bytes"),
    (COUNTER, "advisor_shard_rows_accepted", "Rows that it accepted", "rows"),
    (GAUGE, "advisor_shard_rows_waiting", "Rows that it has not acknowledged", "rows_waiting"),
    (GAUGE, "advisor_shard_lag_seconds", "Seconds that the oldest of them has waited", "lag_s"),
    (COUNTER, "advisor_shard_commits", "Its commits", "commits"),
    (COUNTER, "advisor_shard_recoveries", "Times that another process took over", "recoveries"),
)


class HubCollector(Collector):
    """Takes the picture."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the names depend on what was met."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Return all metrics."""
        hub = self._hub
        for total, name, about in ENGINE_COUNTERS:
            yield CounterMetricFamily(name, about, value=hub.engine.totals.get(total, 0))
        for kind, name, about, value in NUMBERS:
            if (found := value(hub)) is not None:
                yield kind(name, about, value=found)
        ledger = hub.backend.held().ledger
        for kind, name, about, key in SCORES:
            yield kind(name, about, value=ledger[key])
        for kind, name, label, about, of in FAMILIES:
            yield family(kind, name, label, about, of(hub))
        about = "Seconds of a commit to the state file"
        yield _histogram("advisor_commit_seconds", about, {"": hub.measures.commit_s})
        shards = hub.backend.health().get("shards", ())
        for kind, name, about, key in SHARDS if shards else ():
            yield family(kind, name, "shard", about, {str(each["shard"]): each[key] for each in shards})
        about = "Seconds to answer, or to fold what a commit answers"
        yield _histogram("advisor_request_seconds", about, hub.measures.requests, label="verb")
        about = "The version that runs, as labels"
        yield InfoMetricFamily("advisor_build", about, {"version": __version__, "python": platform.python_version()})


def family(kind: type[Any], name: str, label: str, about: str, counts: Mapping[str, float]) -> Metric:
    """Return a family of numbers by the values of one label."""
    family = kind(name, about, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family


def _histogram(name: str, about: str, histograms: Mapping[str, Histogram], label: str | None = None) -> Metric:
    family = HistogramMetricFamily(name, about, labels=[] if label is None else [label])
    for value, histogram in sorted(histograms.items()):
        family.add_metric([] if label is None else [value], histogram.cumulative(), histogram.total)
    return family
