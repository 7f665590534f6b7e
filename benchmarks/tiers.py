"""What learners cost: folds with them against the base tier alone, and a scheduler's loop against least squares by hand.

    python benchmarks/tiers.py [--fast] [--components 10000] [--rounds 40]

Folds are 10,000 rows of random components, in process, as columns, and as the rows of a message, read and folded; both advisors
are fed the same batches in turn, one form after the other; the ratio is of median processor times over the last `rounds`
batches at each history. In the loop a question comes after each new row; by hand that is one step of recursive least squares
of log t on nine features, with a prediction from it.
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
        advisor.learn_batch(columns_of_rows(rows[start : start + 1000], book))


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
                fold = partial(advisor.learn_batch, columns)
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
                f"with learners ({held} MiB) {rich:.0f}: {base / rich:.0%} of the rate"
            )


def by_hand() -> Callable[[float, float, float], float]:
    """Return a step of recursive least squares of log t on nine features, which predicts a row and learns it."""
    inverse, weights = np.eye(9) * 100, np.zeros(9)

    def step(x: float, p: float, t: float) -> float:
        nonlocal inverse, weights
        a, b = np.log(x), np.log(p)
        features = np.array([1, a, b, a * a, a * b, b * b, 1 / p, p / 64, a / p])
        gain = inverse @ features
        guess = features @ weights
        gain /= 1 + features @ gain
        weights = weights + gain * (np.log(t) - guess)
        inverse = inverse - np.outer(gain, features @ inverse)
        return float(np.exp(guess))

    return step


def loop() -> None:
    """Print microseconds of processor time of a row and a question, beside those of a step by hand in the same run."""
    for history in (20, 100, 1000):
        rng = np.random.default_rng(history)
        advisor, step = Advisor(), by_hand()
        spent: dict[str, list[float]] = {"by hand": [], "predict": [], "predict again": [], "choose_cores": []}
        for number in range(history + ASKED):
            x, p = float(rng.uniform(50, 1000)), float(rng.choice(CORES))
            elapsed = 1e-3 * x * (0.1 + 0.9 / p) * rng.lognormal(0, 0.05)
            observe = partial(advisor.observe, "square", predictor=x, cores=p, elapsed_s=elapsed)
            predict = partial(advisor.predict, "square", predictor=x, cores=p)
            choose = partial(advisor.choose_cores, "square", predictor=x, cores_max=16)
            costs = {
                "by hand": clocked(partial(step, x, p, elapsed), time.thread_time),
                "observe": clocked(observe, time.thread_time),
                "predict": clocked(predict, time.thread_time),
                "predict again": clocked(predict, time.thread_time),
                "choose_cores": clocked(choose, time.thread_time),
            }
            costs["predict"] += costs.pop("observe")
            if number >= history:
                for what, cost in costs.items():
                    spent[what].append(cost * 1e6)
        base = median(spent.pop("by hand"))
        reported = ", ".join(
            f"{what} {median(each):.0f} us ({median(each) / base:.1f} x)" for what, each in spent.items()
        )
        print(f"{history} rows: by hand {base:.1f} us; observe and {reported}")


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
    loop()


if __name__ == "__main__":
    main()
