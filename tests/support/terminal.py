"""Commands in a terminal of some width: a pseudo-terminal, and what was written to it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Sequence
from pathlib import Path

from advisor.kernels.source import mode_reported

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
MARK = "=== next ==="
# All commands in one process: to start one costs a second, and a terminal is what counts here.
SCRIPT = f"""
import json, sys
from advisor.cli import main
for arguments in json.loads(sys.argv[1]):
    try: main(arguments)
    except SystemExit: pass
    sys.stderr.flush()
    print({MARK!r}, flush=True)
"""


def in_terminal(
    commands: Sequence[Sequence[str | Path]], columns: int, typed: str = "", *, errors: bool = False
) -> list[str]:
    """Run commands of the command line one after the other in a terminal; return what each has written.

    `typed` is what somebody has typed ahead; `errors`: standard error, with its progress bars, goes to the terminal too.
    """
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {key: value for key, value in _environment().items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
    reported = json.dumps([[str(word) for word in each] for each in commands])
    with tempfile.TemporaryFile() as aside:
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, reported], stdin=slave, stdout=slave, stderr=slave if errors else aside,
            env=environment | {"TERM": "xterm-256color"}, start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        os.write(master, typed.encode())
        seen = b""
        while data := _read(master):
            seen += data
        os.close(master)
        process.wait()
        aside.seek(0)
        said = aside.read().decode()
    assert not said, said
    text = ESCAPES.sub("", seen.decode()).replace("\r\n", "\n")
    return text.split(f"{MARK}\n")[: len(commands)]


def _environment() -> dict[str, str]:
    return os.environ | {"ADVISOR_KERNELS": mode_reported()}  # many commands of one process load compiled kernels once


def _read(master: int) -> bytes:
    try:
        return os.read(master, 2**16)
    except OSError:  # EIO: nobody has it open any more
        return b""


def in_pipe(commands: Sequence[Sequence[str | Path]]) -> list[str]:
    """As `in_terminal`, with standard output no terminal."""
    reported = json.dumps([[str(word) for word in each] for each in commands])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, reported], capture_output=True, text=True, check=True, env=_environment()
    )
    return done.stdout.split(f"{MARK}\n")[: len(commands)]
