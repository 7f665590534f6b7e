"""A client inside the service's process: asks the verbs as any other does, without a socket and its bytes.

What the service offers beside its protocol is written on this: S-Net's resource server, the advice of autoscalers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from advisor.domain.limits import NETWORKS_MAX
from advisor.service.connection import Connection
from advisor.service.hub import Hub


class LocalClient:
    """One client; handlers have it in the place of a connection. `notify` takes each item of a notification."""

    ended, reads = False, True
    number = 0  # connections are numbered from 1
    path = ("local", 0)
    watches_max = NETWORKS_MAX

    def __init__(self, hub: Hub, notify: Callable[[Mapping[str, Any]], object] = lambda _: None) -> None:
        self._hub = hub
        self.send_notification = notify

    async def ask(self, method: str, **params: Any) -> Any:
        """Return what a verb answers; raises as that does."""
        return await self._hub.ask(cast("Connection", self), method, params)
