"""What the analyses say, in words: the fewest cores that are enough, and what holds the program on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.simulation.program import Program
from advisor.simulation.words import reported_time

NEAR_BEST = 0.05  # of the best makespan: fewer cores within it are enough


def advised(program: Program, results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return sentences as ``{code, text, …}`` on analyses that were made, which have `makespan`, `cores` and `policy`."""
    best = min(results, key=lambda result: (result["makespan"], result["cores"]))
    most = (1 + NEAR_BEST) * best["makespan"]
    near = (result for result in results if result["makespan"] <= most)
    enough = min(near, key=lambda result: (result["cores"], result["makespan"]))
    return [_cores(program, results, enough, best), _limit(program, enough)]


def _cores(
    program: Program, results: Sequence[Mapping[str, Any]], enough: Mapping[str, Any], best: Mapping[str, Any]
) -> dict[str, Any]:
    cores, unit = int(enough["cores"]), program.graph.unit
    word, time = (
        "core is" if cores == 1 else "cores are",
        f"{reported_time(enough['makespan'], unit)} with {enough['policy']}",
    )
    text = f"{cores} {word} enough: {time}"
    if best["cores"] != cores:
        text += f", within {NEAR_BEST:.0%} of the best, {reported_time(best['makespan'], unit)} on {best['cores']}"
    elif cores < max(result["cores"] for result in results):
        text += ", the best of the numbers of cores that were looked at"
    else:
        text = f"No fewer cores come within {NEAR_BEST:.0%} of what {cores} give, {time}; more were not looked at"
    found = {"cores": cores, "makespan": enough["makespan"], "best": best["makespan"], "policy": enough["policy"]}
    return {"code": "cores", "text": f"{text}.", **found}


def _limit(program: Program, enough: Mapping[str, Any]) -> dict[str, Any]:
    """Say what holds the program: its longest path, its work, or how the work is spread."""
    cores, makespan = int(enough["cores"]), enough["makespan"] * program.graph.ticks_per_unit
    if makespan == 0:
        return {"code": "limit", "text": "The program takes no time.", "limit": "none"}
    span, work = program.span / makespan, program.work / cores / makespan
    if span >= 1 - NEAR_BEST:
        text = f"The longest path takes {span:.0%} of the time: more cores cannot help, shorter tasks on it can."
        return {"code": "limit", "text": text, "limit": "span", "share": span}
    if work >= 1 - NEAR_BEST:
        text = f"All {cores} cores work {work:.0%} of the time: more of them, or less work, would help."
        return {"code": "limit", "text": text, "limit": "work", "share": work}
    text = (
        f"The longest path explains {span:.0%} of the time and the work {work:.0%}: {1 - work:.0%} of the cores' time "
    )
    text += "is lost to waiting and to what tasks cost each other."
    return {"code": "limit", "text": text, "limit": "schedule", "share": 1 - work}
