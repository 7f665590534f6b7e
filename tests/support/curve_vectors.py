"""Reference vectors of curves: `python tests/support/curve_vectors.py` writes them anew into tests/golden."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from c_curves import Curves

from advisor import Advisor
from advisor.domain.bundle import pack

GOLDEN = Path(__file__).parents[1] / "golden"
BUNDLE, VECTORS = GOLDEN / "curves.bundle", GOLDEN / "curves.vectors.json"
TOLERANCES = (0.0, 0.01, 0.05, 0.5)
OWN = {"rises": {"min": 2, "max": 64, "power_of": 2}, "cubic": {"max": 96, "multiple_of": 3}, "one count": {"min": 2}}
LISTS = ([1], [2, 3, 5, 7, 11, 24, 64], [3, 6, 9, 48], [500, 1000], list(range(1, 257)))


def advisor_of(seed: int, model_memory_bytes: int, prefix: str) -> Advisor:
    """Return an advisor that knows curves of several shapes."""
    rng = np.random.default_rng(seed)
    advisor = Advisor(model_memory_bytes=model_memory_bytes)
    n = 240
    x = 2.0 ** rng.uniform(3, 12, n)
    p = rng.choice([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 48.0], n)
    noise = np.exp(rng.normal(0, 0.04, n))
    shapes = {
        "amdahl": (x, p, 1e-4 * x * (0.04 + 0.96 / p)),
        "rises": (x, p, 1e-4 * x * (0.1 + 0.9 / p + 0.01 * p)),
        "cubic": (x, p, 1e-9 * x**3 * (0.2 + 0.8 / p) + 1e-3),
        "zero": (np.where(x < 60, 0.0, x), p, 1e-3 + 1e-5 * np.where(x < 60, 0.0, x) / p),
        "one count": (x, np.full(n, 4.0), 1e-4 * x),
        "one size": (np.full(n, 100.0), p, 0.5 / p + 0.01),
        "fraction": (x, p / 8, 1e-3 * x**0.5 / (p / 8)),
    }
    for name, (sizes, cores, seconds) in shapes.items():
        advisor.observe_columns(
            components=[prefix + name], index=np.zeros(n, np.int64), predictor=sizes, cores=cores,
            elapsed_s=seconds * noise,
        )  # fmt: skip
    pairs = np.stack([x, x[::-1]], axis=1)
    advisor.observe_columns(
        components=[prefix + "pairs"], index=np.zeros(n, np.int64), predictor=pairs.reshape(-1), dimensions=2, cores=p,
        elapsed_s=1e-6 * x * x[::-1] / p,
    )  # fmt: skip
    advisor.observe(prefix + "unfinished", cores=1, elapsed_s=2.0, running=True)
    for name, allowed in OWN.items():
        advisor.set_allowed(prefix + name, allowed)
    return advisor


def points(bundle: Curves, name: str, seed: int) -> list[tuple[float, float]]:
    """Return points to ask: at random, inside and far outside, and at the ends of every domain."""
    rng = np.random.default_rng(seed)
    at_random = zip(_spread(rng, 0, 16), _spread(rng, -4, 11), strict=True)
    ends = [(x, p) for x in (0.0, 2.0**-61, 1.0, 2.0**60) for p in (2.0**-10, 1.0, 3.0, 2.0**20)]
    return [*at_random, *ends]


def _spread(rng: np.random.Generator, low: int, high: int) -> list[float]:
    """Return 60 numbers evenly over the octaves, of exact operations: numpy's powers differ by processor."""
    return (np.ldexp(1.0, rng.integers(low, high, 60).astype(np.int32)) * rng.uniform(1, 2, 60)).tolist()


def vectors_of(bundle: Curves) -> dict[str, Any]:
    """Return what a bundle answers at the points: exactly, as hexadecimal."""
    found: dict[str, Any] = {}
    for number, name in enumerate(bundle.names):
        if not bundle.answers(name):
            found[name] = None
            continue
        asked = points(bundle, name, number)
        found[name] = {
            "predict": [[v.hex() for v in (x, p, *bundle.predict(name, x, p))] for x, p in asked],
            "choose_cores": [
                [x.hex(), most, tolerance, bundle.choose_cores(name, x, tolerance, cores_max=most)]
                for x, _ in asked[::4]
                for most, tolerance in zip((1, 7, 64, 300, 2**20), (*TOLERANCES, 0.1), strict=True)
            ],
            "choose_allowed": [
                [x.hex(), listed, tolerance, bundle.choose_cores(name, x, tolerance, allowed=listed)]
                for x, _ in asked[::4]
                for listed, tolerance in zip(LISTS, (*TOLERANCES, 0.1), strict=True)
            ],
        }
    return found


def main() -> None:
    """Write the golden files."""
    form = Curves(advisor_of(3, 0, "form ").bundle())
    grid = Curves(advisor_of(4, 2**24, "grid ").bundle(cores_max=64, level=0.9))
    BUNDLE.write_bytes(pack([*form.records, *grid.records], 7, 0.9))
    VECTORS.write_text(json.dumps(vectors_of(Curves(BUNDLE.read_bytes())), indent=0))


if __name__ == "__main__":
    main()
