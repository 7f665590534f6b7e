"""What the synchronous client asks a service: the verbs of `AsyncQuestions`, each done in the client's thread."""

from __future__ import annotations

import queue
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from advisor.client.watching import ADVICE_KEPT, SyncWatch
from advisor.domain.advice import Advice
from advisor.domain.answers import Allocation, CoreChoice, Curves, Prediction, Suggestion
from advisor.domain.flows import Flow
from advisor.domain.runs import RunPrediction
from advisor.domain.sharing import Together

if TYPE_CHECKING:
    from advisor.client.aio import AsyncClient

Answer = TypeVar("Answer")


class SyncQuestions(ABC):
    """The verbs of `SyncClient` that wait for their answer; each as the verb of `AsyncClient` of its name.

    Raises
    ------
    AdvisorError
        Of any of them: what the service refused, or why it did not answer (`ConnectionFailed`, `Unavailable`).
    """

    @abstractmethod
    def _run(self, work: Callable[[AsyncClient], Awaitable[Answer]]) -> Answer:
        """Do `work` in the client's thread, and return its answer."""

    @abstractmethod
    def _after_rows(
        self, change: Callable[[AsyncClient], Awaitable[dict[str, Any]]], timeout_s: float | None
    ) -> dict[str, Any]:
        """Make a numbered call behind the rows that are queued."""

    def hello(self, *, timeout_s: float | None = None) -> dict[str, Any]:
        """Return the service's version, limits and features."""
        return self._run(lambda client: client.hello(timeout_s=timeout_s))

    def predict(
        self, component: str, predictor: Any = None, cores: Any = 1, *,
        timeout_s: float | None = None, **asked: Any,
    ) -> Prediction:  # fmt: skip
        """Return the elapsed time to expect, or a measure. As `AsyncClient.predict`."""
        return self._run(lambda client: client.predict(component, predictor, cores, timeout_s=timeout_s, **asked))

    def choose_cores(
        self, component: str, predictor: Any = None, *, cores_max: int, timeout_s: float | None = None, **asked: Any
    ) -> CoreChoice:
        """Return the cores for one invocation. As `AsyncClient.choose_cores`."""
        return self._run(
            lambda client: client.choose_cores(component, predictor, cores_max=cores_max, timeout_s=timeout_s, **asked)
        )

    def suggest(
        self, component: str, predictor: Any = None, cores: float | None = None, *,
        timeout_s: float | None = None, **asked: Any,
    ) -> list[Suggestion]:  # fmt: skip
        """Return which (predictor, cores) to run next. As `AsyncClient.suggest`."""
        return self._run(lambda client: client.suggest(component, predictor, cores, timeout_s=timeout_s, **asked))

    def allocate(
        self, network: Any, cores: int | None = None, *, objective: str | None = None, target: Any = None,
        timeout_s: float | None = None, **more: Any,
    ) -> Allocation:  # fmt: skip
        """Return cores for each component of a network. As `AsyncClient.allocate`."""
        return self._run(
            lambda client: client.allocate(
                network, cores, objective=objective, target=target, timeout_s=timeout_s, **more
            )
        )

    def allocate_together(
        self, networks: Sequence[Mapping[str, Any]], cores: int, *, timeout_s: float | None = None, **asked: Any
    ) -> Together:
        """Return what each of several networks gets of one machine's cores. As `AsyncClient.allocate_together`."""
        return self._run(lambda client: client.allocate_together(networks, cores, timeout_s=timeout_s, **asked))

    def watch(
        self, network: Any, cores: int | None = None, *, told: Callable[[Advice], None] | None = None,
        timeout_s: float | None = None, **asked: Any,
    ) -> SyncWatch:  # fmt: skip
        """Watch a network. As `AsyncClient.watch`; `told` is called in the client's thread."""
        news: queue.SimpleQueue[Advice | None] = queue.SimpleQueue()

        def tell(advice: Advice) -> None:
            if news.qsize() < ADVICE_KEPT:
                news.put(advice)
            if told is not None:
                told(advice)

        watch = self._run(lambda client: client.watch(network, cores, told=tell, timeout_s=timeout_s, **asked))
        return SyncWatch(self, watch, news)

    def explain(self, id: str, *, replay: bool = False, timeout_s: float | None = None) -> dict[str, Any]:  # noqa: A002
        """Return why an answer was as it was. As `AsyncClient.explain`."""
        return self._run(lambda client: client.explain(id, replay=replay, timeout_s=timeout_s))

    def run(self, work: Callable[[AsyncClient], Awaitable[Answer]]) -> Answer:
        """Do `work` with the asynchronous client, in its thread, and return its answer."""
        return self._run(work)

    def curves(
        self, components: Sequence[str] | None = None, *, watch: Callable[[Curves], None] | None = None,
        timeout_s: float | None = None, **asked: Any,
    ) -> Curves:  # fmt: skip
        """Return the curves of components as a bundle. As `AsyncClient.curves`; `watch` is called in the client's thread."""
        return self._run(lambda client: client.curves(components, watch=watch, timeout_s=timeout_s, **asked))

    def unwatch_curves(self, *, timeout_s: float | None = None) -> None:
        """Take no more pushes of curves."""
        self._run(lambda client: client.unwatch_curves(timeout_s=timeout_s))

    def define_network(
        self,
        network: Any,
        *,
        id: int | str | None = None,  # noqa: A002
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        """Keep a network by id. As `AsyncClient.define_network`."""
        return self._run(lambda client: client.define_network(network, id=id, timeout_s=timeout_s))

    def flow(self, network: int | str, *, timeout_s: float | None = None) -> Flow:
        """Return what rows have told of the flow of records through a network. As `AsyncClient.flow`."""
        return self._run(lambda client: client.flow(network, timeout_s=timeout_s))

    def simulate(
        self, graph: Any, cores: int | Sequence[int] = 1, *, timeout_s: float | None = None, **asked: Any
    ) -> dict[str, Any]:
        """Return what executing a task graph would take. As `AsyncClient.simulate`."""
        return self._run(lambda client: client.simulate(graph, cores, timeout_s=timeout_s, **asked))

    def status(
        self, components: bool | Sequence[str] = False, *, offset: int = 0, limit: int | None = None,
        timeout_s: float | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Return totals, producers and, page by page, components."""
        return self._run(lambda client: client.status(components, offset=offset, limit=limit, timeout_s=timeout_s))

    def forget(self, component: str, *, keep: float = 0.0, timeout_s: float | None = None) -> dict[str, Any]:
        """Weaken what was learned of a component, after the rows taken so far, exactly once."""
        return self._after_rows(lambda client: client.forget(component, keep=keep, timeout_s=timeout_s), timeout_s)

    def forget_program(self, program: str, *, timeout_s: float | None = None) -> dict[str, Any]:
        """Forget a whole program, after the rows taken so far, exactly once. As `AsyncClient.forget_program`."""
        return self._after_rows(lambda client: client.forget_program(program, timeout_s=timeout_s), timeout_s)

    def forget_profile(
        self, producer: str, *, incarnation: bytes | None = None, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Forget the profiles of a producer's runs, exactly once. As `AsyncClient.forget_profile`."""
        return self._after_rows(
            lambda client: client.forget_profile(producer, incarnation=incarnation, timeout_s=timeout_s), timeout_s
        )

    def pin(self, component: str, model: str | None, *, timeout_s: float | None = None) -> dict[str, Any]:
        """Hold a component to a model, after the rows taken so far, exactly once. As `AsyncClient.pin`."""
        return self._after_rows(lambda client: client.pin(component, model, timeout_s=timeout_s), timeout_s)

    def task_events(self, records: Any, *, timeout_s: float | None = None, **header: Any) -> dict[str, Any]:
        """Send task events, after the rows taken so far, exactly once. As `AsyncClient.task_events`."""
        return self._after_rows(lambda client: client.task_events(records, timeout_s=timeout_s, **header), timeout_s)

    def profile(self, producer: str | None = None, *, timeout_s: float | None = None, **asked: Any) -> dict[str, Any]:
        """Return the profile of a producer's newest run. As `AsyncClient.profile`."""
        return self._run(lambda client: client.profile(producer, timeout_s=timeout_s, **asked))

    def observe_run(self, program: str, *, size: float, timeout_s: float | None = None, **run: Any) -> dict[str, Any]:
        """Teach one run of a whole program, after the rows taken so far, exactly once. As `AsyncClient.observe_run`."""
        return self._after_rows(
            lambda client: client.observe_run(program, size=size, timeout_s=timeout_s, **run), timeout_s
        )

    def predict_run(
        self, program: str, *, size: Any, workers: Any, level: float | None = None, model: str | None = None,
        timeout_s: float | None = None,
    ) -> RunPrediction:  # fmt: skip
        """Predict runs of a whole program. As `AsyncClient.predict_run`."""
        return self._run(
            lambda client: client.predict_run(
                program, size=size, workers=workers, level=level, model=model, timeout_s=timeout_s
            )
        )
