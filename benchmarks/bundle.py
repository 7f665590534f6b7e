"""What curves cost: to make, to carry, and to ask in C; and what a plan by tables is worth.

    python benchmarks/bundle.py

Each figure stands beside a baseline of the same run: libm's power law for a call in C, a prediction of the engine in Python.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from advisor import Advisor
from advisor.domain.bundle import VALUE_ERROR
from advisor.engine.bundles import record_of

HERE = Path(__file__).parent
C_SOURCE = HERE.parent / "adapters" / "c"
SHAPES: dict[str, Callable[[Any, Any], Any]] = {
    "amdahl": lambda x, p: 1e-4 * x * (0.05 + 0.95 / p),
    "rising": lambda x, p: 1e-4 * x * (0.05 + 0.95 / p + 0.004 * p),
    "steep": lambda x, p: 1e-8 * x**2.4 * (0.02 + 0.98 / p) + 1e-3,
}


def learned(components: int, rows: int, model_memory_bytes: int = 2**24, seed: int = 1) -> Advisor:
    """Return an advisor that has learned so many components, their shapes in turn."""
    rng = np.random.default_rng(seed)
    n = components * rows
    index = np.repeat(np.arange(components), rows)
    x, p = 2.0 ** rng.uniform(5, 12, n), rng.choice([1.0, 2, 4, 8, 16, 32, 64], n)
    kinds = list(SHAPES.values())
    t = np.choose(index % len(kinds), [shape(x, p) for shape in kinds]) * np.exp(rng.normal(0, 0.05, n))
    advisor = Advisor(model_memory_bytes=model_memory_bytes)
    advisor.observe_columns(
        components=[f"{chr(97 + i % 3)}{i}" for i in range(components)], index=index, predictor=x, cores=p, elapsed_s=t
    )
    return advisor


def microseconds(call: Callable[[], object], times: int) -> float:
    """Return the median microseconds of a call."""
    call()
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return 1e6 * statistics.median(taken)


def calls_in_c(data: bytes, names: tuple[str, ...]) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        print("no C compiler: nothing measured in C")
        return
    with tempfile.TemporaryDirectory() as directory:
        program, bundle = Path(directory) / "calls", Path(directory) / "bundle"
        sources = [str(HERE / "bundle_calls.c"), str(C_SOURCE / "advisor.c")]
        subprocess.run(
            [compiler, "-O2", "-std=c99", "-I", str(C_SOURCE), *sources, "-o", str(program), "-lm"], check=True
        )
        bundle.write_bytes(data)
        for name in names:
            for most in (16, 256, 2**20):
                done = subprocess.run([program, bundle, name, str(most)], capture_output=True, text=True, check=True)
                base, value, interval, choice = (float(word) for word in done.stdout.split()[:4])
                print(
                    f"C, {name}, ns a call: predict {value:.0f}, with interval {interval:.0f},"
                    f" choose_cores of {most} {choice:.0f} (libm power law {base:.0f};"
                    f" ratios {value / base:.1f}, {interval / base:.1f}, {choice / base:.1f})"
                )


def in_process() -> None:
    for tier, memory in (("mixture", 2**24), ("form", 0)):
        advisor = learned(1, 400, memory)
        name = advisor.components.slots.names[0]
        point = microseconds(lambda a=advisor, n=name: a.predict(n, predictor=500.0, cores=4.0), 500)
        choice = microseconds(
            lambda a=advisor, n=name: a.choose_cores(n, predictor=500.0, cores_max=64, tolerance=0.05), 2000
        )
        rng = np.random.default_rng(2)
        cold = microseconds(
            lambda a=advisor, n=name, r=rng: a.choose_cores(n, predictor=float(r.uniform(40, 4000)), cores_max=64), 100
        )
        print(
            f"in process, {tier}, microseconds: choose_cores on a cached curve {choice:.1f}, on a new predictor {cold:.0f};"
            f" one prediction {point:.1f}"
        )
        making = partial(record_of, advisor._asking, 0, name, 400, 1, 0.9, 256)  # the benchmark looks inside on purpose
        print(
            f"  to make: record {microseconds(making, 50) / 1e3:.2f} ms of"
            f" {len(advisor.bundle())} bytes, table error {making().words[VALUE_ERROR]:.4f} octaves"
        )


def tables(components: int, cores: int) -> None:
    advisor = learned(components, 20)
    names = advisor.components.slots.names
    began = time.perf_counter()
    advisor.curve_tables.curves(names, cores_max=cores)
    cold = time.perf_counter() - began
    kept = microseconds(lambda: advisor.curve_tables.curves(names, cores_max=cores), 50)
    advisor.observe(names[0], predictor=99.0, cores=4, elapsed_s=0.01)
    began = time.perf_counter()
    advisor.curve_tables.curves(names, cores_max=cores)
    one = time.perf_counter() - began
    print(
        f"tables of {components} components, {cores} cores: cold {1e3 * cold / components:.2f} ms each, kept"
        f" {kept / 1e3:.3f} ms together, after a row of one {1e3 * one:.1f} ms"
    )


def worth(trials: int, cores: int) -> None:
    """Plan pipelines whose boxes slow down beyond some cores: throughput on the true curves, by tables over by Amdahl."""
    ratios = []
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        boxes = 5
        serial, queue = rng.uniform(0.02, 0.2, boxes), 10.0 ** rng.uniform(-3.5, -1.5, boxes)
        scale = rng.uniform(0.5, 2.0, boxes)
        n = 60
        index = np.repeat(np.arange(boxes), n)
        x, p = 2.0 ** rng.uniform(5, 9, n * boxes), rng.choice([1.0, 2, 4, 8, 16, 32], n * boxes)

        def truth(i: Any, x: Any, p: Any) -> Any:
            return 1e-3 * scale[i] * x * (serial[i] + (1 - serial[i]) / p + queue[i] * (p - 1))  # noqa: B023

        advisor, plain = Advisor(), Advisor(model_memory_bytes=0)
        names = [f"b{i}" for i in range(boxes)]
        times = truth(index, x, p) * np.exp(rng.normal(0, 0.05, len(x)))
        for each in (advisor, plain):
            each.observe_columns(components=names, index=index, predictor=x, cores=p, elapsed_s=times)
        mean_x = np.array([x[index == i].mean() for i in range(boxes)])
        counts = np.arange(1, cores + 1)
        by_table, by_amdahl = (
            np.exp([np.interp(np.log(counts), np.log(table.cores), np.log(row)) for row in table.elapsed_s])
            for table in (each.curve_tables.curves(names, cores_max=cores) for each in (advisor, plain))
        )
        real = truth(np.arange(boxes)[:, None], mean_x[:, None], counts)
        best = [
            1 / max(real[i, c - 1] for i, c in enumerate(balanced(curve, cores))) for curve in (by_table, by_amdahl)
        ]
        ratios.append(best[0] / best[1])
    spread = np.quantile(ratios, [0.0, 0.1, 0.5, 0.9])
    print(
        f"plans of {trials} pipelines on {cores} cores, true throughput by tables over by Amdahl's curves:"
        f" least {spread[0]:.3f}, 10 % {spread[1]:.3f}, median {spread[2]:.3f}, 90 % {spread[3]:.3f}"
    )


def balanced(curves: Any, cores: int) -> list[int]:
    """Return cores for each box of a pipeline: the least period that `cores` can reach, and the fewest cores for it."""
    for period in np.sort(curves.reshape(-1)):
        needed = [int(np.argmax(row <= period)) + 1 if (row <= period).any() else cores + 1 for row in curves]
        if sum(needed) <= cores:
            return needed
    raise AssertionError("more boxes than cores")


def main() -> None:
    calls_in_c(learned(3, 400).bundle(), ("a0", "b1"))
    calls_in_c(learned(3, 400, 0).bundle(), ("a0",))
    in_process()
    tables(200, 10_000)
    worth(30, 64)


if __name__ == "__main__":
    main()
