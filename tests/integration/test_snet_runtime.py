"""The public S-Net runtimes, built from sources that ADVISOR_SNET_SOURCES names: a folder with ``snet/build.sh``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from advisor.cli.learning import learn_command
from advisor.files.snet_input import source_of, values_of
from advisor.files.snet_runs import SnetFiles

SOURCES = Path(os.environ.get("ADVISOR_SNET_SOURCES", "/nowhere"))
RECORDS = 400
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (SOURCES / "snet" / "build.sh").exists(), reason="ADVISOR_SNET_SOURCES names no sources"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("snet")
    subprocess.run(["bash", SOURCES / "snet" / "build.sh", SOURCES, out], check=True, capture_output=True)
    made = subprocess.run(
        [sys.executable, SOURCES / "snet" / "make_input.py", str(RECORDS), "5", "0.3"], check=True, capture_output=True
    )
    (out / "input.xml").write_bytes(made.stdout)
    return out


def logs_of(built: Path, program: str, scheduler: str) -> Path:
    """Run a program on two workers; return the folder of its logs."""
    folder = built / f"{program}-{scheduler}-logs"
    folder.mkdir(exist_ok=True)
    workers = "3" if scheduler == "central" else "2"  # the central scheduler has a thread of its own
    command = [built / f"{program}-{scheduler}", "-w", workers, "-m", "A", "-i", built / "input.xml", "-o", "out.xml"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


def learned(folder: Path, state: Path, *given: str) -> str:
    done = CliRunner().invoke(learn_command, [str(folder), "--from", "snet", "--state", str(state), *given])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("scheduler", ["lpel", "central"])
def test_every_run_of_each_box_is_learned_once(built: Path, tmp_path: Path, scheduler: str) -> None:
    for program, runs in (("film", 7), ("pair", 2), ("tag", 3)):
        folder = logs_of(built, program, scheduler)
        assert f"{runs * RECORDS:,} runs of boxes learned" in learned(folder, tmp_path / "state")
        assert "0 runs of boxes learned" in learned(folder, tmp_path / "state")


@pytest.mark.parametrize("scheduler", ["lpel", "central"])
def test_each_run_has_the_tag_of_the_record_that_entered(built: Path, scheduler: str) -> None:
    folder, n = logs_of(built, "tag", scheduler), source_of("<n>")
    files = SnetFiles(folder, "tag", {"": values_of(built / "input.xml", [n])[n]})
    rows = [*files.rows(), *files.rows(final=True)]
    medians = {
        box: [
            float(
                np.median([row.elapsed_s for row in rows if row.component == box and size <= row.predictor < size + 50])
            )
            for size in (200, 400, 800, 1600, 3200)
        ]
        for box in ("linear", "square", "flat")
    }
    # their records carry no data: work grows as n, as n squared, and not at all, whatever else this machine does
    assert medians["linear"] == sorted(medians["linear"])
    assert medians["square"] == sorted(medians["square"])
    assert medians["linear"][-1] / medians["linear"][0] > 8 * max(medians["flat"]) / min(medians["flat"]) / 2
    assert medians["square"][-1] / medians["square"][0] > 2 * medians["linear"][-1] / medians["linear"][0]
