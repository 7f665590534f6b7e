"""Answers and states have the same bits on every processor: as numpy, OpenBLAS and numba are told to take it for another.

What each of them does is chosen by processor when it is loaded, so that each case is a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PROGRAM = Path(__file__).parents[1] / "support" / "processor_answers.py"
ANSWERS = 2000  # at least
# numpy's own report: what this machine has beyond the build's baseline, each of which has kernels of its own
FEATURES = " ".join(np.show_config(mode="dicts")["SIMD Extensions"].get("found", []))  # type: ignore[index]
PROCESSORS: dict[str, dict[str, str]] = {
    **{core: {"OPENBLAS_CORETYPE": core} for core in ("Prescott", "Sandybridge", "Haswell", "Zen", "SkylakeX")},
    "baseline of numpy": {"NPY_DISABLE_CPU_FEATURES": FEATURES},
    # kernels from a library are for every processor of its kind; numba, where there is none, compiles for this one
    "generic to numba": {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
    "interpreted kernels": {"ADVISOR_KERNELS": "interpreted"},
    "a C library without FMA": {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-AVX2,-AVX512F"},
}


def digests(**environment: str) -> dict[str, str]:
    """Return what the program prints in a process of that environment."""
    command = [sys.executable, "-W", "error", str(PROGRAM)]
    there = os.environ | {"ADVISOR_KERNELS": "auto"} | environment
    done = subprocess.run(command, env=there, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def here() -> dict[str, str]:
    found = digests()
    assert int(found["answers"]) >= ANSWERS
    return found


@pytest.mark.parametrize("processor", PROCESSORS)
def test_another_processor_gives_the_same_bits(here: dict[str, str], processor: str) -> None:
    assert digests(**PROCESSORS[processor]) == here
