"""From a clone to the first own advice, by README and quick start: a clean environment, a table with column names of its own.

    python benchmarks/newcomer.py [--python python3.12]

Commands are read from these pages: nothing is run that does not stand there, but for the clone and the names of the own table.
Told are the commands and their seconds; the goal is ten minutes in all, installation included.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GOAL_S = 600.0
OWN = "component=task,x=input_mb,p=workers,t=wall_s"


def table(rows: int = 200) -> str:
    """Return what a user may have: other names, a column that nobody asks for, semicolons."""
    draw = random.Random(4)
    lines = ["when;task;workers;input_mb;wall_s"]
    for number in range(rows):
        size, workers = draw.choice((64, 128, 256, 512)), draw.choice((1, 2, 4, 8))
        took = 0.02 * size * (0.08 + 0.92 / workers) * draw.lognormvariate(0.0, 0.05)
        lines.append(f"2026-01-01T00:{number // 60:02}:{number % 60:02};render;{workers};{size};{took:.4f}")
    return "\n".join(lines) + "\n"


def steps() -> list[str]:
    """Return the commands that a newcomer copies from the pages, with the own table and its names in them."""
    install, own_table = (
        re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)[0].splitlines()
        for page in ("README.md", "docs/quick-start.md")
    )
    demo = install[0]
    own = [line.split("#")[0].strip() for line in own_table if line.startswith("advisor ")]
    renamed = [re.sub(r"--columns \S+", f"--columns '{OWN}'", line) for line in own]
    return [demo, *(line.replace("runs.csv", "own.csv").replace(" blur ", " render ") for line in renamed)]


def main() -> int:
    """Run it and tell the seconds; the exit status says whether the goal was met."""
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--python", default=sys.executable)
    python = given.parse_args().python
    whole = 0.0
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        clone = home / "clone"
        (home / "bin").mkdir()
        (home / "bin" / "python3").symlink_to(python)
        environment = {name: os.environ[name] for name in os.environ if name.startswith(("PIP_", "SSL_", "LANG"))}
        environment |= {"HOME": place, "PATH": f"{clone}/.venv/bin:{home}/bin:/usr/bin:/bin"}
        (home / "own.csv").write_text(table())
        for command in [f"git clone -q {ROOT} clone", *steps()]:
            at = home if command.startswith("git") else clone
            began = time.monotonic()
            done = subprocess.run(
                ["sh", "-c", command], cwd=at, env=environment, text=True, capture_output=True, check=False
            )
            took = time.monotonic() - began
            whole += took
            print(f"{took:7.1f} s  {command}", flush=True)
            print("".join(f"           {line}\n" for line in done.stdout.splitlines()[-3:]), end="", flush=True)
            if done.returncode:
                print(done.stderr)
                return done.returncode
            if command.startswith("git"):
                (home / "own.csv").rename(clone / "own.csv")
    print(f"{whole:7.1f} s in all; the goal is {GOAL_S:.0f}")
    return int(whole > GOAL_S)


if __name__ == "__main__":
    sys.exit(main())
