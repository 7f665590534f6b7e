"""`advisor advise`: what was learned as settings, and that those who read them do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from advisor import Advisor
from advisor.cli.advising import _setting, advise_command
from advisor.files.settings import WRITERS, AdvisedSetting

TABLE = "component,x,p,t,peak_bytes\n" + "".join(
    f"{name},{size},{cores},{60 * size / cores},{size * 1000000}\n"
    for name in ("count_words", "RNASEQ:FASTQC", "odd name", "job/step")
    for size in (1, 2, 4)
    for cores in (1, 2, 4)
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    return path


def advise(*arguments: str) -> str:
    done = CliRunner().invoke(advise_command, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_settings_for_snakemake(table: Path) -> None:
    text = advise("--to", "snakemake-profile", "--table", str(table))
    assert "set-threads:\n  count_words: 4\n" in text
    assert "  count_words:\n    mem_mb: " in text
    assert '# left out: "odd name", no name of a rule' in text


def test_settings_for_nextflow(table: Path) -> None:
    text = advise("--to", "nextflow-config", "--table", str(table), "--cores", "2")
    assert "    withName: 'RNASEQ:FASTQC' {\n        cpus = 2\n        memory = " in text
    assert "odd name' {" not in text


@pytest.mark.parametrize(("allowed", "cores"), [("1,2", 2), ("power_of=2,max=2", 2), ("3", 3), ("8,16", 8)])
def test_settings_are_on_allowed_counts(table: Path, allowed: str, cores: int) -> None:
    said = json.loads(advise("--to", "sbatch", "--table", str(table), "--allowed", allowed, "--json"))
    assert [each["cores"] for each in said["settings"]] == [cores] * 4


def test_settings_for_slurm(table: Path) -> None:
    text = advise("--to", "sbatch", "--table", str(table), "count_words", "job/step")
    assert "sbatch --job-name=count_words --ntasks=1 --cpus-per-task=4 --mem=" in text
    assert '# left out: "job/step", a step' in text


def test_memory_rises_above_that_of_a_killed_run() -> None:
    advisor = Advisor()
    for killed in (None, None, None, "memory"):
        peak = 4e9 if killed else 3e9
        advisor.observe("m", cores=1, elapsed_s=60.0, measures={"peak_bytes": peak}, killed=killed)
    (known,) = advisor.status(components=True)["components"]
    setting = _setting(advisor, known, None, None, 0.05, 0.9)
    assert isinstance(setting, AdvisedSetting)
    assert setting.peak_bytes is not None
    assert 4.9e9 < setting.peak_bytes < 9e9
    assert "one killed at" in setting.why


def test_memory_and_time_rest_on_the_largest_seen(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    runs = [(60 * rng.lognormal(0, 1.0), 1e9 * rng.lognormal(0, 0.5)) for _ in range(40)]
    path = tmp_path / "runs.csv"
    path.write_text("component,x,p,t,peak_bytes\n" + "".join(f"a,1,1,{t},{peak}\n" for t, peak in runs))
    said = json.loads(advise("--to", "nextflow-config", "--table", str(path), "--cores", "16", "--json"))
    (found,) = said["settings"]
    longest, largest = max(t for t, _ in runs), max(peak for _, peak in runs)
    assert found["cores"] == 1  # no other count was seen
    assert largest <= found["peak_bytes"] <= 2 * largest
    assert longest <= found["limit_s"] <= 4 * longest
    assert "seen on 1 core, 40 runs; no run took over " in found["why"]
    assert ", none over " in found["why"]


def test_memory_does_not_fall_with_cores_that_are_given(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    rows = [f"a,{size},{p},{60 * size / p},{size * 1e9 / p}\n" for size in (1, 2, 4) for p in (1, 2, 4)]
    path.write_text("component,x,p,t,peak_bytes\n" + "".join(rows))
    found = json.loads(advise("--to", "sbatch", "--table", str(path), "--json"))["settings"]
    assert found[0]["cores"] == 4
    assert 4e9 <= found[0]["peak_bytes"] <= 8e9  # as on one core: the largest seen


def test_limits_are_rounded_up() -> None:
    setting = AdvisedSetting("a", 2, 60.5, 2.0**20 + 1.0, "")
    assert setting.minutes == 2
    assert "--mem=2M --time=00:02:00" in WRITERS["sbatch"]([setting], {})


def test_memory_is_in_the_readers_unit() -> None:
    """Slurm and Nextflow count 1024 x 1024 bytes as M and MB, Snakemake 10^6: twice what was seen must not be 2.1 times."""
    setting = AdvisedSetting("a", 2, 60.0, 8e9, "")
    written = {kind: write([setting], {}) for kind, write in WRITERS.items()}
    assert "--mem=7630M" in written["sbatch"]
    assert "memory = 7630.MB" in written["nextflow-config"]
    assert "mem_mb: 8000\n" in written["snakemake-profile"]


def test_no_size_is_named_where_one_was_seen() -> None:
    advisor = Advisor()
    for size in (None, 4.0):
        for _ in range(5):
            advisor.observe("sized" if size else "bare", predictor=size, cores=1, elapsed_s=60.0)
    for known in advisor.status(components=True)["components"]:
        setting = _setting(advisor, known, None, None, 0.05, 0.9)
        assert isinstance(setting, AdvisedSetting)
        assert setting.why.startswith("1 core, 60 s expected, seen on 1 core, 5 runs")


def test_a_name_cannot_end_its_comment() -> None:
    for write in WRITERS.values():
        lines = write([], {"a\nrm -rf /": "no\u2028run"}).splitlines()
        assert not any(line.startswith("rm") for line in lines)


def test_a_file_is_written(table: Path, tmp_path: Path) -> None:
    advise("--to", "sbatch", "--table", str(table), "--out", str(tmp_path / "new" / "jobs.sh"))
    assert "count_words" in (tmp_path / "new" / "jobs.sh").read_text()


def test_the_profile_passes_snakemakes_dry_run(table: Path, tmp_path: Path) -> None:
    command = os.environ.get("ADVISOR_SNAKEMAKE") or shutil.which("snakemake")
    if command is None:
        pytest.skip(
            "NOT TESTED: no snakemake; install it in a venv of its own and set ADVISOR_SNAKEMAKE to its command"
        )
    profile = tmp_path / "profile"
    advise("--to", "snakemake-profile", "--table", str(table), "--out", str(profile))
    (tmp_path / "in.txt").write_text("words")
    (tmp_path / "Snakefile").write_text(
        "rule count_words:\n    input: 'in.txt'\n    output: 'out.txt'\n    threads: 1\n    shell: 'wc {input} > {output}'\n"
    )
    done = subprocess.run(
        [command, "--profile", str(profile), "--cores", "8", "--dry-run", "out.txt"],
        cwd=tmp_path, env=os.environ | {"HOME": str(tmp_path)}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    reported = done.stdout + done.stderr
    assert done.returncode == 0, reported
    assert "threads: 4" in reported
    assert "mem_mb=" in reported
    assert "runtime=" in reported
