"""The service's face to Prometheus and to whoever asks whether it lives: GET only, nothing changes by it."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import anyio
import uvicorn
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from advisor.service.hub import Hub
from advisor.service.metrics import HubCollector

CONCURRENT_MAX = 32  # requests at a time; more are turned away with 503
KEEP_ALIVE_S = 75  # above Prometheus' usual scrape interval, so that it keeps its connection
CLOSE_S = 2  # for requests that run when the service stops


class HostCheck:
    """Turns away requests whose Host is a foreign name: a web page must not reach a local service by DNS tricks."""

    def __init__(self, app: ASGIApp, allowed: tuple[str, ...]) -> None:
        self._app = app
        self._allowed = {"localhost", *allowed}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, then pass on."""
        if scope["type"] == "http" and not self._good(dict(scope["headers"]).get(b"host", b"").decode("latin-1")):
            await PlainTextResponse("this Host is not served here\n", status_code=421)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _good(self, host: str) -> bool:
        name = host.lower()
        name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
        if name in self._allowed:
            return True
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(name)  # an address cannot be made to point elsewhere
            return True
        return False


def application(hub: Hub) -> ASGIApp:
    """Return the HTTP application of a service."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(HubCollector(hub))

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"content-type": content_type})

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("alive\n")

    async def readyz(_: Request) -> Response:
        failure = hub.committer.failure
        if hub.stopping:
            return PlainTextResponse("stopping\n", status_code=503)
        if failure is not None:
            return PlainTextResponse(f"storage failed: {failure}\n", status_code=503)
        return PlainTextResponse("ready\n")

    routes: list[tuple[str, Callable[[Request], Awaitable[Response]]]] = [
        ("/metrics", metrics),
        ("/healthz", healthz),
        ("/readyz", readyz),
    ]
    app = Starlette(routes=[Route(path, endpoint, methods=["GET"]) for path, endpoint in routes])
    return HostCheck(app, hub.config.http_hosts)


class _Server(uvicorn.Server):
    """Uvicorn without signal handlers: signals are the service's own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class HttpFace:
    """The HTTP server, run inside the service's own task group."""

    def __init__(self, hub: Hub, sockets: list[socket.socket]) -> None:
        self._sockets = sockets
        self._ended = anyio.Event()
        options: dict[str, Any] = {
            "lifespan": "off",
            "log_config": None,
            "log_level": "warning",
            "access_log": False,
            "server_header": False,
        }
        self._server = _Server(
            uvicorn.Config(
                application(hub),
                http="h11",
                ws="none",
                loop="none",
                limit_concurrency=CONCURRENT_MAX,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=CLOSE_S,
                **options,
            )
        )

    async def run(self) -> None:
        """Serve until `stop`."""
        try:
            await self._server.serve(sockets=self._sockets)
        finally:
            self._ended.set()

    async def stop(self) -> None:
        """Stop accepting, answer what runs, for CLOSE_S at most."""
        self._server.should_exit = True
        with anyio.move_on_after(CLOSE_S):
            await self._ended.wait()
