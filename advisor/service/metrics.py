"""What Prometheus sees: a picture of the state, taken when asked. Nothing below the service knows Prometheus.

No label a component but for the k worst: 100,000 series take half a second a scrape.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping

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
from advisor.service.measures import Histogram

# One line a counter of the engine: total, metric, help.
ENGINE_COUNTERS = (
    ("rows_accepted", "advisor_rows_accepted", "Rows accepted"),
    ("rows_failed", "advisor_rows_failed", "Rows of failed runs: counted, not learned"),
    ("rows_unfinished", "advisor_rows_unfinished", "Rows of runs not yet ended: counted, not learned"),
    ("batches_replayed", "advisor_batches_replayed", "Numbered batches that came again and were not folded again"),
    ("gaps", "advisor_sequence_gaps", "Numbered batches refused because one before them is missing"),
    ("forgets", "advisor_forgets", "Components told to forget"),
    ("programs_forgotten", "advisor_programs_forgotten", "Whole programs forgotten"),
    ("profiles_forgotten", "advisor_profiles_forgotten", "Profiles of runs forgotten"),
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
    ("producers_resumed", "advisor_producers_resumed", "Producers that went on ahead of a state that was lost"),
)
# One line a sum over the answers that were scored: key of the ledger, metric, help.
LEDGER_COUNTERS = (
    ("scores", "advisor_scores", "Answers scored when their measurement came"),
    ("covered", "advisor_scores_covered", "Of these, answers whose interval at 0.9 held the measurement"),
    ("error", "advisor_score_error", "Sum of |t - predicted| / max(t, predicted) over the scored answers"),
)
# One line a labelled counter of the engine: prefix of its totals, metric, label, help.
ENGINE_COUNTERS_BY = (
    ("refused.", "advisor_rows_refused", "reason", "Rows refused, by reason"),
    (
        "events_refused.",
        "advisor_events_refused",
        "reason",
        "Task events refused as illegal in their stream, by reason",
    ),
    ("carried.", "advisor_fields_carried", "field", "Optional fields carried but not learned, by field"),
)

# One line a gauge of what the profiles hold together: key of `Profiles.held`, metric, help.
PROFILE_GAUGES = (
    ("nodes", "advisor_profile_nodes", "Call paths of all profiles"),
    ("instances", "advisor_profile_instances", "Task instances made or begun, and not ended"),
    ("events_waiting", "advisor_profile_events_waiting", "Task events that wait for other threads' streams"),
    ("bytes", "advisor_profile_bytes", "Bytes of the profiles' tables and of the events that wait"),
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
        yield from self._engine()
        yield from self._storage()
        yield from self._service()
        yield from self._watching()
        yield from self._advising()
        yield from self._snet()
        yield _histogram(
            "advisor_request_seconds",
            "Seconds to answer, or to fold what a commit answers",
            self._hub.measures.requests,
            label="verb",
        )

    def _engine(self) -> Iterator[Metric]:
        engine = self._hub.engine
        totals = engine.totals
        for total, name, about in ENGINE_COUNTERS:
            yield CounterMetricFamily(name, about, value=totals.get(total, 0))
        for prefix, name, label, about in ENGINE_COUNTERS_BY:
            family = CounterMetricFamily(name, about, labels=[label])
            for total, count in totals.items():
                if total.startswith(prefix):
                    family.add_metric([total.removeprefix(prefix)], count)
            yield family
        components = engine.advisor.components
        yield GaugeMetricFamily("advisor_components", "Components known", value=len(components) - components.measures)
        yield GaugeMetricFamily("advisor_components_max", "Components at most", value=components.components_max)
        yield GaugeMetricFamily("advisor_state_bytes", "Bytes of learned state in memory", value=engine.tables_bytes)
        yield GaugeMetricFamily(
            "advisor_kernels_compiled",
            "1 where all kernels are compiled, 0 where some are interpreted",
            value=all(word == "compiled" for word in kernels.states().values()),
        )
        yield GaugeMetricFamily(
            "advisor_producers", "Producers remembered for exactly-once", value=len(engine.producers)
        )
        yield GaugeMetricFamily(
            "advisor_producers_max", "Producers remembered at most", value=engine.ledger.producers_max
        )
        sampled = self._hub.learning.sampled
        about = "|t - predicted| / t of a sample of rows, predicted before they were learned; 10 where it is more"
        yield _histogram("advisor_prediction_error_ratio", about, {"": sampled.errors})
        about = "Of these rows, those within their interval at 0.9"
        yield CounterMetricFamily("advisor_predictions_covered", about, value=sampled.covered)
        worst = GaugeMetricFamily(
            "advisor_worst_prediction_error_ratio",
            "The components with the largest mean of |t - predicted| / max(t, predicted)",
            labels=["component"],
        )
        for name, mean, _ in components.worst(self._hub.config.worst_components):
            worst.add_metric([name], mean)
        yield worst
        yield from self._profiles()
        yield from self._model_memory()
        yield from self._ledger()

    def _profiles(self) -> Iterator[Metric]:
        profiles = self._hub.engine.profiles
        yield GaugeMetricFamily("advisor_profiles", "Runs of tasks whose profile is kept", value=len(profiles.runs))
        yield CounterMetricFamily("advisor_profiles_dropped", "Profiles that gave way", value=profiles.gave_way)
        held = profiles.held()
        for key, name, about in PROFILE_GAUGES:
            yield GaugeMetricFamily(name, about, value=held[key])

    def _model_memory(self) -> Iterator[Metric]:
        learners = self._hub.engine.advisor.components.learners
        yield GaugeMetricFamily(
            "advisor_model_memory_bytes", "Bytes that learners may take", value=learners.memory_bytes
        )
        yield GaugeMetricFamily(
            "advisor_model_memory_used_bytes", "Bytes that learners take", value=learners.used_bytes
        )

    def _ledger(self) -> Iterator[Metric]:
        """What became of the predictions that were scored: sums, so that any span of time can be asked for its rate."""
        ledger = self._hub.engine.advisor.ledger()
        for key, name, about in LEDGER_COUNTERS:
            yield CounterMetricFamily(name, about, value=ledger[key])
        # A sum of what may be negative is no counter; that of a Prometheus type would be called _sum.
        about = "Sum of (predicted - t) / max(t, predicted) over the scored answers"
        yield GaugeMetricFamily("advisor_score_bias", about, value=ledger["bias"])

    def _storage(self) -> Iterator[Metric]:
        committer, measures = self._hub.committer, self._hub.measures
        if not committer.durable_storage:
            return
        yield _histogram("advisor_commit_seconds", "Seconds of a commit to the state file", {"": measures.commit_s})
        yield CounterMetricFamily("advisor_commit_failures", "Commits that failed", value=measures.commits_failed)
        yield GaugeMetricFamily(
            "advisor_commit_age_seconds",
            "Seconds that the oldest change not yet durable has waited",
            value=committer.age_s,
        )
        yield GaugeMetricFamily(
            "advisor_storage_healthy", "1 while the last commit succeeded", value=committer.failure is None
        )
        yield GaugeMetricFamily(
            "advisor_rows_uncommitted", "Rows folded, not yet in a commit", value=committer.rows_waiting
        )

    def _watching(self) -> Iterator[Metric]:
        """Watches: how many, what they were told, and what their runtimes lose by doing otherwise."""
        hub, measures = self._hub, self._hub.measures
        yield GaugeMetricFamily("advisor_watches", "Networks watched", value=len(hub.watching))
        for name, label, about, counts in (
            ("advisor_notifications", "kind", "What watches were told, by kind", measures.notifications),
            ("advisor_replans", "found", "Looks at watched networks, by what they found", measures.replans),
            (
                "advisor_advice_outcomes",
                "outcome",
                "Applied advice that was judged, by whether it paid",
                measures.outcomes,
            ),
        ):
            family = CounterMetricFamily(name, about, labels=[label])
            for value, count in counts.items():
                family.add_metric([value], count)
            yield family
        yield CounterMetricFamily("advisor_advice_applied", "Changes that runtimes made", value=measures.applied)
        yield CounterMetricFamily(
            "advisor_watched_seconds", "Seconds over which regret was counted, of all watches", value=measures.watched_s
        )
        yield CounterMetricFamily(
            "advisor_regret_seconds", "Of these, the share lost by not doing what was best", value=measures.regret_s
        )
        regrets = hub.watching.regrets()
        if regrets:
            yield GaugeMetricFamily(
                "advisor_regret_ratio",
                "Share lost at the last looks, mean of the watches",
                value=sum(regrets) / len(regrets),
            )
        yield GaugeMetricFamily("advisor_answers_kept", "Answers kept to be explained", value=len(hub.planner.answers))
        yield GaugeMetricFamily("advisor_answers_bytes", "Bytes that they take, about", value=hub.planner.answers.bytes)

    def _advising(self) -> Iterator[Metric]:
        """What is advised of defined networks, as it was planned last."""
        advising = self._hub.advising
        cores = GaugeMetricFamily(
            "advisor_recommended_cores", "Cores advised, of all instances", labels=["network", "component"]
        )
        instances = GaugeMetricFamily(
            "advisor_recommended_instances", "Instances advised", labels=["network", "component"]
        )
        for network, component, on, of in advising.series():
            cores.add_metric([network, component], on)
            instances.add_metric([network, component], of)
        yield cores
        yield instances
        family = GaugeMetricFamily(
            "advisor_advised_networks", "Networks planned for, by what came of it", labels=["state"]
        )
        for state, count in advising.states().items():
            family.add_metric([state], count)
        yield family

    def _snet(self) -> Iterator[Metric]:
        """Cores lent to applications of S-Net's runtime."""
        snet = self._hub.snet
        if snet is None:
            return
        yield GaugeMetricFamily("advisor_snet_clients", "Applications connected for cores", value=len(snet.clients))
        for metric, name, label, about, counts in (
            (GaugeMetricFamily, "advisor_snet_cores", "state", "Cores to lend, by where they stand", snet.granting.lent()),
            (CounterMetricFamily, "advisor_snet_events", "event", "Cores moved, and clients' faults", snet.granting.counts),
            (CounterMetricFamily, "advisor_snet_clients_ended", "how", "Applications gone, by how", snet.ends),
        ):  # fmt: skip
            family = metric(name, about, labels=[label])
            for value, count in counts.items():
                family.add_metric([value], count)
            yield family

    def _service(self) -> Iterator[Metric]:
        hub, measures = self._hub, self._hub.measures
        yield GaugeMetricFamily("advisor_connections", "Connections open", value=len(hub.connections))
        yield CounterMetricFamily("advisor_connections_accepted", "Connections", value=measures.connections_accepted)
        yield CounterMetricFamily(
            "advisor_connections_refused", "Connections turned away", value=measures.connections_refused
        )
        ends = CounterMetricFamily("advisor_connections_ended", "Connections ended, by how", labels=["how"])
        for how, count in measures.ends.items():
            ends.add_metric([how], count)
        yield ends
        errors = CounterMetricFamily("advisor_errors", "Requests answered with an error, by code", labels=["code"])
        for code, count in measures.errors.items():
            errors.add_metric([code], count)
        yield errors
        yield GaugeMetricFamily(
            "advisor_queue_depth", "Answers held back until a commit", value=hub.committer.answers_waiting
        )
        kept = GaugeMetricFamily("advisor_peer_bytes", "Bytes kept for peers, by what for", labels=["of"])
        for what, size in hub.peers.kept.items():
            kept.add_metric([what], size)
        yield kept
        if hub.memory.bytes_max is not None:
            yield GaugeMetricFamily("advisor_memory_max", "Bytes that the service may take", value=hub.memory.bytes_max)
        yield GaugeMetricFamily(
            "advisor_memory_short", "1 while nothing new is taken for want of it", value=hub.memory.short
        )
        yield GaugeMetricFamily("advisor_peer_bytes_max", "Bytes that may be kept for peers", value=hub.peers.bytes_max)
        yield GaugeMetricFamily("advisor_producers_live", "Producers with a connection", value=len(hub.producers))
        yield CounterMetricFamily("advisor_producers_evicted", "Idle producers forgotten", value=measures.evicted)
        yield CounterMetricFamily(
            "advisor_batches_superseded", "Batches of an older connection", value=measures.superseded
        )
        yield CounterMetricFamily("advisor_wrong_tokens", "Wrong tokens given", value=measures.guesses)
        yield CounterMetricFamily("advisor_workers_killed", "Heavy requests killed", value=measures.heavy_killed)
        about = "The version that runs, as labels"
        yield InfoMetricFamily("advisor_build", about, {"version": __version__, "python": platform.python_version()})


def _histogram(name: str, about: str, histograms: Mapping[str, Histogram], label: str | None = None) -> Metric:
    family = HistogramMetricFamily(name, about, labels=[] if label is None else [label])
    for value, histogram in sorted(histograms.items()):
        family.add_metric([] if label is None else [value], histogram.cumulative(), histogram.total)
    return family
