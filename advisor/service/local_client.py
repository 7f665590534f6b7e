"""A client inside the service's process: asks the verbs as any other does, without a socket.

What the service offers beside its protocol is written on this: S-Net's resource server, the advice of autoscalers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from advisor.domain.limits import NETWORKS_MAX
from advisor.errors import AdvisorError
from advisor.protocol.columns import ConnectionNames
from advisor.protocol.connection import ClientConnection, Notice, RpcRequest
from advisor.service.access import OWNER
from advisor.service.hub import Hub


class LocalClient:
    """One client; it takes the place of a connection. `notify` takes each item of a notification."""

    grant, identity, names = OWNER, ("local", None), ConnectionNames()
    here, ended, reads, recorded = True, False, True, False
    number = 0  # connections are numbered from 1
    peer, path = "local", ("local", 0)
    watches_max = NETWORKS_MAX

    def __init__(self, hub: Hub, notify: Callable[[Mapping[str, Any]], object] = lambda _: None) -> None:
        self.heavy_jobs = 0
        self._hub, self._notify = hub, notify
        self._answers = ClientConnection()
        self._asked: dict[int | None, asyncio.Future[Any]] = {}
        self._last = 0

    async def ask(self, method: str, **params: Any) -> Any:
        """Return the answer of a verb; raises as that does."""
        self._last = msgid = (self._last + 1) % 2**32
        answer = self._asked[msgid] = asyncio.get_running_loop().create_future()
        try:
            data = self._hub.handle(cast("Any", self), RpcRequest(msgid, method, [params]))
            if data is not None:
                self.send_notification(data)
            return await answer
        finally:
            del self._asked[msgid]

    def send_notification(self, data: bytes) -> None:
        """Take in an answer or a notification, as a watch sends it to its owner."""
        for message in self._answers.receive_replies(data):
            if not isinstance(message, Notice):
                self.answer(message.msgid, message.error or message.result)
            else:
                for item in cast("list[Mapping[str, Any]]", message.params[0]):
                    self._notify(item)

    def release(self, answers: Iterable[bytes]) -> None:
        """Take in answers that had to wait."""
        for data in answers:
            self.send_notification(data)

    def answer(self, msgid: int | None, result: Any) -> None:
        """Take in the answer to a request."""
        asked = self._asked.get(msgid)
        if asked is None or asked.done():
            return
        if isinstance(result, AdvisorError):
            asked.set_exception(result)
        else:
            asked.set_result(result)
