"""All comparisons of docs/plans.md with the simulator, by one command: what plans are worth, what they promise, turns.

    python benchmarks/comparisons.py [--jobs 2] [--out FOLDER]

An hour on two processors. Each table is printed, and kept in FOLDER where one is given.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PARTS = {
    "value": ("plan_value.py",),
    "prediction": ("plan_prediction.py",),
    "prediction-exact": ("plan_prediction.py", "--exact"),
    "turns": ("turns.py",),
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments.add_argument("--out", type=Path)
    arguments.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS))
    given = arguments.parse_args()
    for name in given.only:
        script, *options = PARTS[name]
        jobs = () if name == "turns" else ("--jobs", str(given.jobs))
        command = [sys.executable, str(HERE / script), *options, *jobs]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        print(f"## {name}\n\n{done.stdout}")
        if given.out is not None:
            given.out.mkdir(parents=True, exist_ok=True)
            (given.out / f"{name}.txt").write_text(done.stdout)


if __name__ == "__main__":
    main()
