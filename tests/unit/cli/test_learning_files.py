"""`advisor learn --from nextflow|snakemake|sacct|wfformat`: each run teaches once, failed ones are counted, bad ones told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from advisor.cli import main
from advisor.cli.source import stored

SAMPLES = Path(__file__).parents[2] / "golden" / "run_files"
FILES = {
    "nextflow": "trace.txt", "snakemake": "count_words.a.tsv", "sacct": "sacct.txt", "wfformat": "nextflow.wfformat.json",
}  # fmt: skip
LEARNED = {
    "nextflow": (4, 0, 2),
    "snakemake": (3, 0, 1),
    "sacct": (6, 0, 2),
    "wfformat": (3, 0, 0),
}  # runs, failed, bad


def learn(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[list[dict[str, Any]], str]:
    with pytest.raises(SystemExit) as caught:
        main(["learn", "--json", *map(str, arguments)])
    reported = capsys.readouterr()
    assert not caught.value.code, reported.err
    return json.loads(reported.out)["files"], reported.err


def totals(state: Path) -> tuple[int, int]:
    known = stored(state).status()["components"]
    return sum(each["rows"] for each in known), sum(each["failed"] for each in known)


@pytest.mark.parametrize("kind", FILES)
def test_a_file_teaches_once(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    state, sample = tmp_path / "state", SAMPLES / FILES[kind]
    (reported,), refused = learn(capsys, "--from", kind, sample, "--state", state)
    runs, failed, bad = LEARNED[kind]
    assert (reported["runs"], reported["failed"], reported["bad"], reported["refused"]) == (runs, failed, bad, {})
    assert refused.count("is not ") == bad
    assert totals(state) == (runs, failed)
    copied = tmp_path / "copied" / sample.name
    copied.parent.mkdir()
    copied.write_bytes(sample.read_bytes())
    for reported in learn(capsys, "--from", kind, sample, copied, "--state", state)[0]:
        assert (reported["runs"], reported["failed"], reported["learned_before"]) == (0, 0, runs + failed)
    assert totals(state) == (runs, failed)


def test_a_file_that_has_grown_teaches_what_is_new(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (SAMPLES / "trace.txt").read_text().splitlines(keepends=True)
    trace, state = tmp_path / "trace.txt", tmp_path / "state"
    learned = 0
    for end in range(2, len(lines) + 1):
        trace.write_text("".join(lines[:end]))
        (reported,), _ = learn(capsys, "--from", "nextflow", trace, "--state", state)
        assert reported["learned_before"] == learned
        learned += reported["runs"] + reported["failed"]
    assert totals(state) == (4, 0)


def test_peak_memory_is_learned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state"
    learn(capsys, "--from", "sacct", SAMPLES / "sacct.txt", "--state", state)
    peak = stored(state).predict("align", cores=8, measure="peak_bytes")
    assert float(peak.elapsed_s) == pytest.approx(8 * 2**30, rel=0.2)


def test_what_is_wrong_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(*arguments: object) -> str:
        with pytest.raises(SystemExit) as caught:
            main(["learn", *map(str, arguments)])
        assert caught.value.code == 2
        return capsys.readouterr().err

    state = ("--state", tmp_path / "state")
    assert "with a column s" in fails("--from", "snakemake", SAMPLES / "trace.txt", *state)
    assert "--benchmark-extended" in fails("--from", "snakemake", SAMPLES / "trace.txt", *state)
    assert "are of --from snet" in fails("--from", "sacct", SAMPLES / "sacct.txt", "--ended", *state)
    assert "one directory" in fails("--from", "snet", tmp_path, tmp_path, *state)
    assert "'sacct'" in fails("--from", "slurm", SAMPLES / "sacct.txt", *state)
