"""Services that begin at once: each is forked from a process that has loaded all they need, and dies as one begun by itself.

What is spared is a second of imports and compiled kernels a service, nothing that it does with its state.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from live import PATIENCE_S

from advisor.kernels.source import mode_told

READY = b"ready"


class Life:
    """A service that was begun, from its first line to its end."""

    def __init__(self, link: socket.socket, pid: int, log: int) -> None:
        self._link, self.pid, self._log = link, pid, os.fdopen(log, "rb")

    def serves(self) -> bool:
        """Wait until it serves; False where it ends before."""
        return any(b'"serving"' in line for line in self._log)

    def end(self, number: int = signal.SIGKILL) -> str:
        """End it, if it has not ended, and return what else it has logged."""
        os.kill(self.pid, number)  # nobody has its number, dead or not, until the nursery is told
        self._link.sendall(b"!")
        assert self._link.recv(1)
        with self._log:
            return self._log.read().decode(errors="replace")

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)


class Nursery:
    """The process that services are forked from, with what they patch: names of values of modules."""

    def __init__(self) -> None:
        self._link, theirs = socket.socketpair()
        self._link.settimeout(PATIENCE_S)
        paths = [str(Path(__file__).parent), *filter(None, sys.path)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"}
        environment["ADVISOR_KERNELS"] = mode_told()  # it loads them once for all
        command = [sys.executable, "-X", "faulthandler", __file__, str(theirs.fileno())]
        self._process = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()])
        theirs.close()

    def __enter__(self) -> Self:
        assert self._link.recv(len(READY)) == READY
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()
        self._process.wait(PATIENCE_S)

    def begin(self, options: dict[str, Any], patches: dict[str, int]) -> Life:
        ours, theirs = os.pipe()
        socket.send_fds(self._link, [json.dumps([options, patches]).encode()], [theirs])
        os.close(theirs)
        return Life(self._link, int(self._link.recv(16)), ours)


def _load() -> None:
    """Load what a service needs when it is told something of everything, and when it begins again."""
    from mixed_events import Mixed  # noqa: PLC0415

    import advisor.service.server  # noqa: F401, PLC0415 - in the process that services are forked from
    from advisor.engine import Engine  # noqa: PLC0415
    from advisor.service.heavy import Heavy  # noqa: PLC0415

    async def nothing(self: Heavy) -> None:
        """No worker process begins: none is asked for anything."""

    Heavy.warm = nothing
    events, engine = Mixed(0, 60), Engine()
    for at in range(60):
        events.apply(engine, at)
    Engine.from_bytes(engine.to_bytes())


def _serve(options: dict[str, Any], patches: dict[str, int], log: int) -> None:
    from advisor.service import load_config, run  # noqa: PLC0415

    os.dup2(log, 2)
    for name, value in patches.items():
        module, _, constant = name.rpartition(".")
        setattr(sys.modules[module], constant, value)
    code = 1
    try:
        run(load_config(**options))
        code = 0
    finally:
        os._exit(code)


def _main(link: socket.socket) -> None:
    _load()
    link.sendall(READY)
    while True:
        told, logs, _, _ = socket.recv_fds(link, 2**16, 1)
        if not told:
            return
        pid = os.fork()
        if pid == 0:
            link.close()
            _serve(*json.loads(told), logs[0])
        os.close(logs[0])
        link.sendall(str(pid).encode())
        link.recv(1)  # its end is wanted: until now its number is its own
        os.waitpid(pid, 0)
        link.sendall(b".")


if __name__ == "__main__":
    _main(socket.socket(fileno=int(sys.argv[1])))
