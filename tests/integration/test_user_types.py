"""What a type checker finds in a user's file: ten planted mistakes, and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import advisor
from advisor.domain.rows import FIELDS, ColumnFields, RowFields
from advisor.protocol.verbs import METHODS

USER_FILE = Path(__file__).parent.parent / "support" / "user_file.txt"


def test_a_strict_checker_finds_ten_planted_mistakes_of_ten(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    user = tmp_path / "user.py"
    user.write_text(USER_FILE.read_text())
    wrong = {number for number, line in enumerate(user.read_text().splitlines(), 1) if line.endswith("# wrong")}
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--follow-imports=silent",
        "--cache-dir",
        str(tmp_path / "cache"),
    ]
    there = Path(advisor.__file__).parent.parent
    done = subprocess.run(
        [*command, "user.py"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "MYPYPATH": "" if "site-packages" in there.parts else str(there)},
    )  # fmt: skip
    found = [int(number) for number in re.findall(r"^user\.py:(\d+): error", done.stdout, re.MULTILINE)]
    assert sorted(found) == sorted(wrong), done.stdout + done.stderr
    assert len(wrong) == 10


def test_the_types_have_the_keys_that_are_checked() -> None:
    assert set(RowFields.__annotations__) == set(FIELDS)
    known = set(METHODS["observe_columns"].keys) - {"producer", "incarnation", "sequence"}
    assert set(ColumnFields.__annotations__) == known - {"components", "index", "predictor", "cores", "elapsed_s"}
