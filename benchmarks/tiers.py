"""What the rich tier costs: folds and predictions with the default budget of support points, against the base tier alone.

    python benchmarks/tiers.py [--fast] [--components 10000] [--rounds 40]

Folds are 10,000 rows of random components, in process, as columns, and as the rows of a message, read and folded; both advisors
are fed the same batches in turn, one form after the other; the ratio is of median processor times over the last `rounds`
batches at each history. A prediction is asked after each new row (it is then solved again), and again without one, of a
component with a history of as many rows.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np

from advisor import Advisor, kernels
from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.protocol.rows import NameBook, columns_of_rows

ROWS = 10_000
HISTORIES = (100, 200, 400)
ASKED = 100
CORES = (1.0, 2.0, 4.0, 8.0, 16.0, 47.0)


def batch(names: ComponentNames, rng: np.random.Generator) -> Columns:
    """Return 10,000 rows of an Amdahl curve with 10 % noise."""
    x, p = rng.uniform(1, 1000, ROWS), rng.choice(CORES, ROWS)
    elapsed = 1e-3 * x * (0.1 + 0.9 / p) * rng.lognormal(0, 0.1, ROWS)
    return columns_of(names, rng.integers(0, len(names), ROWS), x, p, elapsed)


def clocked(call: Callable[[], object], clock: Callable[[], float]) -> float:
    """Return the seconds a call takes."""
    start = clock()
    call()
    return clock() - start


def read_and_folded(advisor: Advisor, rows: list[list[object]], book: NameBook) -> None:
    """Fold rows as a service gets them from its decoder."""
    for start in range(0, len(rows), 1000):
        advisor.fold(columns_of_rows(rows[start : start + 1000], book))


def folds(components: int, rounds: int) -> None:
    """Print nanoseconds a row of both tiers at several histories, and their ratio."""
    texts = [f"component-{number}" for number in range(components)]
    sides = [
        (Advisor(model_memory_bytes=0), ComponentNames(texts), NameBook()),
        (Advisor(), ComponentNames(texts), NameBook()),
    ]
    done = 0
    for history in HISTORIES:
        taken: dict[str, list[list[float]]] = {"columns": [[], []], "rows of 1,000": [[], []]}
        last = history * components // ROWS
        while done < last + 2 * rounds:
            form = "columns" if done % 2 else "rows of 1,000"
            for (advisor, names, book), times in zip(sides, taken[form], strict=True):
                columns = batch(names, np.random.default_rng(done))
                fold = partial(advisor.fold, columns)
                if form != "columns" and done >= last:
                    plain = zip(columns.index.tolist(), columns.predictor.tolist(), columns.cores.tolist(),
                                columns.elapsed_s.tolist(), strict=True)  # fmt: skip
                    fold = partial(read_and_folded, advisor, [[texts[i], *rest] for i, *rest in plain], book)
                times.append(clocked(fold, time.process_time))
            done += 1
        held = sides[1][0].status(limit=0)["model_memory_used_bytes"] // 2**20
        for form, both in taken.items():
            base, rich = (median(times[-rounds:]) / ROWS * 1e9 for times in both)
            print(
                f"{form}, {components} components, {history} rows each: base tier {base:.0f} ns a row, "
                f"with points ({held} MiB) {rich:.0f}: {base / rich:.0%} of the rate"
            )


def predictions() -> None:
    """Print microseconds of processor time of a prediction after a new row and of one without."""
    for history in (20, 100, 1000):
        rng = np.random.default_rng(history)
        advisor = Advisor()
        dirty: list[float] = []
        clean: list[float] = []
        for number in range(history + ASKED):
            x, p = float(rng.uniform(50, 1000)), float(rng.choice(CORES))
            elapsed = 1e-3 * x * (0.1 + 0.9 / p) * rng.lognormal(0, 0.05)
            advisor.observe("square", predictor=x, cores=p, elapsed_s=elapsed)
            if number >= history:
                ask = partial(advisor.predict, "square", predictor=x, cores=p)
                dirty.append(clocked(ask, time.process_time))
                clocked(ask, time.process_time)
                clean.append(clocked(ask, time.process_time))
        points = advisor.status()["components"][0]["points"]
        print(
            f"predict, {history} rows ({points} points): after a new row p50 {median(dirty) * 1e6:.0f} us, "
            f"clean {median(clean) * 1e6:.0f} us"
        )


def main() -> None:
    """Run both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fast", action="store_true", help="compiled folds (extra fast)")
    parser.add_argument("--components", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    print(f"{platform.platform()}, Python {platform.python_version()}, numpy {np.__version__}")
    if options.fast:
        print("compiled kernels" if kernels.load_filled() else "kernels interpreted")
    folds(options.components, options.rounds)
    predictions()


if __name__ == "__main__":
    main()
