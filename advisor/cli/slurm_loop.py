"""`advisor slurm`: learn what Slurm's accounts say of ended jobs, and write advice that its job_submit plugin reads.

The plugin, ``adapters/slurm/job_submit.lua``, runs inside Slurm's controller and must never wait. So it reads a file that
has the choice for each job name at each load, and this loop writes the file anew, whole, after each look at the accounts.
"""

from __future__ import annotations

import math
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import click

from advisor.cli import options
from advisor.cli.advising import known_components, limits_of
from advisor.cli.learning import learn_file
from advisor.cli.learning_sinks import Sink, taught
from advisor.cli.options import command
from advisor.cli.source import errors_console
from advisor.cli.tables import several
from advisor.errors import (
    ConnectionFailed,
    NotAnswered,
    NotEnoughData,
    ServiceError,
    StorageFailed,
    Unavailable,
)
from advisor.files import slurm
from advisor.files.run_files import RunFile, clock_of
from advisor.files.settings import MEBIBYTE

if TYPE_CHECKING:
    from advisor import Advisor, SyncClient

LOADS: Final = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512)  # weights of other jobs in the partition: the advice's steps
LAG_S: Final = 5.0  # the controller reports an end to the database some seconds late: younger ends wait a round
COMMAND_S: Final = 60.0  # a command of Slurm that takes longer hangs
ENDED: Final = "CD,F,TO,OOM,CA,NF"  # completed, failed, out of time, out of memory, cancelled, node failed
UNITS: Final = {"cpus": "AllocCPUS", "nodes": "AllocNodes"}  # what is chosen, and the column that has it
UNKNOWN: Final = "a job of a name that was never run"


class Partition(NamedTuple):
    """A partition: all its cores (or nodes), and the most of them, of memory and of time that one job may have."""

    name: str
    cores: int
    most: int
    megabytes: int
    minutes: float = math.inf


ALLOWED = "Counts that a job may get, in each partition; absent: powers of two up to a node's CPUs."


@command(
    click.option("--advice", type=options.PATH, required=True, help="File to write: the plugin's ADVISOR_SLURM_ADVICE."),
    click.option("--allowed", type=options.ALLOWED, help=ALLOWED),
    click.option("--unit", type=click.Choice(list(UNITS)), default="cpus", show_default=True, help="What is chosen."),
    click.option("--level", default=0.99, show_default=True, help="Share of jobs that should keep memory and time limit."),
    click.option("--since", type=click.DateTime(["%Y-%m-%d"]),
                 help="Learn jobs that ended on this day or later; absent: today."),
    click.option("--every", "every_s", type=click.FloatRange(0.0, min_open=True), default=30.0, show_default=True,
                 help="Seconds between looks at the accounts."),
    click.option("--once", is_flag=True, help="Look once."),
    options.taught,
)  # fmt: skip
def slurm_command(
    advice: Path, allowed: Any, unit: str, level: float, since: datetime | None, every_s: float, once: bool, **source: Any
) -> None:  # fmt: skip
    """Learn ended jobs from sacct, and write advice for jobs that give no --cpus-per-task (or --nodes), until SIGINT.

    Each job is learned once, however often the loop is started. The plugin adapters/slurm/job_submit.lua reads the advice.
    """
    day = since.date() if since else _now().date()
    with tempfile.TemporaryDirectory() as folder, suppress(KeyboardInterrupt):
        while True:
            try:
                with taught(source) as sink:
                    day, learned = _learn_days(day, Path(folder), unit, sink)
                    text, names = advice_text(sink.advisor, partitions(unit), allowed, unit, level)
                _replace(advice, text)
                said = f"{several(learned, 'run')} learned; advice for {several(names, 'job name')}"
                options.put_line({"runs": learned, "job_names": names}, [said])
            except (ServiceError, ConnectionFailed, NotAnswered) as error:
                if once:
                    raise
                errors_console.print(f"{error}: looking again in {every_s:g} s", markup=False)
            if once:
                return
            time.sleep(every_s)


def _now() -> datetime:
    return datetime.now().astimezone()


def _learn_days(first: date, folder: Path, unit: str, sink: Sink) -> tuple[date, int]:
    """Learn the days from `first` on; return the day to go on with, and how many runs were new."""
    until = _now() - timedelta(seconds=LAG_S)
    learned, day = 0, first
    while day <= until.date():
        path = folder / f"{day}.txt"
        lines = ended_jobs(_accounts(day, unit), day, until)
        _write(path, "".join(f"{line}\n" for line in lines))
        file = RunFile(path, "sacct", slurm.runs, known_as=f"{_cluster()}:{day}:{unit}")
        learned += learn_file(file, sink, _ignore)["runs"]
        day += timedelta(days=1)
    return until.date(), learned


def _ignore(*_: object) -> None:
    """Move no bar."""


def ended_jobs(lines: Sequence[str], day: date, until: datetime) -> Iterator[str]:
    """Yield the header, and the lines of jobs and their steps that ended on a day, not after `until` (local time)."""
    if not lines:
        return
    yield lines[0]
    columns = lines[0].split("|")
    id_at, end_at = columns.index("JobID"), columns.index("End")
    wanted, last = "", until.strftime("%Y-%m-%dT%H:%M:%S")
    for line in lines[1:]:
        cells = line.split("|")
        job, _, step = cells[id_at].partition(".")
        if not step:
            wanted = job if cells[end_at].startswith(f"{day}T") and cells[end_at] <= last else ""
        if job == wanted:
            yield line


def _accounts(day: date, unit: str) -> list[str]:
    """Return what sacct prints of the jobs that ended on a day; where nodes are chosen, these are what is counted as cores."""
    columns = f"JobID,JobName,State,{UNITS[unit]},ElapsedRaw,MaxRSS,End"
    window = ("-S", f"{day}T00:00:00", "-E", f"{day}T23:59:59")
    lines = _printed("sacct", "-a", "-P", f"--format={columns}", "-s", ENDED, *window)
    return [line.replace(UNITS["nodes"], UNITS["cpus"]) for line in lines[:1]] + lines[1:]


def _cluster() -> str:
    name = next((line for line in _printed("scontrol", "show", "config") if line.startswith("ClusterName")), "=")
    return name.partition("=")[2].strip()


def partitions(unit: str) -> list[Partition]:
    """Return the partitions of the cluster."""
    found: dict[str, Partition] = {}
    for line in _printed("sinfo", "-h", "-e", "-o", "%R|%c|%D|%m|%l"):
        name, *sizes, time_limit = line.split("|")
        of_node, nodes, megabytes = (int(size.rstrip("+")) for size in sizes)
        cores, most = (nodes, nodes) if unit == "nodes" else (of_node * nodes, of_node)
        limit_s = clock_of(time_limit)
        minutes = math.floor(limit_s / 60.0) if limit_s > 0.0 else math.inf  # "infinite" is no clock
        before = found.get(name, Partition(name, 0, 0, 0))
        most = before.most + most if unit == "nodes" else max(before.most, most)
        found[name] = Partition(name, before.cores + cores, most, max(before.megabytes, megabytes), minutes)
    return list(found.values())


def allowed_in(partition: Partition, allowed: Any) -> Any:
    """Return the allowed counts that a job of a partition can have; None where it can have none of them."""
    if allowed is None:
        return {"min": 1, "max": partition.most, "power_of": 2}
    if isinstance(allowed, dict):
        form = cast("dict[str, int]", allowed)
        form = form | {"max": min(form.get("max", partition.most), partition.most)}
        return form if form.get("min", 1) <= form["max"] else None
    return [count for count in allowed if count <= partition.most] or None


def _printed(*command: str) -> list[str]:
    """Return the lines that a command of Slurm prints; raises Unavailable where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", None) or error)
        raise Unavailable(
            f"{command[0]} failed: {' '.join(said.split())[:300]}", hint="does it work in this shell?"
        ) from error
    return done.stdout.splitlines()


def advice_text(
    advisor: Advisor | SyncClient, found: Sequence[Partition], allowed: Any, unit: str, level: float
) -> tuple[str, int]:
    """Return the advice as a Lua chunk behind a line with its version, and the number of job names in it."""
    known = [each for each in known_components(advisor, True) if "/" not in each["component"]]
    parts: list[str] = []
    for partition in found:
        counts = allowed_in(partition, allowed)
        if counts is None:
            continue
        rows = [
            f"    [{lua_text(each['component'])}] = {_lua_steps(_steps(advisor, each, partition, counts, level))},"
            for each in known
        ]
        unknown = _lua_steps(_steps(advisor, {"component": UNKNOWN}, partition, counts, level))
        parts += [
            f"  [{lua_text(partition.name)}] = {{",
            f'    unit = "{unit}", unknown = {unknown},',
            "    jobs = {",
        ]
        parts += [*rows, "    },", "  },"]
    body = "\n".join(["return {", *parts, "}", ""])
    return f"-- version {time.time_ns()}\n{body}", len(known)


def _steps(
    advisor: Advisor | SyncClient, known: Mapping[str, Any], partition: Partition, allowed: Any, level: float
) -> list[dict[str, int]]:
    """Return the choices by load: a job pays for what it takes from the jobs that share the partition with it."""
    job = {"id": 0, "component": known["component"], "allowed": allowed}
    x = known["predictor_range"][1] if "predictor_range" in known else None
    job |= {} if x is None else {"predictor": x}
    steps: list[dict[str, int]] = []
    for load in LOADS:
        others = [{"id": 1, "component": UNKNOWN, "weight": float(load)}] if load else []
        count = advisor.choose_together([job, *others], cores=partition.cores).cores[0]
        if count and (not steps or steps[-1]["count"] != count):
            steps.append({"load": load, "count": count} | _limits(advisor, known, x, count, partition, level))
    return steps


def _limits(
    advisor: Advisor | SyncClient, known: Mapping[str, Any], x: float | None, count: int, of: Partition, level: float
) -> dict[str, int]:
    """Return the memory and the time limit on a count, as far as the partition has them; empty where too little is known.

    Fewer cores than any run had take longer than all of them, nobody knows how much: no time limit.
    """
    if x is None:
        return {}
    try:
        limits = limits_of(advisor, known, x, count, level)
    except NotEnoughData:
        return {}
    found = {} if count < known["cores_range"][0] else {"minutes": int(min(limits.minutes, of.minutes))}
    memory = limits.memory_in(MEBIBYTE)
    return found if memory is None else found | {"megabytes": min(memory, of.megabytes)}


def lua_text(text: str) -> str:
    """Return a string of Lua, any version: bytes that are no plain letters are escaped by their number."""
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03d}" for byte in text.encode())
    return f'"{"".join(plain)}"'


def _lua_steps(steps: Sequence[Mapping[str, int]]) -> str:
    return f"{{{', '.join(f'{{{_lua_fields(step)}}}' for step in steps)}}}"


def _lua_fields(step: Mapping[str, int]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in step.items())


def _replace(path: Path, text: str) -> None:
    """Put a text in a file's place at once: the plugin reads the old one or the new one. Raises StorageFailed."""
    new = path.with_name(f"{path.name}.new")
    _write(new, text)
    new.replace(path)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageFailed(
            f"{path} cannot be written: {error.strerror}", field="advice", value=str(path), hint="what is there stays"
        ) from error
