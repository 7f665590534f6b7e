"""The demo's arithmetic: what a policy costs, what the hindsight is; and its components, alike on any number of cores."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from json import dumps, loads
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from advisor.demo import real
from advisor.demo.kernels import KERNELS, STENCIL, Workers, record
from advisor.demo.paper import WINDOWS, Streamed, run_paper
from advisor.demo.paper_setting import CORES, PIPELINE, mean_elapsed_s
from advisor.demo.real import Invocation, JudgedRuns, usable_cores
from advisor.demo.report import print_real, real_as_dict

JUDGED = JudgedRuns(
    4,
    10,
    (
        Invocation("sort", 100, 2, {1: 4.0, 2: 2.0, 4: 1.0}),
        Invocation("sort", 10, 1, {1: 1.0, 2: 2.0, 4: 2.0}),
        Invocation("reduce", 10, 2, {1: 1.0, 2: 1.04, 4: 3.0}),
    ),
    np.array([1e-3]),
)


@pytest.mark.parametrize(
    ("quota", "most"), [("max 100000", 10**6), ("150000 100000", 1), ("50000 100000", 1), ("garbage", 10**6)]
)
def test_a_quota_of_the_control_group_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, most: int
) -> None:
    (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr(real, "CGROUP_QUOTA", tmp_path / "cpu.max")
    assert 1 <= usable_cores() <= most
    monkeypatch.setattr(real, "CGROUP_QUOTA", tmp_path / "none")
    assert usable_cores() >= 1


def test_the_demo_is_printed_and_given_as_plain_values() -> None:
    console = Console(file=StringIO(), width=100)
    print_real(console, JUDGED)
    text: Any = console.file
    assert "+34.7%" in text.getvalue()  # advised 4.04 s over 3 s
    assert "best possible, throughput" in text.getvalue()
    for drawn in (draw_real(tmp_path / "a.png", JUDGED), draw_paper(tmp_path / "b.png", streamed)):
        assert drawn.read_bytes().startswith(b"\x89PNG")
    reported = loads(dumps({"real": real_as_dict(JUDGED), "paper": paper_as_dict(streamed)}, allow_nan=False))
    assert reported["real"]["policies"]["advised"]["regret"] == pytest.approx(1.04 / 3)
    assert reported["paper"]["allocations"][-1]["label"] == "best possible, latency"


# -- components -------------------------------------------------------------------------------------------------------------


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
