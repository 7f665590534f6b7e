"""Every example in Python on the page of adapters runs, in a process and with a cache folder of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "adapters.md").read_text(), re.DOTALL)


# A cluster of Dask's in one process needs 10 s of a quiet machine, and much longer beside other tests.
MARKED = [
    pytest.param(
        each, marks=pytest.mark.slow if "LocalCluster" in each else (), id=re.findall(r"from (\S+) import", each)[-1]
    )
    for each in EXAMPLES
]


@pytest.mark.parametrize("example", MARKED)
def test_an_example_runs(example: str, tmp_path: Path) -> None:
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example], cwd=tmp_path, env=environment,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_page_has_examples() -> None:
    assert EXAMPLES
