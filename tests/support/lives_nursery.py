"""A service's lives, each forked from a process that has loaded it: it starts in milliseconds."""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from served import PATIENCE_S

READY = b"ready"


@dataclass
class Life:
    """A service from its fork to its end."""

    nursery: Nursery
    pid: int
    log: Any
    said: list[str] = field(default_factory=list)
    alive: bool = True

    def serves(self) -> bool:
        """Wait until it serves; False where it ends before."""
        for line in self.log:
            self.said.append(line.decode(errors="replace"))
            if b'"serving"' in line:
                return True
        return False

    def end(self, number: int = signal.SIGKILL) -> int:
        """Signal it, wait for its end, and return its status as `os.waitpid` has it."""
        if not self.alive:
            return 0
        os.kill(self.pid, number)  # nobody else has its number until the nursery is asked to wait for it
        return self.wait()

    def wait(self) -> int:
        """Wait for its end, whatever ends it."""
        self.alive = False
        with self.log:
            self.said += [line.decode(errors="replace") for line in self.log]
        return int(self.nursery.ask({"wait": self.pid})["status"])

    def words(self) -> str:
        return "".join(self.said)


class Nursery:
    """A process that services are forked from: they begin without a second of imports each."""

    def __init__(self, shim: Path | None) -> None:
        self.link, theirs = socket.socketpair()
        self.link.settimeout(PATIENCE_S)
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"}
        environment["ADVISOR_KERNELS"] = os.environ.get("TESTED_KERNELS", "compiled")  # loaded once for all
        if shim is not None:
            environment["LD_PRELOAD"] = str(shim)
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())], env=environment, pass_fds=[theirs.fileno()]
        )
        theirs.close()

    def __enter__(self) -> Self:
        assert self.link.recv(len(READY)) == READY
        return self

    def __exit__(self, *_: object) -> None:
        self.link.close()
        self.process.wait(PATIENCE_S)

    def ask(self, question: dict[str, Any], descriptors: list[int] | None = None) -> dict[str, Any]:
        socket.send_fds(self.link, [json.dumps(question).encode()], descriptors or [])
        return json.loads(self.link.recv(2**12))

    def begin(self, words: list[str], environment: dict[str, str]) -> Life:
        ours, theirs = os.pipe()
        pid = self.ask({"serve": words, "environment": environment}, [theirs])["pid"]
        os.close(theirs)
        return Life(self, pid, os.fdopen(ours, "rb"))


def _nursery(link: socket.socket) -> None:
    """Fork services as asked. What they load is loaded first: the package's public names, and what serving itself loads."""
    command = importlib.import_module("advisor.cli").main
    for name in ("advisor.service", "advisor.client"):
        package = importlib.import_module(name)
        for public in getattr(package, "__all__", ()):
            getattr(package, public)
    advisor = importlib.import_module("advisor").Advisor()
    for cores in range(1, 9):
        advisor.observe("warm", predictor=1.0, cores=cores, elapsed_s=1.0)
    link.sendall(READY)
    while True:
        data, descriptors, _, _ = socket.recv_fds(link, 2**16, 1)
        if not data:
            return
        question = json.loads(data)
        if "wait" in question:
            link.sendall(json.dumps({"status": os.waitpid(question["wait"], 0)[1]}).encode())
            continue
        pid = os.fork()
        if pid == 0:
            link.close()
            os.environ.update(question["environment"])
            os.dup2(descriptors[0], 2)
            status = 1
            try:
                sys.argv = ["advisor", "serve", *question["serve"]]
                command()
                status = 0
            except SystemExit as ended:
                status = int(ended.code or 0)
            except BaseException as error:
                print(error, file=sys.stderr, flush=True)
            finally:
                os._exit(status)
        os.close(descriptors[0])
        link.sendall(json.dumps({"pid": pid}).encode())


if __name__ == "__main__":
    _nursery(socket.socket(fileno=int(sys.argv[1])))
