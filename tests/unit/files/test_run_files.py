"""Files in which runtimes tell of runs: samples in the shape of real ones, what is refused, one identity a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import InvalidValue
from advisor.files import nextflow, slurm, snakemake, workflows
from advisor.files.run_files import Reader, RunFile

SAMPLES = Path(__file__).parents[2] / "golden" / "run_files"
READERS: dict[str, Reader] = {
    "nextflow": nextflow.runs, "sacct": slurm.runs, "snakemake": snakemake.runs, "wfformat": workflows.runs,
}  # fmt: skip
GIB = 2.0**30
Plain = tuple[str, float, float, float, dict[str, Any]]


def read(kind: str, path: Path) -> tuple[RunFile, list[Plain]]:
    file = RunFile(path, kind, READERS[kind])
    rows = list(file.read())
    assert file.rows == len(rows)
    assert [row.sequence for row in rows] == list(range(1, len(rows) + 1))
    return file, [tuple(row[2:]) for row in rows]


def peak(size: float) -> dict[str, Any]:
    return {"measures": {"peak_bytes": pytest.approx(size)}}


def test_a_trace_of_nextflow() -> None:
    file, rows = read("nextflow", SAMPLES / "trace.txt")
    name = "NFCORE_RNASEQ:RNASEQ:"
    assert rows == [
        (name + "FASTQC", pytest.approx(12.1 * GIB), 6.0, 4149.0, peak(35.4 * GIB)),
        (name + "FASTQC", pytest.approx(9.8 * GIB), 6.0, 3090.0, peak(34.9 * GIB)),
        (name + "SALMON_QUANT", pytest.approx(5.5 * GIB), 8.0, 238.0, {"killed": "memory", **peak(62.8 * GIB)}),
        (name + "SAMPLESHEET_CHECK", 0.0, 1.0, pytest.approx(0.041), {}),
    ]
    assert all("ok" not in more for *_, more in rows)
    assert file.passed == {"from the cache": 1, "failed without a time": 1}
    assert [(bad.line, bad.column, bad.value) for bad in file.first_refused] == [
        (8, "realtime", "soon"),
        (9, "peak_rss", "lots"),
    ]


def test_a_raw_trace_counts_milliseconds_and_bytes_and_busy_cores_where_none_were_asked_for() -> None:
    _, rows = read("nextflow", SAMPLES / "trace_raw.txt")
    assert rows == [
        ("ALIGN", 12992e6, 4.0, 4149.0, peak(38010880000)),
        ("ALIGN", 6992e6, 1.0, 2149.0, peak(19010880000)),
    ]


@pytest.mark.parametrize(("code", "more"), [(137, {"killed": "memory"}), (140, {"killed": "time"}), (1, {"ok": False})])
def test_a_task_of_nextflow_that_was_killed_is_a_lower_bound(tmp_path: Path, code: int, more: dict[str, Any]) -> None:
    path = tmp_path / "trace.txt"
    path.write_text(f"name\tstatus\texit\trealtime\nALIGN (1)\tFAILED\t{code}\t4s\nALIGN (2)\tCOMPLETED\t0\t6s\n")
    assert read("nextflow", path)[1] == [("ALIGN", 1.0, 1.0, 4.0, more), ("ALIGN", 1.0, 1.0, 6.0, {})]


def test_accounts_of_slurm_with_steps_and_arrays_in_the_order_of_their_ends() -> None:
    file, rows = read("sacct", SAMPLES / "sacct.txt")
    assert rows == [
        ("sweep", 1.0, 4.0, 600.0, {"killed": "memory", **peak(16 * GIB)}),
        ("align/bwa", 1.0, 8.0, 3600.0, peak(8 * GIB)),
        ("align", 1.0, 8.0, 3723.0, peak(8 * GIB)),
        ("coupled/ocean", 1.0, 16.0, 1740.0, peak(3 * GIB)),
        ("coupled", 1.0, 32.0, 1800.0, peak(3 * GIB)),
        ("sweep", 1.0, 4.0, 86410.0, peak(1.5 * GIB)),
    ]
    assert all("ok" not in more for *_, more in rows)
    assert file.passed == {"not ended": 2, "failed before it began": 2, "shorter than a second": 1}
    assert {(bad.line, bad.column, bad.value) for bad in file.first_refused} == {
        (13, "Elapsed", "later"),
        (14, "JobID", "4107.batch"),
    }


JOBS = [(4101, 60, 100), (4102, 900, 950), (4103, 30, 130), (4104, 500, 640), (4105, 10, 150)]  # id, seconds, its end


def accounts(now: int, *, ends: bool) -> str:
    """Return what `sacct -P` tells at a time, of jobs in the order of their numbers."""
    lines = ["JobID|JobName|State|AllocCPUS|ElapsedRaw|MaxRSS" + "|End" * ends]
    for id_, seconds, end in JOBS:
        state, at = (
            ("COMPLETED", f"2026-03-02T{end // 60:02}:{end % 60:02}:00") if end <= now else ("RUNNING", "Unknown")
        )
        for number, name in ((f"{id_}", "sort"), (f"{id_}.batch", "batch"), (f"{id_}.0", "step")):
            lines.append(f"{number}|{name}|{state}|4|{seconds}|1024K" + f"|{at}" * ends)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("ends", [True, False])
@given(st.lists(st.integers(60, 1000), max_size=6))
def test_accounts_asked_for_again_and_again_teach_each_run_once(
    tmp_path_factory: pytest.TempPathFactory, ends: bool, times: list[int]
) -> None:
    path = tmp_path_factory.mktemp("accounts") / "sacct.txt"
    taught: dict[str, list[Plain]] = {}
    for now in [*sorted(times), 1000]:
        path.write_text(accounts(now, ends=ends))
        for row in RunFile(path, "sacct", slurm.runs).read():
            known = taught.setdefault(row.producer, [])
            if row.sequence > len(known):
                known.append(tuple(row[2:]))
    reported = [(component, elapsed_s) for rows in taught.values() for component, _, _, elapsed_s, _ in rows]
    if ends or not times or min(times) >= JOBS[0][2]:  # else its first row changes, by which the file is known
        assert sorted(reported) == sorted((name, float(each[1])) for each in JOBS for name in ("sort", "sort/step"))


def test_benchmarks_of_snakemake() -> None:
    file, rows = read("snakemake", SAMPLES / "count_words.a.tsv")
    assert rows == [
        ("count_words", 5000.0, 2.0, 0.26, peak(3.10 * 2**20)),
        ("count_words", 2000000.0, 2.0, 0.31, peak(3.07 * 2**20)),
        ("count_words", 2.0 * 2**20, 4.0, 1.5, {}),
    ]
    assert [(bad.line, bad.column, bad.value) for bad in file.first_refused] == [(4, "s", "0.00")]


def test_an_ordinary_benchmark_is_of_its_file_on_the_cores_that_were_busy(tmp_path: Path) -> None:
    path = tmp_path / "A.bwa.benchmark.txt"
    path.write_text(
        "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"
        "12.5000\t0:00:12\t310.20\t900.1\t300.0\t305.0\t10.0\t5.0\t374.20\t46.8\n"
        "0.2000\t0:00:00\t-\t-\t-\t-\t-\t-\t-\t-\n"
        "2.0000\t0:00:02\t3.0\t1\t1\t1\t1\t1\tbusy\t1\n"
        "1.1000\t0:00:01\t0.00\t1\t1\t1\t1\t1\t0.00\t0.1\n"
        "2.0000\t0:00:02\t-\t-\t-\t-\t-\t-\t-\t-\n"
        "12.50\t0:00:12\t3.00\t1\t1\t1\t1\t1\t2.35\t29.40\n"
    )
    file, rows = read("snakemake", path)
    assert rows == [
        ("A.bwa", 1.0, 4.0, 12.5, peak(310.2 * 2**20)),
        ("A.bwa", 1.0, 1.0, 0.2, {}),
        ("A.bwa", 1.0, 1.0, 1.1, {}),
        ("A.bwa", 1.0, 3.0, 12.5, peak(3 * 2**20)),
    ]
    assert file.passed == {"without a load: its cores are not known": 1}
    assert [(bad.line, bad.column) for bad in file.first_refused] == [(4, "mean_load")]


def test_names_in_latin_1_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_bytes(
        "JobID|JobName|State|AllocCPUS|ElapsedRaw\n1|caf\xe9|COMPLETED|1|5\n2|caf\xe8|COMPLETED|1|6\n".encode("latin-1")
    )
    assert [row[0] for row in read("sacct", path)[1]] == ["caf\xe9", "caf\xe8"]


@pytest.mark.parametrize(
    ("kind", "name", "text", "learned", "passed"),
    [
        ("wfformat", "flow.json",
         {"workflow": {"tasks": [{"name": "a", "runtime": 0.0}, {"name": "b", "runtime": "2.5"}, {"name": "c"}]}},
         [("b", 2.5)], {workflows.ZERO: 1, workflows.TIMELESS: 1}),
        ("nextflow", "trace.txt", "name\tstatus\trealtime\trchar\na\tCOMPLETED\t0ms\t-\na\tCOMPLETED\t2s\t3 KB\n",
         [("a", 2.0)], {workflows.ZERO: 1}),
        ("nextflow", "trace.csv", "name,status,realtime,rchar\na,COMPLETED,2s,3 KB\n", [("a", 2.0)], {}),
        ("snakemake", "sort.tsv", "s\th:m:s\n12.3\t0:00:12\n", [], {"without a load: its cores are not known": 1}),
        ("wfformat", "flow.json",
         {"workflow": {"specification": {"tasks": [{"name": "a_1", "id": "1"}]},
                       "execution": {"tasks": [{"id": "1", "runtimeInSeconds": 4.0}, {"id": "2", "runtimeInSeconds": 5.0}]}}},
         [("a", 4.0)], {workflows.UNSPECIFIED: 1}),
        ("nextflow", "trace.txt",  # of a killed task nothing is measured
         "name\tstatus\texit\trealtime\trchar\nb (x)\tFAILED\t137\t3m 5s\t-\nb (y)\tCOMPLETED\t0\t2m\t1 GB\n",
         [("b", 120.0)], {"not measured": 1}),
        ("snakemake", "all.tsv", "rule\tinput_size_mb\tthreads\ts\th:m:s\nsort\t2.5\t4\t12.3\t0:00:12\n", [("sort", 12.3)], {}),
        ("sacct", "jobs.tsv", "State\tJobID\tJobName\tNCPUS\tElapsed\nCOMPLETED\t7\talign\t16\t01:00:02\n",
         [("align", 3602.0)], {}),
        ("sacct", "jobs.csv", "JobID,JobName,State,AllocCPUS,ElapsedRaw,End\n7,align,COMPLETED,16,90,2026-03-02T10:00:00\n",
         [("align", 90.0)], {}),
        ("sacct", "rules.txt",
         ("JobID|JobName|Comment|State|AllocCPUS|ElapsedRaw\n"
          "7|0a1b2c3d-1111-2222-3333-444455556666|rule_sort_wildcards_s1|COMPLETED|4|90\n7.0|python3||COMPLETED|4|80\n"
          "8|0a1b2c3d-1111-2222-3333-444455556666|rule_all_reads|COMPLETED|4|70\n9|align|rule_7|COMPLETED|4|60\n"),
         [("sort/python3", 80.0), ("sort", 90.0), ("all_reads", 70.0), ("align", 60.0)], {}),
        ("sacct", "jobs.txt",  # 12:00 east of Greenwich is before 08:00 west of it
         ("JobID|JobName|State|AllocCPUS|ElapsedRaw|End\n2|b|COMPLETED|1|5|2021-03-01T08:00:00-0300\n"
          "1|a|COMPLETED|1|4|2021-03-01T12:00:00+0545\n"), [("a", 4.0), ("b", 5.0)], {}),
    ],
    ids=["wfformat", "no time", "commas", "no psutil", "a run without a task", "killed", "rule",
         "tabs", "sacct commas", "rules", "time zones"],
)  # fmt: skip
def test_what_real_files_hold_is_learned_or_counted_with_the_reason(
    tmp_path: Path, kind: str, name: str, text: Any, learned: list[tuple[str, float]], passed: dict[str, int]
) -> None:
    path = tmp_path / name
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    file, rows = read(kind, path)
    assert [(row[0], row[3]) for row in rows] == learned
    assert (file.refused, file.passed) == (0, passed)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("sacct", "JobID|JobName|State|Elapsed|AllocNodes|AllocTRES\n1|a|COMPLETED|00:01:00|1|billing=4,cpu=4,mem=8G,node=1\n"),
        ("wfformat", {"workflow": {"tasks": [{"name": "a", "runtime": 60.0, "avgCPU": 312.5}]}}),
    ],
)  # fmt: skip
def test_cores_are_those_that_a_file_has_in_place_of_a_count(tmp_path: Path, kind: str, text: Any) -> None:
    path = tmp_path / "runs"
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    assert [row[2:4] for row in read(kind, path)[1]] == [(4.0, 60.0)]


def test_benchmarks_as_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"s": 2.5, "max_rss": 3.0, "rule_name": "sort", "threads": 4, "input_size_mb": {"in": 1.0}}\n'
        '{"s": 2.5, "rule_name": "sort"}\n[1]\nno json\n'
    )
    file, rows = read("snakemake", path)
    assert rows == [("sort", 2.0**20, 4.0, 2.5, peak(3 * 2**20))]
    assert [(bad.line, bad.column) for bad in file.first_refused] == [(2, "threads"), (3, "s"), (4, "all")]


def test_json_lines_of_other_versions(tmp_path: Path) -> None:
    path = tmp_path / "sort.b.jsonl"
    path.write_text(
        '{"running_time": 7.25, "max_rss": null, "rule_name": "sort", "threads": 2, "input_size_mb": {}}\n'
        '{"s": 10.0, "h:m:s": "0:00:10", "max_rss": 2.0, "mean_load": 3.5, "cpu_time": 35.0}\n'
    )
    assert read("snakemake", path)[1] == [("sort", 0.0, 2.0, 7.25, {}), ("sort.b", 1.0, 4.0, 10.0, peak(2 * 2**20))]


def test_a_trace_with_decimal_commas_and_tasks_that_were_not_measured(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(
        "name\tstatus\trealtime\t%cpu\tpeak_rss\trchar\n"
        "a\tCOMPLETED\t8,5s\t199,3%\t1,5 GB\t2,5 KB\n"
        "a\tCOMPLETED\t32m 10s\t-\t-\t-\n"
        "a\tCOMPLETED\t40ms\t-\t-\t-\n"
        "a\tRUNNING\t-\t-\t-\t-\n"
    )
    file, rows = read("nextflow", path)
    assert rows == [("a", 2560.0, 2.0, 8.5, peak(1.5 * GIB)), ("a", 0.0, 1.0, pytest.approx(0.04), {})]
    assert (file.refused, file.passed) == (0, {"not measured": 1, "not ended": 1})


def test_a_workflow_of_the_first_versions_has_kilobytes_of_memory() -> None:
    _, rows = read("wfformat", SAMPLES / "jobs.wfformat.json")
    assert rows == [("split_fasta", 5000.0, 1.0, 4.2, peak(2.048e6)), ("blastall", 2500.0, 4.0, 20.5, peak(8.192e6))]


def test_a_task_of_a_workflow_is_no_script() -> None:
    file, rows = read("wfformat", SAMPLES / "nextflow.wfformat.json")
    assert rows == [
        ("NFCORE_RNASEQ:FASTQC", 1000.0, 6.0, 10.5, peak(2e6)),
        ("NFCORE_RNASEQ:FASTQC", 3000.0, 6.0, 30.5, peak(5e6)),
        ("multiqc", 4000.0, 1.0, 2.5, {}),
    ]
    assert (file.refused, file.passed) == (0, {workflows.TIMELESS: 1})


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("nextflow", "task_id\tname\n"),
        ("nextflow", "status\trealtime\n"),
        ("sacct", "JobID|JobName|State|Elapsed\n"),
        ("sacct", "JobID|JobName|State|AllocCPUS\n"),
        ("sacct", "JobID|JobName|State|NNodes|ElapsedRaw\n1|a|COMPLETED|2|5\n"),
        ("snakemake", "h:m:s\tmax_rss\n"),
        ("snakemake", "s\tthreads\tmax_rss\n"),
        ("snakemake", ""),
        ("wfformat", "no json"),
        ("wfformat", "[]"),
    ],
)
def test_a_file_of_another_format_is_told_with_what_to_do(tmp_path: Path, kind: str, text: str) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(InvalidValue):
        read(kind, path)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    for kind in READERS:
        with pytest.raises(InvalidValue, match="nowhere"):
            read(kind, tmp_path / "nowhere")


def test_a_file_is_known_wherever_it_lies_and_when_it_has_grown(tmp_path: Path) -> None:
    lines = (SAMPLES / "trace.txt").read_text().splitlines(keepends=True)
    shorter, moved = tmp_path / "a.txt", tmp_path / "b.txt"
    shorter.write_text("".join(lines[:3]))
    moved.write_text("".join(lines))
    few, all_ = (list(RunFile(path, "nextflow", nextflow.runs).read()) for path in (shorter, moved))
    assert all_[: len(few)] == few
    moved.write_text("".join([lines[0], lines[2], *lines[3:]]))
    assert {row.producer for row in RunFile(moved, "nextflow", nextflow.runs).read()} != {few[0].producer}


def test_a_last_line_without_an_end_is_told_and_learned_once_it_has_one(tmp_path: Path) -> None:
    path = tmp_path / "bench.tsv"
    path.write_text("s\tmax_rss\trule_name\tthreads\tinput_size_mb\n1.5\t3\ta\t4\t{}\n2.5\t3\ta\t4\t{}")
    file, rows = read("snakemake", path)
    assert [row[3] for row in rows] == [1.5]
    assert file.passed == {"without an end of line: still being written?": 1}
    path.write_text(path.read_text() + "\n")
    file, rows = read("snakemake", path)
    assert [row[3] for row in rows] == [1.5, 2.5]
    assert not file.passed


@pytest.mark.parametrize(("kind", "sample"), [("nextflow", "trace.txt"), ("snakemake", "count_words.a.tsv")])
def test_a_file_that_is_read_while_a_line_is_written_teaches_each_run_once(
    tmp_path: Path, kind: str, sample: str
) -> None:
    data, path = (SAMPLES / sample).read_bytes(), tmp_path / sample
    whole = list(RunFile(SAMPLES / sample, kind, READERS[kind]).read())
    for cut in range(data.index(b"\n") + 1, len(data)):
        path.write_bytes(data[:cut])
        found = list(RunFile(path, kind, READERS[kind]).read())
        assert found == whole[: len(found)], data[:cut][-20:]


@pytest.mark.parametrize("busy", ["inf", "1e999%", "-inf", "nan"])
def test_busy_cores_beyond_all_numbers_are_refused(tmp_path: Path, busy: str) -> None:
    path = tmp_path / "trace.txt"
    path.write_text(f"name\tstatus\trealtime\t%cpu\na\tCOMPLETED\t3s\t{busy}\nb\tCOMPLETED\t3s\t150%\n")
    file, rows = read("nextflow", path)
    assert ([row[2] for row in rows], file.refused) == ([2.0], 1)
