"""Jobs of a real Slurm: the plugin chooses for those that give no count, and the loop learns from what they did."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import slurm_cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(slurm_cluster.missing()), reason=f"not here: {', '.join(slurm_cluster.missing())}"),
]


# a job of an advised count reads it as one that gave it; sbatch -W ends with the job's status
SCRIPT = 'sleep 2; [ $SLURM_JOB_NAME = before ] || [ "$SLURM_CPUS_PER_TASK" = "$SLURM_CPUS_ON_NODE" ]'


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    with slurm_cluster.cluster(tmp_path / "cluster", advice=tmp_path / "advice.lua") as environment:
        yield environment


def cpus(environment: Mapping[str, str], name: str, *options: str) -> int:
    """Submit a job that sleeps, wait for its end, and return the CPUs that it had."""
    command = ["sbatch", "-W", "--parsable", "-J", name, "-o", "/dev/null", *options, "--wrap", SCRIPT]
    number = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()
    shown = ["scontrol", "show", "job", number]
    fields = subprocess.run(shown, env=environment, check=True, capture_output=True, text=True).stdout.split()
    return int(next(field for field in fields if field.startswith("NumCPUs=")).partition("=")[2])


def test_jobs_without_a_count_are_advised_and_learned(slurm: Mapping[str, str], tmp_path: Path) -> None:
    loop = [sys.executable, "-m", "advisor", "slurm", "--advice", str(tmp_path / "advice.lua"), "--allowed", "1,2,4,8"]
    loop += ["--state", str(tmp_path / "state"), "--once"]

    def look() -> str:
        return subprocess.run(loop, env=slurm, check=True, capture_output=True, text=True).stdout

    assert cpus(slurm, "before") == 1  # no advice yet: Slurm's own default
    look()
    assert cpus(slurm, "nap") == 4  # nothing known of its name: the first run's count
    assert cpus(slurm, "nap", "-c", "3") == 3
    for _ in range(60):  # an end is known some seconds later
        if look() and '["nap"]' in (tmp_path / "advice.lua").read_text():
            break
        subprocess.run(["scontrol", "ping"], env=slurm, check=True, capture_output=True)
    assert '["nap"]' in (tmp_path / "advice.lua").read_text()
