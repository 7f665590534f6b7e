"""The live page: a document, a stream of events that all readers share, and questions about what is opened. GET only.

An open page holds one stream. Streams have a bound of their own, so that they take no place from health and metrics. What is
sent is made once a second, and only while somebody reads; whoever has not read it yet misses what newer news replace, and who
does not read at all is dropped by its connection (`http.UNREAD_S`). Every turn of the loop is short: one topic, one component.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from itertools import islice
from typing import Any

import anyio
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from advisor.domain.limits import NAME_BYTES_MAX
from advisor.domain.networks import Network, network_from_nodes
from advisor.errors import AdvisorError, InvalidValue, TooLarge, UnknownComponent, UnknownNetwork, not_one_of
from advisor.pictures import views
from advisor.pictures.board import board
from advisor.pictures.composed import composed
from advisor.pictures.profile_page import profile_page
from advisor.pictures.views import ORDERS
from advisor.profile.checkpoint import from_bytes
from advisor.profile.profiler import Profiler
from advisor.profile.view import profile_of
from advisor.service.explaining import sentences
from advisor.service.hub import Hub
from advisor.service.page_topics import PageTopics, as_json
from advisor.service.questions import is_small
from advisor.service.turns import others_first
from advisor.service.worker import network_of

STREAMS_MAX = 16  # open pages: a team's; each costs a connection and what its system has not read
TICK_S = 1.0  # between two news: people read no faster
SAMPLE_TICKS = 5  # ticks between samples of how predictions fare
RETRY_MS = 2_000  # until a browser connects again
CARDS_A_PAGE = 24
SEARCHED_INLINE = 2_048  # components searched in a turn, a millisecond; more of them are searched in a thread
ASKED_LETTERS = 400  # of a text that is searched, of a name
SENTENCES_REPORTED = 200
SENTENCE_LETTERS = 2_000
NETWORK_TEXT_MAX = 16 * 1024  # of a network that is drawn: beyond, its tree alone takes longer than a turn may
NETWORK_NODES_MAX = 1_000

STREAM = "/page/events"
DATA_HEADERS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
}
NOT_FOUND = (UnknownComponent, UnknownNetwork)
Question = Callable[[Request], Awaitable[Any]]


class LivePage:
    """The page of a service."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._shown = PageTopics(hub)
        self._topics: dict[str, tuple[int, bytes]] = {}  # by name: at which news it changed, and the frame
        self._version = 0
        self._news = anyio.Event()
        self._closed = False
        self.streams = 0
        document = board("Advisor", None)
        self._document = Response(
            document.html,
            media_type="text/html",
            headers={
                **DATA_HEADERS, "content-security-policy": f"{document.policy}; frame-ancestors 'none'",
                "referrer-policy": "no-referrer",
            },
        )  # fmt: skip

    def routes(self) -> list[tuple[str, Callable[[Request], Awaitable[Response]]]]:
        """Return paths and what answers them."""
        questions: dict[str, Question] = {
            "/page/components": self._components, "/page/component": self._component, "/page/network": self._network,
            "/page/answer": self._answer,
        }  # fmt: skip
        return [
            ("/", self._page),
            (STREAM, self._stream),
            ("/page/profile.html", self._profile_page),
            *((path, partial(_answered, question)) for path, question in questions.items()),
        ]

    # -- news

    async def run(self) -> None:
        """Make the news, as long as the service runs."""
        ticks = 0
        while True:
            await anyio.sleep(TICK_S)
            ticks += 1
            if ticks % SAMPLE_TICKS == 0:
                for _ in self._shown.trend.sample(self._shown.uptime_s):
                    await others_first()
            if self.streams:
                await self._make()

    def close(self) -> None:
        """End all streams now."""
        self._closed = True
        self._news.set()

    async def _make(self) -> None:
        for name, data in self._shown.topics():
            before = self._topics.get(name)
            frame = b"event: %b\ndata: %b\n\n" % (name.encode(), data)
            if before is None or before[1] != frame:
                self._topics[name] = self._version + 1, frame
            await others_first()
        self._version += 1
        self._news.set()
        self._news = anyio.Event()

    async def follow(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Send news to one reader until the service stops; raises Unavailable where too many read."""
        if not self._version or self.streams == 1:
            await self._make()  # nobody read before: what is there is old
        await send(b"retry: %d\n\n" % RETRY_MS)
        seen = 0
        while not self._closed:
            news, now = self._news, self._version
            frames = [frame for version, frame in self._topics.values() if seen < version <= now]
            seen = now
            if frames:
                await send(b"".join(frames))
            if now == self._version and not self._closed:
                await news.wait()
        await send(b"event: stopping\ndata: {}\n\n")

    # -- answers

    async def _page(self, _: Request) -> Response:
        return self._document

    async def _stream(self, request: Request) -> Response:
        refused = _foreign(request)
        return refused or Stream(self)

    async def _components(self, request: Request) -> Any:
        text, order = _text(request, "find"), _text(request, "order") or ORDERS[0]
        if order not in ORDERS:
            raise not_one_of("order", order, ORDERS)
        page = _number(request, "page")
        advisor = self._hub.engine.advisor
        search = partial(views.found, advisor, text, order, len(advisor.components.slots.names))
        small = len(advisor.components.slots.names) <= SEARCHED_INLINE
        slots = search() if small else await to_thread.run_sync(search)
        pages = max(1, -(-len(slots) // CARDS_A_PAGE))
        page = min(page, pages - 1)
        cards: list[dict[str, Any]] = []
        shown: list[int] = slots[page * CARDS_A_PAGE : (page + 1) * CARDS_A_PAGE].tolist()
        for slot in shown:
            cards.append(views.card(advisor, advisor.components.slots.owner(slot)))
            await others_first()
        known = len(advisor.components.slots.components)
        return {"known": known, "found": len(slots), "page": page, "pages": pages, "cards": cards}

    async def _component(self, request: Request) -> Any:
        return views.view(self._hub.engine.advisor, _text(request, "name"))

    async def _network(self, request: Request) -> Any:
        name, answer = _text(request, "name") or None, _text(request, "answer") or None
        given, kept = self._shown.network(name, answer)
        allocation = kept.allocation if kept is not None else None
        network = await self._read(given)
        reported = composed(network, allocation, kept.request if kept is not None else None)
        reported["network"] = name
        reported["text"] = given[:NETWORK_TEXT_MAX] if isinstance(given, str) else None
        if kept is not None:
            reported["answer"] = {
                "id": kept.id, "at": kept.at,
                **{key: kept.allocation.get(key) for key in ("cores_used", "spare", "throughput_per_s", "latency_s")},
            }  # fmt: skip
        return reported

    async def _read(self, given: Any) -> Network:
        size, most = len(given), NETWORK_TEXT_MAX if isinstance(given, str) else NETWORK_NODES_MAX
        if size > most:
            raise TooLarge("network", size, most, "it is too large to be drawn")
        if not is_small(given):
            return await self._hub.heavy.run(network_of, given)
        return self._hub.engine.advisor.network(given) if isinstance(given, str) else network_from_nodes(given)

    async def _answer(self, request: Request) -> Any:
        kept = self._hub.planner.answers.find_answer(_text(request, "id"))
        said = [
            sentence[:SENTENCE_LETTERS]
            for sentence in islice(sentences(kept.allocation, kept.request, kept.network), SENTENCES_REPORTED)
        ]
        return {"sentences": said}

    async def _profile_page(self, request: Request) -> Response:
        incarnation = _text(request, "incarnation")
        try:
            key = bytes.fromhex(incarnation) if incarnation else None
            reported, data = await self._hub.backend.profile(_text(request, "producer"), key)
        except AdvisorError as error:
            return _error(error)
        except ValueError:
            return _error(InvalidValue("incarnation", incarnation, "hexadecimal digits"))
        html = await to_thread.run_sync(
            lambda: profile_page(reported["producer"], profile_of(from_bytes(data, Profiler())))
        )
        return Response(html, media_type="text/html", headers=DATA_HEADERS)


class Stream(Response):
    """A stream of events to one reader."""

    def __init__(self, page: LivePage) -> None:
        super().__init__()
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the reader is gone or the service stops; refuse it where there are too many."""
        page = self._page
        if page.streams >= STREAMS_MAX or scope["method"] == "HEAD":
            words = f"{STREAMS_MAX} live pages are open, as many as may be; close one\n"
            status = 200 if scope["method"] == "HEAD" else 503
            refusal = Response(words, status, {**DATA_HEADERS, "retry-after": str(RETRY_MS // 1000)}, "text/plain")
            await refusal(scope, receive, send)
            return

        async def write(data: bytes) -> None:
            await send({"type": "http.response.body", "body": data, "more_body": True})

        async def until_gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        headers = {**DATA_HEADERS, "content-type": "text/event-stream; charset=utf-8"}
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        page.streams += 1
        try:
            await send({"type": "http.response.start", "status": 200, "headers": raw})
            async with anyio.create_task_group() as group:
                group.start_soon(until_gone)
                await page.follow(write)
                group.cancel_scope.cancel()
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            page.streams -= 1


async def _answered(question: Question, request: Request) -> Response:
    """Return a question's answer as JSON, or why there is none."""
    refused = _foreign(request)
    if refused is not None:
        return refused
    try:
        return Response(as_json(await question(request)), media_type="application/json", headers=DATA_HEADERS)
    except AdvisorError as error:
        return _error(error)


def _error(error: AdvisorError) -> Response:
    body = as_json({"error": str(error), "code": error.code})
    status = 404 if isinstance(error, NOT_FOUND) else 400
    return Response(body, status, media_type="application/json", headers=DATA_HEADERS)


def _foreign(request: Request) -> Response | None:
    """Turn away what another site's page asks: it could not read the answer, but take a place."""
    if request.headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return None
    return Response("only this page may ask that\n", 403, media_type="text/plain")


def _text(request: Request, name: str) -> str:
    value = request.query_params.get(name, "")
    if len(value) > max(ASKED_LETTERS, NAME_BYTES_MAX):
        raise TooLarge(name, len(value), ASKED_LETTERS)
    return value


def _number(request: Request, name: str) -> int:
    value = _text(request, name) or "0"
    if not value.isdecimal() or len(value) > 9:
        raise InvalidValue(name, value, "a whole number from 0")
    return int(value)
