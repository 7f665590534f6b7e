"""What `advisor simulate` prints: a table of the analyses, metrics, advice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from advisor.cli.tables import Column, Printed, percent, several, table

CHAIN_SHOWN = 12  # tasks of a critical path that are shown
COMPARED = (("Graham", "graham"), ("Kruskal–Weiss", "kruskal_weiss"))


def result(found: dict[str, Any]) -> Iterator[Printed]:
    """Yield a table of the analyses, metrics and advice."""
    from advisor.simulation.words import reported_time

    def time(value: float | None) -> str:
        return "" if value is None else reported_time(value, found["unit"])

    def bound(name: str) -> Callable[[Mapping[str, Any]], str]:
        return lambda row: time(row["bounds"].get(name))

    yield (
        f"{found['graph']}: {several(found['tasks'], 'task')}, {several(found['edges'], 'edge')}, "
        f"work {time(found['work'])}, longest path {time(found['span'])}"
    )
    rows = found["results"]
    yield table(
        [
            Column("policy", "policy"), Column("cores", "cores", str), Column("makespan", "makespan", time),
            Column("speedup", "speedup", lambda value: f"{value:.2f}"), Column("efficiency", "efficiency", percent),
            Column("never below", lambda row: max(row["bounds"]["work"], row["bounds"]["span"]), time),
            *(Column(word, bound(name), str) for word, name in COMPARED if any(name in row["bounds"] for row in rows)),
        ],
        rows,
    )  # fmt: skip
    for row in rows:
        for name in (name for name in SHOWN if name in row):
            yield f"{name.replace('_', ' ')}, {row['policy']} on {row['cores']}: {SHOWN[name](row[name], time)}"
    yield from (sentence["text"] for sentence in found.get("advice", ()))
    if "chrome" in found:
        yield f"wrote {found['chrome']}"


def _chain(steps: Sequence[Mapping[str, Any]], time: Callable[[float], str]) -> str:
    """Return the critical path in words: its tasks, those in the middle of a long one left out."""
    texts = [f"{step['task']} {time(step['start'])} ({step['why']})" for step in steps]
    if len(texts) > CHAIN_SHOWN:
        half = CHAIN_SHOWN // 2
        texts[half:-half] = [f"… {len(texts) - 2 * half} more …"]
    return " → ".join(texts) or "nothing"


# How the table's command tells a metric that is no column of it; the rest of each is in the JSON.
SHOWN: Mapping[str, Callable[[Any, Callable[[float], str]], str]] = {
    "idle": lambda found, time: ", ".join(f"{cause.replace('_', ' ')} {time(value)}" for cause, value in found.items()),
    "utilization": lambda found, time: percent(found),
    "critical_path": _chain,
}
