"""pynvim's MessagePack-RPC session, run as a program of its own: learns and asks, prints what it heard as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from live import rows_of
from pynvim.msgpack_rpc import socket_session


def talk(path: str) -> dict[str, Any]:
    session = socket_session(path)
    heard: dict[str, Any] = {"hello": session.request("hello", {"producer": "editor", "incarnation": bytes(16)})}
    heard["receipt"] = session.request("observe_rows", {"producer": "editor", "sequence": 1, "rows": rows_of(90)})
    session.request("observe", "c0", 1.0, 1.0, 0.01, async_=True)  # a notification
    heard["predict"] = session.request("predict", "c0", 4.0, 2)
    heard["choice"] = session.request("choose_cores", {"component": "c0", "predictor": 4.0, "cores_max": 8})
    heard["plan"] = session.request("allocate", {"network": "c0 .. c1 .. c2", "cores": 12})
    try:
        session.request("predict", "nobody", 1, 1)
    except Exception as error:  # what it raises is its own affair
        heard["error"] = repr(error)
    heard["status"] = session.request("status", {})
    return heard


if __name__ == "__main__":
    print(json.dumps(talk(sys.argv[1])))
