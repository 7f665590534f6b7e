"""Runs of a program that keeps to paper 3's equations, exactly."""

from __future__ import annotations

from typing import Any


def run(size: float, workers: int) -> dict[str, Any]:
    """Return a run: work n^2, inflated by a fiftieth of the workers; a span of n, that leaves half of it without work."""
    serial = 1e-6 * size * size
    work = serial * (1.0 + 0.02 * (workers - 1))
    creates, waits, span = 2.0 * size, size, 1e-6 * size
    delay = 1e-7 * creates + 2e-7 * waits * (1.0 + 0.1 * (workers - 1))
    no_work = 0.5 * span * (workers - 1)
    return {
        "size": size, "workers": float(workers), "elapsed_s": (work + delay + no_work) / workers, "work_s": work,
        "delay_s": delay, "no_work_s": no_work, "creates": creates, "waits": waits, "serial_work_s": serial,
        "span_s": span,
    }  # fmt: skip


def runs() -> list[dict[str, Any]]:
    """Return runs on 1 to 8 workers of sizes from 100 to 1,600."""
    return [run(100.0 * 2.0 ** (k / 2), p) for k in range(9) for p in range(1, 9)]
