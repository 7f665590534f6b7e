"""All comparisons of docs/plans.md with the simulator, by one command: what plans are worth, what they promise, turns.

    python benchmarks/comparisons.py [--jobs 2] [--out FOLDER]

Some 25 minutes on one processor. How far a part is, is told on standard error; each table is printed, and kept in FOLDER
where one is given: what lies there is not made again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PARTS = {
    "value": ("plan_value.py", "--records", "0"),
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
        kept = None if given.out is None else given.out / f"{name}.txt"
        if kept is not None and kept.exists():
            reported = kept.read_text()
        else:
            jobs = () if name == "turns" else ("--jobs", str(given.jobs))
            command = [sys.executable, str(HERE / script), *options, *jobs]
            reported = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        print(f"## {name}\n\n{reported}", flush=True)
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(reported)


if __name__ == "__main__":
    main()
