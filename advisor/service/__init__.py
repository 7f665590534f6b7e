"""The service: listeners, HTTP, metrics, the clock, and the wiring of storage to the engine.

Names are handed out lazily: a worker process needs none of the servers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor import handing_out

if TYPE_CHECKING:
    from advisor.service.config import SETTINGS, Config, load_config
    from advisor.service.option_types import Address
    from advisor.service.server import Bound, run, serve

__all__ = ["SETTINGS", "Address", "Bound", "Config", "load_config", "run", "serve"]

__getattr__ = handing_out(
    __name__,
    {
        **dict.fromkeys(("SETTINGS", "Config", "load_config"), "advisor.service.config"),
        **dict.fromkeys(("Bound", "run", "serve"), "advisor.service.server"),
        "Address": "advisor.service.option_types",
    },
)
