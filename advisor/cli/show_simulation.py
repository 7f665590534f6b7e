"""What `advisor simulate` prints: a table of the analyses, metrics, advice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from advisor.cli import show, tables

CHAIN_SHOWN = 12  # tasks of a critical path that are shown


def result(found: dict[str, Any]) -> None:
    """Print a table of the analyses, and the advice."""
    from advisor.simulation.words import told_time

    def time(value: float | None) -> str:
        return "" if value is None else told_time(value, found["unit"])

    tables.say(
        f"{found['graph']}: {show.several(found['tasks'], 'task')}, {show.several(found['edges'], 'edge')}, "
        f"work {time(found['work'])}, longest path {time(found['span'])}"
    )
    if "measured" in found or "machines" in found:
        took = f"took {time(found['measured'])}" if "measured" in found else "ran"
        machines = found.get("machines", ())
        where = (
            f" on {show.several(sum(machines), 'core')} of {show.several(len(machines), 'machine')}" if machines else ""
        )
        tables.say(f"When it was recorded it {took}{where}.")
    interval = ["interval"] if "makespan_low" in found["results"][0] else []
    compared = {"graham": "Graham", "kruskal_weiss": "Kruskal–Weiss", "exponential_processes": "Mak–Lundstrom"}
    compared = {name: word for name, word in compared.items() if any(name in row["bounds"] for row in found["results"])}
    rows = tables.table(
        "policy", "cores", "makespan", *interval, "speedup", "efficiency", "never below", *compared.values(),
    )  # fmt: skip
    for row in found["results"]:
        bound = row["bounds"]
        rows.add_row(
            row["policy"], str(row["cores"]), time(row["makespan"]),
            *(f"{time(row['makespan_low'])} to {time(row['makespan_high'])}" for _ in interval),
            f"{row['speedup']:.2f}", show.percent(row["efficiency"]), time(max(bound["work"], bound["span"])),
            *(time(bound.get(name)) for name in compared),
        )  # fmt: skip
    tables.put(rows)
    for row in found["results"]:
        for name in (name for name in SHOWN if name in row):
            shown = SHOWN[name](row[name], time)
            tables.say(f"{name.replace('_', ' ')}, {row['policy']} on {row['cores']}: {shown}")
    if "recorded" in found:
        it = found["recorded"]
        tables.say(
            f"On these {it['cores']} cores it is predicted to take {time(it['predicted'])}: {it['error']:+.1%}. On average "
            f"{it['mean_running']:.2f} tasks were running; what the recording has no tasks for (transfers, waiting for "
            "workers) is in no prediction."
        )
    for sentence in found.get("advice", ()):
        tables.say(sentence["text"])
    for kind in ("plot", "gantt", "chrome"):
        if kind in found:
            tables.say(f"wrote {found[kind]}")


def _chain(steps: Sequence[Mapping[str, Any]], time: Callable[[float], str]) -> str:
    """Return the critical path in words: its tasks, those in the middle of a long one left out."""
    texts = [f"{step['task']} {time(step['start'])} ({step['why']})" for step in steps]
    if len(texts) > CHAIN_SHOWN:
        half = CHAIN_SHOWN // 2
        texts[half:-half] = [f"… {len(texts) - 2 * half} more …"]
    return " → ".join(texts) or "nothing"


def _length(steps: Mapping[str, Any], time: Callable[[float], str]) -> str:
    return f"{steps['mean']:.2f} on average, {steps['most']:g} at most"


# How the table's command tells a metric that is no column of it; the rest of each is in the JSON.
SHOWN: Mapping[str, Callable[[Any, Callable[[float], str]], str]] = {
    "idle": lambda found, time: ", ".join(f"{cause.replace('_', ' ')} {time(value)}" for cause, value in found.items()),
    "utilization": lambda found, time: show.percent(found),
    "busy": lambda found, time: ", ".join(time(value) for value in found),
    "critical_path": _chain,
    "ready_length": _length,
    "processes_per_queue": _length,
    "timeline": lambda found, time: "; ".join(
        f"{step['task']} on {step['processor']} from {time(step['start'])} to {time(step['finish'])}" for step in found
    ),
}
