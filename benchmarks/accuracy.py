"""Errors of predictions on tables of real measurements: ours and others' models, side by side in one run.

    python benchmarks/accuracy.py --data FOLDER [--tables a,b] [--splits prequential,cores] [--seeds 2]
        [--learners advisor,ernest] [--jobs 2] [--cache FOLDER] [--json FILE] [--learner-from module:factory]

`FOLDER` holds csv files with the columns component, x (predictor), p (cores) and t (seconds); others are skipped with a
word, and so is a folder that is not there. Rules of the judgement: `accuracy_protocol.py`; learners: `accuracy_peers.py`.
Peers need `pip install core-advisor[bench]`; one whose package is missing is left out with a word. Extra-P declares an older
numpy than ours but runs with it: `pip install --no-deps extrap "marshmallow<4" tqdm pycubexr`.

A fit of Extra-P takes up to seconds, so it stands only in the splits that fit once; `--slow` takes it to the streams too.
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
import math
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # the jobs share the cores among them

HERE = Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE.parent), os.getcwd()]  # the checkout that this file is in, whatever is installed; prototypes

import numpy as np
from accuracy_peers import LEARNERS, ON_PACKAGE, OURS, SLOW_IN_STREAMS, learner_from, missing_package
from accuracy_protocol import SPLITS, STREAMS, Learner, Scores, Table, geometric_mean, judge, read_table, splits_of

import advisor

PACKAGES = ("numpy", "scipy", "scikit-learn", "extrap", "river")
PROTOTYPE = "prototype"  # name of the learner of --learner-from


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


@dataclass(frozen=True)
class Figures:
    """One cell of the printed table: what a learner did on a table, over all seeds."""

    error: float
    error_p90: float
    bias: float
    coverage: float
    coverage_median: float
    width: float
    microseconds: float
    state_bytes: float
    components: int
    unanswered: int


def run(job: Job) -> Scores:
    """Judge, or read from the cache what was judged before."""
    table = read_table(Path(job.path))
    if isinstance(table, str):
        raise TypeError(table)
    kept = cache_file(job, table)
    if kept is not None and kept.exists():
        return Scores(**json.loads(kept.read_text()))
    factory: Callable[[], Learner] = learner_from(job.source) if job.source else LEARNERS[job.learner]
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
    sources = [HERE / "accuracy_protocol.py", HERE / "accuracy_peers.py"]
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


def figures(runs: Sequence[Scores]) -> Figures:
    """Return the figures of a table: each over its components and then the mean over seeds."""

    def mean(values: Iterator[float]) -> float:
        known = [value for value in values if not math.isnan(value)]
        return math.fsum(known) / len(known) if known else math.nan

    def over(values: Sequence[float], reduce: Callable[[Sequence[float]], float]) -> float:
        known = [value for value in values if not math.isnan(value)]
        return float(reduce(known)) if known else math.nan

    return Figures(
        error=100 * mean(over(one.error, np.median) for one in runs),
        error_p90=100 * mean(over(one.error, lambda values: np.percentile(values, 90)) for one in runs),
        bias=100 * mean(over(one.bias, np.median) for one in runs),
        coverage=100 * mean(pooled(one) for one in runs),
        coverage_median=100 * mean(over(one.coverage, np.median) for one in runs),
        width=mean(over(one.width, np.median) for one in runs),
        microseconds=mean(one.microseconds for one in runs),
        state_bytes=mean(one.state_bytes for one in runs),
        components=len(runs[0].error),
        unanswered=sum(one.unanswered for one in runs),
    )


def pooled(scores: Scores) -> float:
    """Return the share of all judged rows that their interval held."""
    pairs = [(c, n) for c, n in zip(scores.coverage, scores.rows, strict=True) if not math.isnan(c)]
    return sum(c * n for c, n in pairs) / sum(n for _, n in pairs) if pairs else math.nan


def print_split(split: str, tables: Sequence[str], found: dict[tuple[str, str], Figures]) -> None:
    """Print a line a learner and table, the geometric means, and ours over the best peer."""
    learners = list(dict.fromkeys(learner for learner, _ in found))
    print(f"\n== {split} ==")
    width = max(len(learner) for learner in learners)
    head = ("MAPE %", "p90 %", "bias %", "cover %", "median", "width", "us/row", "bytes", "comp.", "no answer")
    for table in tables:
        print(f"{table:<{width}}" + "".join(f"{text:>10}" for text in head))
        for learner in learners:
            one = found.get((learner, table))
            if one is None:
                continue
            cells = [f"{value:10.2f}" for value in (one.error, one.error_p90, one.bias)]
            cells += [f"{value:10.1f}" for value in (one.coverage, one.coverage_median)]
            cells += [f"{one.width:10.2f}", f"{one.microseconds:10.0f}", f"{one.state_bytes:10.0f}"]
            cells += [f"{one.components:10d}", f"{one.unanswered:10d}"]
            print(f"{learner:<{width}}" + "".join(cells).replace("nan", "  -"))
    print(f"{'MAPE %':<{width}}" + "".join(f"{table:>14}" for table in tables) + f"{'geo. mean':>14}")
    means = geometric_means(tables, found)
    for learner in learners:
        cells = [found[learner, table].error if (learner, table) in found else math.nan for table in tables]
        line = "".join(f"{value:14.2f}" for value in (*cells, means.get(learner, math.nan)))
        print(f"{learner:<{width}}" + line.replace("nan", "  -"))
    print_ratios(tables, found, means)


def geometric_means(tables: Sequence[str], found: dict[tuple[str, str], Figures]) -> dict[str, float]:
    """Return the geometric mean of MAPE over the tables of each learner that has all of them."""
    learners = dict.fromkeys(learner for learner, _ in found)
    return {
        learner: geometric_mean([found[learner, table].error for table in tables])
        for learner in learners
        if all((learner, table) in found for table in tables)
    }


def print_ratios(tables: Sequence[str], found: dict[tuple[str, str], Figures], means: dict[str, float]) -> None:
    """Print the best peer of each table and of the geometric mean, and ours over it."""
    best: dict[str, tuple[float, str]] = {}
    for table in tables:
        errors = [(one.error, learner) for (learner, of), one in found.items() if of == table and is_peer(learner)]
        if errors:
            best[table] = min(errors)
    single = min(((mean, learner) for learner, mean in means.items() if is_peer(learner)), default=None)
    if not best:
        return
    print("best peer: " + ", ".join(f"{table} {learner} {error:.2f}" for table, (error, learner) in best.items()))
    if single:
        print(f"best single peer: {single[1]}, geometric mean {single[0]:.2f}")
    for learner in dict.fromkeys(learner for learner, _ in found):
        if is_peer(learner):
            continue
        shares = [
            f"{table} {found[learner, table].error / error:.3f}"
            for table, (error, _) in best.items()
            if error > 0 and (learner, table) in found
        ]
        total = (
            f"; geometric mean / best single peer's {means[learner] / single[0]:.3f}"
            if single and learner in means
            else ""
        )
        print(f"{learner} / best peer: {', '.join(shares)}{total}")


def is_peer(learner: str) -> bool:
    """Return whether a learner is another's: neither ours nor a prototype of it."""
    return learner not in OURS and learner != PROTOTYPE


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="folder of tables")
    parser.add_argument("--tables", default="", help="file names without .csv; all of the folder")
    parser.add_argument("--splits", default=",".join(SPLITS))
    parser.add_argument("--learners", default=",".join(LEARNERS))
    parser.add_argument("--learner-from", metavar="MODULE:FACTORY", help="judge a prototype too")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cache", help="folder that keeps figures between runs")
    parser.add_argument("--json", type=Path, help="file for all figures")
    parser.add_argument("--slow", action="store_true", help="Extra-P in the streams too")
    options = parser.parse_args()
    for field, allowed in (("splits", SPLITS), ("learners", tuple(LEARNERS))):
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
        for split in splits_of(table, options.splits)
        for seed in range(1 if split == "ordered" else options.seeds)
        for learner, source in learners.items()
        if options.slow or not (learner in SLOW_IN_STREAMS and split in STREAMS)
    ]
    heavy = ("trees", "extra_p")
    return sorted(jobs, key=lambda job: (job.learner in heavy, job.split in STREAMS, job.weight), reverse=True)


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
    results: dict[Job, Scores] = {}
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
    report: dict[str, dict[str, dict[str, object]]] = {}
    order = [*options.learners, PROTOTYPE]
    for split in options.splits:
        found: dict[tuple[str, str], Figures] = {}
        for learner in order:
            for path in tables:
                same = (learner, split, str(path))
                runs = [results[job] for job in jobs if (job.learner, job.split, job.path) == same and job in results]
                if runs and runs[0].error:
                    found[learner, path.stem] = figures(runs)
        names = [path.stem for path in tables if any(table == path.stem for _, table in found)]
        if found:
            print_split(split, names, found)
        for (learner, table), one in found.items():
            report.setdefault(split, {}).setdefault(table, {})[learner] = asdict(one)
    print(f"\n{len(jobs)} runs in {time.perf_counter() - begun:.0f} s" + (f", {failed} failed" if failed else ""))
    if options.json:
        options.json.write_text(json.dumps({"machine": platform.platform(), "versions": versions(), "splits": report}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
