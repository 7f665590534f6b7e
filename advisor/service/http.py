"""The service's face to Prometheus, to whoever asks whether it lives, and to people: GET only, nothing changes by it."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import ipaddress
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from email.utils import formatdate
from typing import Any, cast

import anyio
import uvicorn
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from advisor.service.access import digest
from advisor.service.advice import AdviceFace
from advisor.service.hub import Hub
from advisor.service.metrics import HubCollector
from advisor.service.page import LivePage

CONNECTIONS_MAX = 64  # at a time: a Prometheus or two, probes, a few people; who waits longest gives way to a newcomer
KEEP_ALIVE_S = 75  # above Prometheus' usual scrape interval, so that it keeps its connection
# The system buffers so much of what a peer does not read, besides 64 KiB of our own: its default is up to 4 MiB, a hundred
# answers to pipelined requests.
UNREAD_BYTES = 2**17
METRICS_AGE_S = 0.5  # a rendering is sent again for so long: many readers that never wait cost little
CLOSE_S = 2  # for requests that run when the service stops


class Guard:
    """Answers a request in a turn of its peer, if its Host is ours and it shows a token where one is needed.

    However many connections a peer has, others go between. A web page must not reach a local service by DNS tricks. A browser
    asks its user for the token, and sends it as a password; `/healthz` needs none.
    """

    def __init__(self, app: ASGIApp, hub: Hub) -> None:
        self._app, self._hub = app, hub
        self._hosts = {"localhost", *hub.config.http_hosts}
        self._asks_token = hub.config.http_guarded and hub.access.asks_token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, then pass on."""
        if scope["type"] == "http":
            await self._hub.turns.await_turn(("http", (scope["client"] or ("",))[0]))
            headers = dict(scope["headers"])
            refusal: Response | None = None
            if not self._ours(headers.get(b"host", b"").decode("latin-1")):
                refusal = PlainTextResponse("this Host is not served here\n", status_code=421)
            elif self._asks_token and scope["path"] != "/healthz":
                refusal = await self._without_token(scope, _token(headers.get(b"authorization", b"")))
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _ours(self, host: str) -> bool:
        name = host.lower()
        name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
        if name in self._hosts:
            return True
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(name)  # an address cannot be made to point elsewhere
            return True
        return False

    async def _without_token(self, scope: Scope, token: bytes) -> Response | None:
        """Return how a request without a good token is refused: late, and at the end of its connection, after a wrong one."""
        if token and self._hub.access.grant(("token", digest(token))) is not None:
            return None
        of_page = scope["path"] == "/" or scope["path"].startswith("/page/")
        asked = 'Basic realm="Advisor: the token as password"' if of_page else "Bearer"
        refusal = PlainTextResponse("a token is needed\n", 401, {"www-authenticate": asked})
        if token:
            refusal.headers["connection"] = "close"
            scope["state"]["connection"].gives_way()
            await self._hub.guessed(scope["client"])
        return refusal


def _token(authorization: bytes) -> bytes:
    """Return the token of a header: of ``Bearer``, or the password of ``Basic``; empty where there is none."""
    kind, _, given = authorization.partition(b" ")
    if kind.lower() == b"basic":
        with contextlib.suppress(binascii.Error):
            return base64.b64decode(given.strip(), validate=True).partition(b":")[2].strip()
    return given.strip() if kind.lower() == b"bearer" else b""


def application(hub: Hub, page: LivePage, advice: AdviceFace, shown: Sequence[Any] = ()) -> ASGIApp:
    """Return the HTTP application of a service; `shown` has more metrics to collect."""
    registry = CollectorRegistry(auto_describe=False)
    for collector in (HubCollector(hub), advice, *shown):
        registry.register(collector)
    ProcessCollector(registry=registry)  # process_*: memory, processor time, descriptors, start

    rendered: dict[str, tuple[float, bytes]] = {}  # by content type: when, and the text

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        now = time.monotonic()
        if content_type not in rendered or now - rendered[content_type][0] >= METRICS_AGE_S:
            rendered[content_type] = now, encode(registry)
        return Response(rendered[content_type][1], headers={"content-type": content_type})

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("alive\n")

    async def readyz(_: Request) -> Response:
        failure = hub.committer.check_storage()
        if hub.background.stopping:
            return PlainTextResponse("stopping\n", status_code=503)
        if failure is not None:
            return PlainTextResponse(f"storage failed: {failure}\n", status_code=503)
        return PlainTextResponse("ready\n")

    routes: list[tuple[str, Callable[[Request], Awaitable[Response]]]] = [
        ("/metrics", metrics),
        ("/advice/{network:path}", advice.answer),
        ("/healthz", healthz),
        ("/readyz", readyz),
        *page.routes(),
    ]
    return Guard(Starlette(routes=[Route(path, endpoint, methods=["GET"]) for path, endpoint in routes]), hub)


class HttpConnection(H11Protocol):
    """An HTTP connection, which may idle between requests, and within one, as long as nobody else needs its place.

    At the limit whoever has kept us waiting longest gives way to a newcomer: for a request, or for the reading of an answer.
    """

    _since = 0.0  # when its peer did something last, or got an answer
    _slow = False  # its answer is held back

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a peer in."""
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNREAD_BYTES)
        super().connection_made(cast("asyncio.Transport", transport))
        self.app_state["connection"] = self
        self._since = self.loop.time()
        others = [each for each in _all(self.server_state) if not each.transport.is_closing()]
        if len(others) > CONNECTIONS_MAX:
            min((each for each in others if each.waits), key=lambda each: each._since).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of the peer."""
        self.app_state.clear()
        super().connection_lost(exc)

    @property
    def waits(self) -> bool:
        """False while we work on an answer: were all to wait for us, the newcomer would be the one to go."""
        return self._slow or self.flow.write_paused or not self.cycle or self.cycle.response_complete

    def gives_way(self) -> None:
        """Its request is answered late: in a crowd it goes before a newcomer does."""
        self._slow = True

    def data_received(self, data: bytes) -> None:
        """Take in what was read."""
        self.server_state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        super().data_received(data)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._since = self.loop.time()
        super().on_response_complete()


def _all(state: ServerState) -> list[HttpConnection]:
    return [cast("HttpConnection", each) for each in state.connections]


class HttpFace:
    """The HTTP server, on the service's own event loop."""

    def __init__(self, hub: Hub, shown: Sequence[Any] = ()) -> None:
        self.page = LivePage(hub)
        flows = hub.engine.advisor.components.flows
        self.advice = AdviceFace(
            hub, hub.config.advise, lambda: {name: flows.defined(name) for name in flows.known if flows.keeps(name)}
        )  # fmt: skip
        options: dict[str, Any] = {"log_config": None, "log_level": "warning", "access_log": False}
        self._config = uvicorn.Config(
            application(hub, self.page, self.advice, shown),
            lifespan="off",
            ws="none",
            timeout_keep_alive=KEEP_ALIVE_S,
            **options,
        )
        self._state = ServerState()

    def connection(self) -> HttpConnection:
        """Return a new connection."""
        return HttpConnection(self._config, self._state, {})

    async def stop(self) -> None:
        """Answer what runs, for CLOSE_S at most, and close; whoever listens has stopped accepting."""
        for connection in _all(self._state):
            connection.shutdown()
        with anyio.move_on_after(CLOSE_S):
            await asyncio.gather(*self._state.tasks, return_exceptions=True)
        for connection in _all(self._state):
            connection.transport.abort()
