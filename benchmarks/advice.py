"""Time of `GET /advice/NETWORK` with 1000 networks, at rest and while rows come and all are planned anew; beside `/healthz`.

python benchmarks/advice.py [--networks 1000] [--polls 4000]
"""

from __future__ import annotations

import argparse
import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from advisor.client import SyncClient

BOXES = 3  # of each network, its own


def rows(networks: int, rng: np.random.Generator) -> list[list[object]]:
    return [
        [f"n{n}_{box}", 1.0, float(p), (0.1 * (1 + box) / p + 0.02) * float(np.exp(0.05 * rng.standard_normal()))]
        for n in range(networks)
        for box in range(BOXES)
        for p in (1, 2, 4, 8)
    ]


def poll(address: str, paths: list[str], polls: int, state: str) -> list[float]:
    """Return the seconds of each poll, one connection, at a tenth of what it could bear."""
    connection = http.client.HTTPConnection(address)
    took: list[float] = []
    for i in range(polls):
        began = time.perf_counter()
        connection.request("GET", paths[i % len(paths)])
        answer = connection.getresponse()
        body = answer.read()
        took.append(time.perf_counter() - began)
        assert not state or json.loads(body)["state"] == state, body
        time.sleep(min(9 * took[-1], 0.01))
    return took


def reported(words: str, took: list[float]) -> None:
    p50, p99 = (1e3 * float(np.quantile(took, q)) for q in (0.5, 0.99))
    print(f"{words:42s} p50 {p50:6.2f} ms   p99 {p99:6.2f} ms   most {1e3 * max(took):6.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", type=int, default=1000)
    parser.add_argument("--polls", type=int, default=4000)
    asked = parser.parse_args()
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s"
        command = [sys.executable, "-m", "advisor.cli", "serve", "--socket", str(path), "--http", "127.0.0.1:0"]
        service = subprocess.Popen([*command, "--advise", "*=cores:16"], stderr=subprocess.PIPE, text=True)
        try:
            assert service.stderr is not None
            address = json.loads(service.stderr.readline())["http"]
            threading.Thread(target=service.stderr.read, daemon=True).start()
            with SyncClient(str(path)) as client:
                for n in range(asked.networks):
                    client.define_network(" .. ".join(f"n{n}_{box}" for box in range(BOXES)), id=f"n{n}")
                for _ in range(3):
                    client.observe_rows(rows(asked.networks, rng))
                client.flush(600)
                waited = time.perf_counter()
                watched = http.client.HTTPConnection(address)
                while True:
                    watched.request("GET", "/metrics")
                    if (
                        f'advisor_advised_networks{{state="advised"}} {asked.networks:.1f}'
                        in watched.getresponse().read().decode()
                    ):
                        break
                    time.sleep(1.0)
                print(f"all planned after {time.perf_counter() - waited:.1f} s")
                paths = [f"/advice/n{n}" for n in range(asked.networks)]
                reported("/healthz, at rest", poll(address, ["/healthz"], asked.polls, ""))
                reported("/advice, at rest", poll(address, paths, asked.polls, "advised"))
                client.observe_rows(rows(asked.networks, rng))
                client.flush(600)
                reported("/advice, while all are planned anew", poll(address, paths, asked.polls, "advised"))
                reported("/healthz, while all are planned anew", poll(address, ["/healthz"], asked.polls, ""))
        finally:
            service.terminate()
            service.wait()


if __name__ == "__main__":
    main()
