"""Nextflow's trace of executions (`-with-trace`): a line a task, tabs (or commas, by `trace.sep`) between columns.

A component is a process, with the names of the workflows around it. Its predictor are the bytes that the task read (`rchar`),
0 where the trace says "-" of a task that ends at once, which is not measured; others that were not measured are passed over.
Its cores are the `cpus` that it asked for; where the trace has no such column, the whole cores that it kept busy (`%cpu`).
Numbers may have a decimal comma: older versions wrote them as the system's locale has them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from advisor.files.lines import BadCell, Lines, number_of
from advisor.files.run_files import ZERO, Passed, Ran, RunEntry, bytes_of, span_of
from advisor.files.workflows import TAG

HINT = "a trace as `nextflow run -with-trace` writes it; trace.fields may add cpus and process"
NEEDED = ("status", "realtime")
FAILED = ("FAILED", "ABORTED")
# Exit codes of tasks that were killed, 128 and the signal: SIGKILL by the memory limit, SIGUSR2, SIGTERM or SIGXCPU by a time
# limit (SGE, Slurm, LSF). Their times and peaks are lower bounds.
KILLED = {"137": "memory", "140": "time", "143": "time", "152": "time"}
PASSED = {"CACHED": "from the cache", "NEW": "not ended", "SUBMITTED": "not ended", "RUNNING": "not ended"}
ABSENT = ("-", "")
MILLISECOND = 1e-3
AT_ONCE_S = 1.0  # measures are taken about so often


def runs(lines: Lines) -> Iterator[RunEntry]:
    """Yield what a trace tells; raises InvalidValue where it is no trace."""
    header = lines.first()
    delimiter = "\t" if "\t" in header else ","
    needed = NEEDED if "process" in header.split(delimiter) else (*NEEDED, "name")
    for row in lines.by_column(delimiter, needed, HINT):
        yield row if isinstance(row, BadCell) else _entry_of_row(*row)


def _entry_of_row(number: int, row: Mapping[str, str]) -> RunEntry:
    status = row["status"].strip()
    if status in PASSED:
        return Passed(number, PASSED[status])
    ok = status == "COMPLETED"
    if not ok and status not in FAILED:
        return BadCell(number, "status", status, f"COMPLETED, {', '.join((*FAILED, *PASSED))}")
    name = row.get("process", "").strip() or TAG.sub("", row.get("name", "").strip())
    realtime = row["realtime"].strip()
    if realtime in ABSENT and not ok:
        return Passed(number, "failed without a time")
    killed = None if ok else KILLED.get(row.get("exit", "").strip())
    seconds, (cores, column) = _seconds(realtime), _cores(row)
    if seconds == 0.0:
        return Passed(number, ZERO)
    read, peak = row.get("rchar", "").strip(), row.get("peak_rss", "").strip()
    if (ok or killed) and read in ABSENT and "rchar" in row and seconds > AT_ONCE_S:
        return Passed(number, "not measured")
    predictor = 1.0 if "rchar" not in row else 0.0 if read in ABSENT else bytes_of(read)
    peak_bytes = None if peak in (*ABSENT, "0") else bytes_of(peak)
    cells = {
        "component": ("process" if row.get("process") else "name", name), "elapsed_s": ("realtime", realtime),
        "cores": (column, row.get(column, "")), "predictor": ("rchar", read), "peak_bytes": ("peak_rss", peak),
    }  # fmt: skip
    return Ran(number, name, predictor, cores, seconds, cells, peak_bytes, ok or killed is not None, killed)


def _seconds(text: str) -> float:
    """Return the seconds of a span; in a raw trace it is a number of milliseconds."""
    raw = number_of(text)
    return span_of(text) if math.isnan(raw) else raw * MILLISECOND


def _cores(row: Mapping[str, str]) -> tuple[float, str]:
    cpus = row.get("cpus", "-").strip()
    if cpus not in ABSENT:
        return number_of(cpus), "cpus"
    busy = row.get("%cpu", "-").strip()
    if busy in ABSENT:
        return 1.0, "%cpu"
    percent = number_of(busy.removesuffix("%").strip().replace(",", "."))
    return (max(1.0, math.ceil(percent / 100.0)) if math.isfinite(percent) else percent), "%cpu"
