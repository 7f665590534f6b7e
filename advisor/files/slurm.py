"""Slurm's accounts of jobs, as ``sacct -P`` prints them, with any `--delimiter`: a line a job, and one for each of its steps.

A component is a job's name, or, where Snakemake named it after its whole run, the rule in its `Comment`; all tasks of an
array are runs of it. A step that `srun` began is a run of JOB/STEP. The peak of a job's memory is that of its steps, those of
its script (``batch``) and of what else ran (``extern``) among them. Slurm knows nothing of inputs: there is no predictor.

Accounts asked for again have the jobs that ended meanwhile among those that had ended before. Where they tell when each ended
(`End`), rows are numbered in that order; elsewhere those behind a job that has not ended wait for it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from advisor.files.lines import BadCell, Lines, number_of
from advisor.files.run_files import Passed, Ran, RunEntry, bytes_of, clock_of, delimiter_of

HINT = "sacct -P --format=JobID,JobName,State,AllocCPUS,ElapsedRaw,MaxRSS,End"
NEEDED = ("JobID", "JobName", "State")
CORES = ("AllocCPUS", "NCPUS", "AllocTRES")  # numbers of nodes alone tell of no cores
TRES = re.compile(r"\bcpu=(\d+)")  # billing=4,cpu=4,mem=8G,node=1
RUN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # of Snakemake, which names all its jobs by it
RULE = re.compile(r"rule_(.+?)(_wildcards_.*)?")
ELAPSED = ("ElapsedRaw", "Elapsed")
END = "End"
NOT_ENDED = (
    "PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING", "CONFIGURING", "COMPLETING", "SIGNALING", "STAGE_OUT", "STOPPED",
    "SPECIAL_EXIT", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD",
)  # fmt: skip
FAILED = (
    "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "CANCELLED", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "PREEMPTED", "REVOKED",
    "LAUNCH_FAILED", "RECONFIG_FAIL",
)  # fmt: skip
KILLED = {"OUT_OF_MEMORY": "memory", "TIMEOUT": "time"}
UNENDED = "not ended"
WAITS = "behind a job that has not ended: give --format a column End"
INNER = ("batch", "extern", "interactive")  # steps that Slurm makes: their time is the job's


def runs(lines: Lines) -> Iterator[RunEntry]:
    """Yield what accounts tell; raises InvalidValue where they are none, or have no cores or times."""
    header = lines.first()
    delimiter = delimiter_of(header)
    there = header.split(delimiter)
    cores, elapsed = (next((name for name in names if name in there), names[0]) for names in (CORES, ELAPSED))
    rows = lines.by_column(delimiter, (*NEEDED, cores, elapsed), HINT)
    entries = _in_order(rows, cores, elapsed)
    if END in there:
        yield from (each for _, each in sorted(entries, key=lambda found: _instant(found[0])))
        return
    waits = False
    for _, each in entries:
        waits = waits or (isinstance(each, Passed) and each.why == UNENDED)
        yield Passed(each.line, WAITS) if waits and isinstance(each, Ran) else each


def _instant(end: str) -> str:
    """Return an end by which others are sorted: in UTC where it has an offset, as `SLURM_TIME_FORMAT` may have it."""
    try:
        at = datetime.fromisoformat(end)
    except ValueError:
        return end
    return end if at.tzinfo is None else at.astimezone(UTC).isoformat()


def _in_order(
    rows: Iterator[tuple[int, dict[str, str]] | BadCell], cores: str, elapsed: str
) -> Iterator[tuple[str, RunEntry]]:
    """Yield what each line tells, with its end: a job behind its steps."""
    job: tuple[int, Mapping[str, str]] | None = None
    peak = math.nan

    def of_job(number: int, row: Mapping[str, str]) -> tuple[str, RunEntry]:
        return row.get(END, ""), _entry_of_row(number, row, _name(row), cores, elapsed, peak)

    for each in rows:
        if isinstance(each, BadCell):
            yield "", each
            continue
        number, row = each
        id_, _, step = row["JobID"].partition(".")
        if not step:
            if job is not None:
                yield of_job(*job)
            job, peak = (number, row), math.nan
        elif job is None or job[1]["JobID"] != id_:
            yield "", BadCell(number, "JobID", row["JobID"], "a step behind the line of its job")
            continue
        memory = bytes_of(row.get("MaxRSS", ""))
        peak = memory if math.isnan(peak) else max(peak, memory) if memory == memory else peak  # noqa: PLR0124 - NaN is not itself
        if step and step not in INNER:
            name = f"{_name(job[1])}/{row['JobName']}"
            yield row.get(END, ""), _entry_of_row(number, row, name, cores, elapsed, memory)
    if job is not None:
        yield of_job(*job)


def _name(job: Mapping[str, str]) -> str:
    rule = RULE.fullmatch(job.get("Comment", ""))
    return rule[1] if rule is not None and RUN.fullmatch(job["JobName"]) else job["JobName"]


def _entry_of_row(number: int, row: Mapping[str, str], name: str, cores: str, elapsed: str, peak: float) -> RunEntry:
    state = row["State"].split(" ")[0].rstrip("+")  # CANCELLED by 1000, or cut short
    if state in NOT_ENDED:
        return Passed(number, UNENDED)
    ok = state == "COMPLETED"
    processors = TRES.search(row[cores]) if cores == "AllocTRES" else None
    count = number_of(row[cores] if processors is None else processors[1])
    if not ok and state not in FAILED:
        return BadCell(number, "State", row["State"], f"COMPLETED, {', '.join((*FAILED, *NOT_ENDED))}")
    seconds = number_of(row[elapsed]) if elapsed == ELAPSED[0] else clock_of(row[elapsed])
    if ok and seconds == 0.0:
        return Passed(number, "shorter than a second")
    if not ok and not (seconds > 0.0 and count > 0.0):
        return Passed(number, "failed before it began")
    cells = {
        "component": ("JobName", name), "elapsed_s": (elapsed, row[elapsed]), "cores": (cores, row[cores]),
        "peak_bytes": ("MaxRSS", row.get("MaxRSS", "")),
    }  # fmt: skip
    peak_bytes = peak if peak > 0.0 else None
    return Ran(number, name, 1.0, count, seconds, cells, peak_bytes, ok or state in KILLED, KILLED.get(state))
