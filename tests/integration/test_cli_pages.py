"""The pages tell the commands that exist, and the guide's two days end as they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from advisor.cli import COMMANDS

DOCS = Path(__file__).parents[2] / "docs"


def test_every_command_is_told_and_no_other() -> None:
    reported = set(re.findall(r"`advisor ([a-z-]+)", (DOCS / "commands.md").read_text(encoding="utf-8")))
    assert reported == set(COMMANDS)


def test_the_two_days_run_as_they_stand(tmp_path: Path) -> None:
    (block,) = (
        part
        for part in re.findall(r"```sh\n(.*?)```", (DOCS / "guide.md").read_text(encoding="utf-8"), re.DOTALL)
        if "monday" in part
    )
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, words in (("advisor", "-m advisor.cli"), ("python3", "")):
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        (tools / name).chmod(0o700)
    environment = os.environ | {
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }  # fmt: skip
    done = subprocess.run(
        ["sh", "-e", "-c", block],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^ +300 +4 +", done.stdout, re.MULTILINE)
    assert "run next, for blur" in done.stdout
    assert re.search(r"^blur +slower +1\.[23]", done.stdout, re.MULTILINE)
    assert done.stdout.splitlines()[-1].startswith("1 slower, 0 faster, 2 without")
