"""The live page: a document, news that it asks for once a second, and questions about what is opened. GET only.

News are made once a second for all readers, and only while somebody asks. Every turn of the loop is short: one topic, one
component.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response

from advisor import __version__
from advisor.domain.json_bytes import as_json
from advisor.domain.limits import NAME_BYTES_MAX
from advisor.errors import AdvisorError, InvalidValue, TooLarge, UnknownComponent, UnknownNetwork
from advisor.pictures import views
from advisor.pictures.pages import board
from advisor.service.hub import Hub
from advisor.service.turns import others_first

NEWS_AGE_S = 1.0  # news are sent again for so long: people read no faster
ROWS_A_PAGE = 24
ASKED_LETTERS = 400  # of a text that is searched, of a name
NUMBER_DIGITS_MAX = 12  # of a page, or of a version: seconds since 1970, and then one a second

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
        self._began = time.monotonic()
        self._topics: dict[str, tuple[int, bytes]] = {}  # by name: at which version it changed, and its JSON
        self._version = int(time.time())  # greater than any that a service before this one gave
        self._made_at = -NEWS_AGE_S
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
            "/page/components": self._components, "/page/component": self._component, "/page/news": self._news,
        }  # fmt: skip
        return [("/", self._page), *((path, partial(_answered, question)) for path, question in questions.items())]

    # -- news

    async def _news(self, request: Request) -> bytes:
        """Return the topics that changed since a version, which the answer before has named."""
        now = time.monotonic()
        if now - self._made_at >= NEWS_AGE_S:
            self._made_at = now
            await self._make()
        since = _number(request, "since")
        fresh = (b'"%b":%b' % (name.encode(), topic) for name, (at, topic) in self._topics.items() if at > since)
        return b'{"version":%d,"topics":{%b}}' % (self._version, b",".join(fresh))

    async def _make(self) -> None:
        for name, found in (("now", self._now), ("answers", self._answers)):
            topic = as_json(found())
            if (before := self._topics.get(name)) is None or before[1] != topic:
                self._topics[name] = self._version + 1, topic
            await others_first()
        self._version += 1

    def _now(self) -> dict[str, Any]:
        hub = self._hub
        health, (known, most, *_, ledger) = hub.health(), hub.backend.held()
        return {
            "version": __version__, "at": time.time(), "uptime_s": round(time.monotonic() - self._began, 1),
            "counts": {"rows_accepted": int(hub.engine.advisor.components.totals["rows_accepted"])},
            "rows_per_s": health["rows_per_s"], "components": known, "components_max": most,
            "coverage": ledger["covered"] / ledger["scores"] if ledger["scores"] else None,
            "health": {key: health[key] for key in (
                "producers", "producers_live", "storage", "storage_failure", "stopping", "commits", "commit_mean_s",
            )},
            "socket": None if hub.config.socket is None else str(hub.config.socket),
        }  # fmt: skip

    def _answers(self) -> dict[str, Any]:
        answers = self._hub.planner.answers
        return {
            "answers": answers.newest(),
            "choices": answers.choices(),
        }

    # -- answers

    async def _page(self, _: Request) -> Response:
        return self._document

    async def _components(self, request: Request) -> Any:
        text, page = _text(request, "find"), _number(request, "page")
        advisor = self._hub.engine.advisor
        search = partial(views.found, advisor, text, len(advisor.components.slots.names))
        slots = await to_thread.run_sync(search)
        pages = max(1, -(-len(slots) // ROWS_A_PAGE))
        page = min(page, pages - 1)
        rows: list[dict[str, Any]] = []
        shown: list[int] = slots[page * ROWS_A_PAGE : (page + 1) * ROWS_A_PAGE].tolist()
        for slot in shown:
            rows.append(views.row(advisor, advisor.components.slots.owner(slot)))
            await others_first()
        known = len(advisor.components.slots.components)
        return {"known": known, "found": len(slots), "page": page, "pages": pages, "rows": rows}

    async def _component(self, request: Request) -> Any:
        return views.view(self._hub.engine.advisor, _text(request, "name"))


async def _answered(question: Question, request: Request) -> Response:
    """Return a question's answer as JSON, or why there is none."""
    refused = _foreign(request)
    if refused is not None:
        return refused
    status = 200
    try:
        found = await question(request)
    except AdvisorError as error:
        found, status = {"error": str(error), "code": error.code}, 404 if isinstance(error, NOT_FOUND) else 400
    body = found if isinstance(found, bytes) else as_json(found)
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
    if not value.isdecimal() or len(value) > NUMBER_DIGITS_MAX:
        raise InvalidValue(name, value, "a whole number from 0")
    return int(value)
