"""Legal questions, and texts that readers take: what mutation begins with."""

from __future__ import annotations

from typing import Any

import numpy as np
from lives_events import NETWORK

QUESTIONS: list[tuple[str, dict[str, Any] | list[Any]]] = [
    ("define_network", {"id": "one", "text": NETWORK}), ("forget", {"program": "p1"}),
    ("hello", {"producer": "p", "incarnation": bytes(16)}), ("names", [0, ["a", "b"]]),
    ("observe", ["c0", 2.0, 2, 0.5]),
    ("predict", {"component": "c0", "predictor": [1, 2, 3.5], "cores": [1, 2, 4], "level": 0.8, "machine": "m1"}),
    ("choose_cores", {"component": "c1", "predictor": 3, "cores_max": 16, "explore": True}),
    ("choose_together", {"jobs": [{"id": 1, "component": "c1", "allowed": [1, 4], "cores_now": 1}], "cores": 8}),
    ("suggest", {"component": "c2", "cores_max": 8}), ("status", {"components": ["c1"], "offset": 0, "limit": 5}),
    ("allocate", {"network": NETWORK, "cores": 8, "objective": "latency", "arrival_per_s": 2.0, "evidence": True}),
    ("allocate", {"network": [{"kind": "series", "children": [1]}, {"kind": "box", "name": "c0"}], "cores": 4}),
    ("allocate_together", {"networks": [{"network": "c0 .. c1", "weight": 2}, {"network": "c2"}], "cores": 8}),
    ("watch", {"network": NETWORK, "cores": 4}), ("unwatch", {"watch": 1}),
    ("curves", {"components": ["c0", "c1"], "cores_max": 16, "since": 1}), ("flow", {"network": NETWORK}),
    ("simulate", {"graph": {"times": np.ones(3).tobytes(), "edges": np.array([0, 1], "<u4").tobytes()}, "cores": [1, 2]}),
    ("profile", {"producer": "run-5", "nodes": True, "diagnosis": True}),
    ("predict_run", {"program": "program-1", "size": [3, 4], "workers": [1, 2]}),
]  # fmt: skip
TEXTS: dict[str, list[str]] = {
    "network": ["a .. b .. (c | d)", "net x ({a}->{b}) { box f ((a)->(b)); } connect f .. g*{b} .. h!<t>;",
                '{"components": ["a"]}'],
    "table": ["component,x,p,t,machine,x2,peak_bytes\na,1,2,0.5,m1,3,1e6\nb;2,1,\n",
              "component;predictor;cores;elapsed_s\na;1;1;1\n"],
    "graph.json": ['{"unit": "ms", "tasks": [{"name": "a", "time": 1}, {"name": "b", "time": 2, "after": ["a"]}]}'],
    "configuration": ['tcp = "127.0.0.1:7000"\nmodel_memory = 1_073_741_824\n',
                      '[[token]]\nname = "a"\nsecret = "0123456789abcdef"\nscope = "write"\nproducers = ["a.*"]\n'],
    "snet_logs": ["1 box f[0]/i1/2\0@1.5 0 1 2 3\n"],
}  # fmt: skip
