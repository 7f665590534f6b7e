"""Advice as settings that workflow systems and batch systems read: cores, memory and time limit of each kind of task."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

MEGABYTE, MEBIBYTE = 1e6, 2.0**20  # Snakemake counts in the first, Slurm and Nextflow in the second
MINUTE_S: Final = 60.0
RULE = re.compile(r"[A-Za-z_]\w*")
# WfFormat has dots and dashes in names. In a selector, an expression, a dot stands for any character: a colon, too.
PROCESS = re.compile(r"[A-Za-z_][\w.-]*(:[A-Za-z_][\w.-]*)*")
JOB = re.compile(r"[^\s/]+")  # a step of a job, JOB/STEP, is begun by the job's script


class AdvisedSetting(NamedTuple):
    """What is advised for one component."""

    component: str
    cores: int
    limit_s: float  # seconds that a run will hardly exceed
    peak_bytes: float | None  # memory that it will hardly exceed; None where nothing was measured
    why: str  # one line

    def memory_in(self, unit: float) -> int | None:
        """Return the memory in units of so many bytes, rounded up; None where nothing was measured."""
        return None if self.peak_bytes is None else max(1, math.ceil(self.peak_bytes / unit))

    @property
    def minutes(self) -> int:
        """The time limit, rounded up."""
        return max(1, math.ceil(self.limit_s / MINUTE_S))


def snakemake_profile(settings: Sequence[AdvisedSetting], left_out: Mapping[str, str]) -> str:
    """Return a profile's ``config.yaml``: threads, `mem_mb` and `runtime` (minutes) of each rule."""
    fit, out = _fitting(settings, left_out, RULE, "no name of a rule")
    lines = _comments("#", fit, out)
    lines += ["set-threads:" if fit else "set-threads: {}", *(f"  {each.component}: {each.cores}" for each in fit)]
    lines += ["set-resources:" if fit else "set-resources: {}"]
    for each in fit:
        lines.append(f"  {each.component}:")
        memory = each.memory_in(MEGABYTE)
        lines += [] if memory is None else [f"    mem_mb: {memory}"]
        lines.append(f"    runtime: {each.minutes}")
    return "\n".join(lines) + "\n"


def nextflow_config(settings: Sequence[AdvisedSetting], left_out: Mapping[str, str]) -> str:
    """Return a configuration to include: `cpus`, `memory` and `time` of each process."""
    fit, out = _fitting(settings, left_out, PROCESS, "no name of a process")
    lines = [*_comments("//", fit, out), "process {"]
    for each in fit:
        lines += [f"    withName: '{each.component}' {{", f"        cpus = {each.cores}"]
        memory = each.memory_in(MEBIBYTE)
        lines += [] if memory is None else [f"        memory = {memory}.MB"]
        lines += [f"        time = {each.minutes}.m", "    }"]
    return "\n".join([*lines, "}"]) + "\n"


def sbatch(settings: Sequence[AdvisedSetting], left_out: Mapping[str, str]) -> str:
    """Return a command line for each job, with SCRIPT where its script belongs."""
    fit, out = _fitting(settings, left_out, JOB, "a step, or no name of a job")
    lines = _comments("#", fit, out)
    for each in fit:
        memory = each.memory_in(MEBIBYTE)
        asked = "" if memory is None else f" --mem={memory}M"
        hours, minutes = divmod(each.minutes, 60)
        lines.append(
            f"sbatch --job-name={shlex.quote(each.component)} --ntasks=1 --cpus-per-task={each.cores}{asked}"
            f" --time={hours:02d}:{minutes:02d}:00 SCRIPT"
        )
    return "\n".join(lines) + "\n"


WRITERS: Final[Mapping[str, Callable[[Sequence[AdvisedSetting], Mapping[str, str]], str]]] = {
    "snakemake-profile": snakemake_profile,
    "nextflow-config": nextflow_config,
    "sbatch": sbatch,
}


def _fitting(
    settings: Sequence[AdvisedSetting], left_out: Mapping[str, str], name: re.Pattern[str], why: str
) -> tuple[list[AdvisedSetting], dict[str, str]]:
    """Return what can be written under names of a format, and why the rest is left out."""
    fit = [each for each in settings if name.fullmatch(each.component)]
    out = {each.component: why for each in settings if not name.fullmatch(each.component)}
    return fit, out | dict(left_out)


def _comments(mark: str, fit: Sequence[AdvisedSetting], out: Mapping[str, str]) -> list[str]:
    """Return a comment on each component; names are quoted where they are not plain, so that none ends its line."""
    lines = [f"{mark} {each.component}: {each.why}" for each in fit]
    return lines + [f"{mark} left out: {json.dumps(name, ensure_ascii=False)}, {why}" for name, why in out.items()]
