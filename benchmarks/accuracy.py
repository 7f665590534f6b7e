"""Errors of predictions on tables of real measurements: ours and others' models, side by side in one run.

    python benchmarks/accuracy.py --data FOLDER [--tables a,b] [--splits prequential,decisions] [--seeds 2]
        [--learners advisor,ernest] [--jobs 2] [--cache FOLDER] [--json FILE] [--learner-from module:factory]

`FOLDER` holds csv files with the columns component, x (predictor), p (cores) and t (seconds); others are skipped with a
word, and so is a folder that is not there. Rules of the judgement: `accuracy_protocol.py`, of the core counts that predictions
choose (`decisions`): `accuracy_decisions.py`; learners: `accuracy_peers.py`.
Peers need `pip install '.[bench]'` in a clone; one whose package is missing is left out with a word. Extra-P declares an older
numpy than ours but runs with it: `pip install --no-deps extrap "marshmallow<4" tqdm pycubexr`.

A fit of Extra-P takes up to seconds, so it stands only in the splits that fit once; `--slow` takes it to the streams too.
`MAPE` is that of the median component, `mean` the mean over components, `far` the share of rows off by more than 200 %.
`cover` is the share of all judged rows that their 90 % interval held, `median` that of the median component; `width` is the
mean width over that of the 5 to 95 % quantiles in hindsight; `bytes` are a component's, unused slots of a block included.

Choices that favour a peer or cost it something, so that its figures can be judged. The ridge of the log forms was chosen on
tables that it is judged on: of 1e-6, 1e-3 and 1e-2, tried on five tables, the last gave log_quadratic the least geometric
mean (prequential, one seed: 7.42 at 1e-6, 7.21, 7.10), so as a peer it is a little stronger than one that was not chosen.
Of more than 100 configurations Extra-P gets 100: on one table that took its error in `cores` from 31 to 37 %, and its
`interpolation` from 9.5 to 8.4. Trees and Extra-P are fitted anew at 15 % more rows; that factor was not varied.
"""

# ruff: noqa: E402 -- the threads of numpy and the path are set before anything else is imported
from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # the jobs share the cores among them

HERE = Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE.parent), os.getcwd()]  # the checkout that this file is in, whatever is installed; prototypes

from accuracy_decisions import Decisions, decidable, judge_decisions
from accuracy_peers import LEARNERS, ON_PACKAGE, SLOW_IN_STREAMS, learner_from, missing_package
from accuracy_protocol import SPLITS, STREAMS, Learner, Scores, Table, judge, read_table, splits_of
from accuracy_report import PROTOTYPE, tell_decisions, tell_split

import advisor

PACKAGES = ("numpy", "scipy", "scikit-learn", "extrap", "river")
DECISIONS = "decisions"  # the judgement of core counts, beside the splits that judge times
JUDGEMENTS = (*SPLITS, DECISIONS)


@dataclass(frozen=True)
class Job:
    """One learner on one split of one table with one seed."""

    path: str
    split: str
    seed: int
    learner: str
    source: str | None  # module:factory of a prototype
    cache: str | None
    weight: int  # rows, to begin with the longest


def run(job: Job) -> Scores | Decisions:
    """Judge, or read from the cache what was judged before."""
    table = read_table(Path(job.path))
    if isinstance(table, str):
        raise TypeError(table)
    kept = cache_file(job, table)
    if kept is not None and kept.exists():
        return (Decisions if job.split == DECISIONS else Scores)(**json.loads(kept.read_text()))
    factory: Callable[[], Learner] = learner_from(job.source) if job.source else LEARNERS[job.learner]
    if job.split == DECISIONS:
        scores = judge_decisions(factory(), table, job.seed)
    else:
        scores = judge(factory(), table, job.split, job.seed)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(asdict(scores)))
        part.replace(kept)
    return scores


def cache_file(job: Job, table: Table) -> Path | None:
    """Return where the figures of a job are kept: by the table's bytes, the job, the source it runs and the versions."""
    if job.cache is None or job.source is not None:
        return None
    text = [table.digest, job.split, str(job.seed), job.learner, *versions()]
    sources = [HERE / f"accuracy_{part}.py" for part in ("protocol", "decisions", "peers")]
    if job.learner in ON_PACKAGE:
        sources += sorted(Path(advisor.__file__).parent.rglob("*.py"))
    text += [hashlib.sha256(source.read_bytes()).hexdigest() for source in sources]
    return Path(job.cache) / f"{hashlib.sha256(' '.join(text).encode()).hexdigest()[:32]}.json"


def versions() -> list[str]:
    """Return the versions of the packages that figures depend on."""
    found: list[str] = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{package} none")
    return found


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="folder of tables")
    parser.add_argument("--tables", default="", help="file names without .csv; all of the folder")
    parser.add_argument("--splits", default=",".join(JUDGEMENTS))
    parser.add_argument("--learners", default=",".join(LEARNERS))
    parser.add_argument("--learner-from", metavar="MODULE:FACTORY", help="judge a prototype too")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cache", help="folder that keeps figures between runs")
    parser.add_argument("--json", type=Path, help="file for all figures")
    parser.add_argument("--slow", action="store_true", help="Extra-P in the streams too")
    options = parser.parse_args()
    for field, allowed in (("splits", JUDGEMENTS), ("learners", tuple(LEARNERS))):
        asked = [word for word in getattr(options, field).split(",") if word]
        unknown = [word for word in asked if word not in allowed]
        if unknown:
            parser.error(f"--{field}: {', '.join(unknown)} is none of {', '.join(allowed)}")
        setattr(options, field, asked)
    if options.seeds < 1 or options.jobs < 1:
        parser.error("--seeds and --jobs are whole numbers from 1")
    return options


def read_tables(folder: Path, asked: Sequence[str]) -> dict[Path, Table]:
    """Return the tables of a folder, saying which files are none."""
    tables: dict[Path, Table] = {}
    for path in sorted(folder.glob("*.csv")):
        if asked and path.stem not in asked:
            continue
        table = read_table(path)
        if isinstance(table, str):
            print(f"skipped: {table}")
            continue
        if table.dropped:
            print(f"{path.name}: {table.dropped} rows left out, not possible")
        tables[path] = table
    for name in asked:
        if name not in {path.stem for path in tables}:
            print(f"no table {name} in {folder}")
    return tables


def jobs_of(options: argparse.Namespace, tables: dict[Path, Table]) -> list[Job]:
    """Return what is to be run, the longest first; says which peers are left out."""
    learners: dict[str, str | None] = {}
    for learner in options.learners:
        package = missing_package(learner)
        if package:
            print(f"{learner} is left out: {package} is not installed")
        else:
            learners[learner] = None
    if options.learner_from:
        learners[PROTOTYPE] = options.learner_from
    jobs = [
        Job(str(path), split, seed, learner, source, options.cache, len(table))
        for path, table in tables.items()
        for split in judgements_of(table, options.splits)
        for seed in range(1 if split == "ordered" else options.seeds)
        for learner, source in learners.items()
        if options.slow or not (learner in SLOW_IN_STREAMS and split in STREAMS)
    ]
    heavy = ("trees", "extra_p")
    return sorted(jobs, key=lambda job: (job.learner in heavy, job.split in STREAMS, job.weight), reverse=True)


def judgements_of(table: Table, asked: Sequence[str]) -> list[str]:
    """Return those of the asked judgements that the table can be judged by."""
    able = splits_of(table, [split for split in asked if split != DECISIONS])
    return [*able, DECISIONS] if DECISIONS in asked and decidable(table) else able


def main() -> int:
    """Run what was asked and print it."""
    options = arguments()
    if not options.data.is_dir():
        print(f"skipped: no folder of tables at {options.data}")
        return 0
    tables = read_tables(options.data, [word for word in options.tables.split(",") if word])
    if not tables:
        print(f"skipped: no tables in {options.data}")
        return 0
    print(f"{platform.platform()}, {platform.machine()}, Python {platform.python_version()}, {', '.join(versions())}")
    begun, failed = time.perf_counter(), 0
    jobs = jobs_of(options, tables)
    results: dict[Job, Scores | Decisions] = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        waiting = {pool.submit(run, job): job for job in jobs}
        for future in as_completed(waiting):
            job = waiting[future]
            try:
                results[job] = future.result()
            except Exception as error:  # one learner's failure is told, and the others are judged
                failed += 1
                print(f"{job.learner} on {Path(job.path).stem}, {job.split}, seed {job.seed}, failed:", file=sys.stderr)
                traceback.print_exception(error, file=sys.stderr)
    report: dict[str, dict[str, dict[str, Any]]] = {}
    for split in options.splits:
        by_table: dict[tuple[str, str], list[Any]] = {}
        for learner in (*options.learners, PROTOTYPE):
            for path in tables:
                same = (learner, split, str(path))
                runs = [results[job] for job in jobs if (job.learner, job.split, job.path) == same and job in results]
                if runs:
                    by_table[learner, path.stem] = runs
        names = [path.stem for path in tables if any(table == path.stem for _, table in by_table)]
        if by_table:
            report[split] = (
                tell_decisions(names, by_table) if split == DECISIONS else tell_split(split, names, by_table)
            )
    print(f"\n{len(jobs)} runs in {time.perf_counter() - begun:.0f} s" + (f", {failed} failed" if failed else ""))
    if options.json:
        options.json.write_text(json.dumps({"machine": platform.platform(), "versions": versions(), "splits": report}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
