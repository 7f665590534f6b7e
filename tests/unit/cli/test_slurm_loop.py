"""`advisor slurm`: each ended job is learned once, and the advice is a file that Slurm's plugin reads whole."""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import date, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from advisor import Advisor
from advisor.cli.slurm_loop import (
    Partition,
    advice_text,
    allowed_in,
    ended_jobs,
    lua_text,
    partitions,
    slurm_command,
)

HEADER = "JobID|JobName|State|AllocCPUS|ElapsedRaw|MaxRSS|End"
DAY = date(2026, 3, 1)
PLUGIN = Path(__file__).parents[3] / "adapters" / "slurm" / "job_submit.lua"
LUA = next((found for name in ("lua", "lua5.1", "lua5.4", "lua5.3") if (found := shutil.which(name))), None)


def job(number: int, name: str, cores: int, seconds: int, end: str) -> list[str]:
    return [
        f"{number}|{name}|COMPLETED|{cores}|{seconds}||{end}",
        f"{number}.batch|batch|COMPLETED|{cores}|{seconds}|20000K|{end}",
    ]


def test_only_jobs_that_ended_on_the_day_and_before_the_lag_are_learned() -> None:
    lines = [
        HEADER, *job(1, "late", 4, 90, "2026-03-02T00:00:10"), *job(2, "blur", 4, 10, "2026-03-01T10:00:00"),
        "3|runs|RUNNING|4|10||Unknown", *job(4, "young", 4, 10, "2026-03-01T12:00:01"),
    ]  # fmt: skip
    kept = list(ended_jobs(lines, DAY, datetime(2026, 3, 1, 12).astimezone()))
    assert kept == [HEADER, *job(2, "blur", 4, 10, "2026-03-01T10:00:00")]
    assert list(ended_jobs([], DAY, datetime(2026, 3, 1, 12).astimezone())) == []


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Commands of Slurm that print what the files beside them hold."""
    for name, text in (
        ("sacct", f"{HEADER}\n"), ("scontrol", "ClusterName = here\n"),
        ("sinfo", "main|64|2|8000|infinite\nmain|32+|1|4000|infinite\nbig|128|1|64000|1-00:30:00\n"),
    ):  # fmt: skip
        (tmp_path / f"{name}.txt").write_text(text)
        (tmp_path / name).write_text(f'#!/bin/sh\ncat "{tmp_path}/{name}.txt"\n')
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def look(slurm: Path, *more: str) -> str:
    advice, state = slurm / "advice.lua", slurm / "advisor.state"
    done = CliRunner().invoke(
        slurm_command,
        ["--once", "--advice", str(advice), "--state", str(state), "--since", f"{date.today()}", *more],  # noqa: DTZ011
    )
    assert done.exit_code == 0, done.output
    return done.output


def test_each_job_is_learned_once_however_often_the_accounts_are_read(slurm: Path) -> None:
    assert look(slurm).startswith("0 runs learned; advice for 0 job names")
    today = f"{date.today()}"  # noqa: DTZ011
    rows = [HEADER, *job(1, "blur", 4, 10, f"{today}T00:00:01")]
    (slurm / "sacct.txt").write_text("\n".join(rows) + "\n")
    assert look(slurm).startswith("1 run learned; advice for 1 job name")
    # a job of a lower number that ended later stands before those that are known
    rows[1:1] = job(0, "sort", 8, 20, f"{today}T00:00:02")
    (slurm / "sacct.txt").write_text("\n".join(rows) + "\n")
    assert look(slurm).startswith("1 run learned; advice for 2 job names")
    assert look(slurm).startswith("0 runs learned; advice for 2 job names")
    assert '["sort"]' in (slurm / "advice.lua").read_text()


def test_nodes_are_counted_where_they_are_chosen(slurm: Path) -> None:
    today = f"{date.today()}"  # noqa: DTZ011
    rows = [HEADER.replace("AllocCPUS", "AllocNodes"), *job(1, "blur", 2, 10, f"{today}T00:00:01")]
    (slurm / "sacct.txt").write_text("\n".join(rows) + "\n")
    assert look(slurm, "--unit", "nodes").startswith("1 run learned; advice for 1 job name")


def test_a_command_of_slurm_that_fails_is_reported_with_what_it_said(slurm: Path) -> None:
    (slurm / "sacct").write_text("#!/bin/sh\necho no database >&2\nexit 1\n")
    done = CliRunner().invoke(
        slurm_command, ["--once", "--advice", str(slurm / "advice.lua"), "--state", str(slurm / "advisor.state")]
    )
    assert done.exit_code == 1
    assert "sacct failed: no database" in done.output


def test_partitions_are_read_with_what_one_job_may_have(slurm: Path) -> None:
    assert partitions("cpus") == [
        Partition("main", 64 * 2 + 32, 64, 8000), Partition("big", 128, 128, 64000, 24 * 60 + 30),
    ]  # fmt: skip
    assert partitions("nodes") == [Partition("main", 3, 3, 8000), Partition("big", 1, 1, 64000, 24 * 60 + 30)]


@pytest.mark.parametrize(
    ("allowed", "found"),
    [
        (None, {"min": 1, "max": 64, "power_of": 2}),
        ([1, 64, 128], [1, 64]),
        ([128], None),
        ({"min": 8, "max": 512, "multiple_of": 8}, {"min": 8, "max": 64, "multiple_of": 8}),
        ({"min": 65, "multiple_of": 1}, None),
    ],
)
def test_no_count_is_advised_that_no_node_has(allowed: object, found: object) -> None:
    assert allowed_in(Partition("main", 128, 64, 8000), allowed) == found


def test_limits_are_no_larger_than_a_partition_has() -> None:
    small = advice_text(taught(), [Partition("main", 64, 64, 60, 15.0)], None, "cpus", 0.99)[0]
    for key, most in (("minutes", 15), ("megabytes", 60)):
        assert max(int(found) for found in re.findall(rf"{key} = (\d+)", small)) == most


def test_advice_that_cannot_be_written_is_an_error_and_leaves_what_is_there(slurm: Path) -> None:
    done = CliRunner().invoke(
        slurm_command,
        ["--once", "--advice", str(slurm / "none" / "advice.lua"), "--state", str(slurm / "advisor.state")],
    )
    assert done.exit_code == 1
    assert "cannot be written: No such file or directory" in done.output


@pytest.mark.skipif(LUA is None, reason="no Lua interpreter is installed: its strings are not read")
@pytest.mark.parametrize("name", ['a"b', "a\\", "Größe", "x\n]] os.exit(1)", "%d", "\u2028", "0" * 3 + "9"])
def test_any_name_reads_back_in_lua(name: str, tmp_path: Path) -> None:
    script = tmp_path / "print.lua"
    script.write_text(f"io.write({lua_text(name)})")
    assert subprocess.run([str(LUA), script], capture_output=True, check=True).stdout == name.encode()


def taught() -> Advisor:
    adv = Advisor()
    for cores in (1, 2, 4, 8, 16) * 4:
        adv.observe(
            "blur",
            predictor=1.0,
            cores=cores,
            elapsed_s=6000 * (0.05 + 0.95 / cores),
            measures={"peak_bytes": 50 * 2.0**20},
        )
    return adv


def test_a_job_pays_for_the_cores_that_it_takes_from_others() -> None:
    text, names = advice_text(taught(), [Partition("main", 64, 64, 8000)], None, "cpus", 0.99)
    assert names == 1
    steps = re.search(r'\["blur"\] = (.*),', text)
    assert steps is not None
    counts = [int(count) for count in re.findall(r"count = (\d+)", steps[1])]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] >= 16
    assert counts[-1] <= 2
    minutes, megabytes = (
        [int(found) for found in re.findall(rf"{key} = (\d+)", steps[1])] for key in ("minutes", "megabytes")
    )
    assert minutes[1:] == sorted(minutes[1:])  # fewer cores take longer; the first count was never seen
    assert all(50 <= each <= 100 for each in megabytes)


def test_no_time_limit_is_set_on_fewer_cores_than_any_run_had() -> None:
    adv = Advisor()
    for cores, seconds in ((8, 7.0), (4, 12.0), (4, 12.0)):
        adv.observe("blur", predictor=1.0, cores=cores, elapsed_s=seconds, measures={"peak_bytes": 5e7})
    found = Partition("main", 64, 64, 8000)
    for allowed, keys in (([2], {"megabytes"}), ([4], {"megabytes", "minutes"}), ([16], {"megabytes", "minutes"})):
        steps = advice_text(adv, [found], allowed, "cpus", 0.99)[0].partition('["blur"]')[2]
        assert {*re.findall(r"(megabytes|minutes) = ", steps)} == keys


@pytest.mark.skipif(LUA is None, reason="no Lua interpreter is installed: the plugin is not run")
def test_the_plugin_advises_jobs_that_give_no_count_and_leaves_the_others(tmp_path: Path) -> None:
    advice = tmp_path / "advice.lua"
    advice.write_text(advice_text(taught(), [Partition("main", 64, 64, 8000)], [1, 2, 4, 8, 16, 32], "cpus", 0.99)[0])
    script = tmp_path / "run.lua"
    script.write_text("""
slurm = {jobs = {}, SUCCESS = 0, log_info = function() end, log_error = function(...) print(string.format(...)) end}
dofile(arg[1])
local partitions = {main = {flag_default = 1}}
local function submit(job)
  job.cpus_per_task, job.num_tasks = job.cpus_per_task or 65534, job.num_tasks or 4294967294
  job.time_limit = job.time_limit or 4294967294
  assert(slurm_job_submit(job, partitions, 0) == slurm.SUCCESS)
  print(job.cpus_per_task, job.min_mem_per_node, job.time_limit)
end
submit({name = "blur"})
for i = 1, 100 do slurm.jobs[i] = {partition = "main", job_state = 0} end
submit({name = "blur"})
submit({name = "never seen"})
submit({name = "blur", cpus_per_task = 3})
submit({name = "blur", num_tasks = 2})
submit({name = "blur", partition = "other"})
submit({name = "blur", min_mem_per_node = 7, time_limit = 9})
local file = io.open(os.getenv("ADVISOR_SLURM_ADVICE"), "w")
file:write("-- version 2\\nreturn os.exit(1)\\n")
file:close()
submit({name = "blur"})
os.remove(os.getenv("ADVISOR_SLURM_ADVICE"))
submit({name = "blur"})
""")
    done = subprocess.run(
        [str(LUA), script, PLUGIN],
        env={"ADVISOR_SLURM_ADVICE": str(advice)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    idle, busy, unknown, own, tasks, other, limited, broken, gone = (line.split() for line in done.stdout.splitlines())
    assert int(idle[0]) >= 16
    assert int(busy[0]) < int(idle[0])
    assert int(idle[2]) < int(busy[2])
    assert unknown == ["1", "nil", "4294967294"]
    assert own == ["3", "nil", "4294967294"]
    assert tasks == other == gone == ["65534", "nil", "4294967294"]
    assert limited[1:] == ["7", "9"]
    assert broken[0] == busy[0]  # a file that cannot be read changes nothing
