"""The demo's components compute the same whatever their cores, and use the threads they are given."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from advisor.demo.kernels import KERNELS, STENCIL, Workers, record


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers(8) as pool:
        yield pool


def expected(name: str, matrix: np.ndarray) -> np.ndarray | float:
    side = len(matrix)
    if name in ("multiply", "multiply_blocked"):
        return np.einsum("ik,kj->ij", matrix, matrix) / side
    if name == "convolve":
        rolled = [np.roll(matrix, (2 - i, 2 - j), (0, 1)) * w for (i, j), w in np.ndenumerate(STENCIL)]
        return np.sum(rolled, axis=0)
    if name == "sort":
        return np.sort(matrix, axis=None).reshape(side, side)
    return float(np.log(np.exp(matrix).sum()))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("cores", [1, 2, 3, 8])
@pytest.mark.parametrize("side", [1, 5, 130])
def test_a_kernel_gives_its_answer_on_any_number_of_cores(name: str, cores: int, side: int, workers: Workers) -> None:
    matrix = record(side, np.random.default_rng(side))
    before = matrix.copy()
    np.testing.assert_allclose(KERNELS[name](matrix, cores, workers), expected(name, matrix), rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(matrix, before)
