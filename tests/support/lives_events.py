"""The numbered events that a service and its twin are taught, drawn from a seed."""

from __future__ import annotations

import random
import struct
from collections import Counter
from typing import Any

EVENTS_A_LIFE = 40
PRODUCERS = ("p", "p", "q", "r")
NETWORK = "c0 .. c1 .. c2"
COMPONENTS = [f"c{number}" for number in range(12)]
KINDS = ("row", "row", "rows", "rows", "rows", "strange", "many", "columns", "columns", "pin", "forget", "run", "run", "tasks",
         "flow", "forget program")  # fmt: skip
TASK_EVENTS = bytes.fromhex(  # of the page on the protocol: a task begins and ends
    "0000000000000000010000000000000000000000000000000000000000000100"
    "dc0500000000000001000000000000000000000000000000ffffffff00000300"
)
Event = tuple[str, dict[str, Any]]


def _rows(rng: random.Random, n: int) -> list[list[Any]]:
    found: list[list[Any]] = []
    for _ in range(n):
        x, p = float(rng.randint(1, 100)), float(rng.choice((1, 2, 4, 8)))
        found.append([rng.choice(COMPONENTS), x, p, 1e-3 * x / p * rng.uniform(0.9, 1.1)])
    return found


def _event(kind: str, rng: random.Random, programs: set[str]) -> Event:
    name = rng.choice(COMPONENTS)
    if kind == "columns":
        rows = _rows(rng, rng.randint(1, 900))
        columns = {key: struct.pack(f"<{len(rows)}d", *(row[at] for row in rows))
                   for at, key in ((1, "predictor"), (2, "cores"), (3, "elapsed_s"))}  # fmt: skip
        index = struct.pack(f"<{len(rows)}I", *(COMPONENTS.index(row[0]) for row in rows))
        return "observe_columns", {"components": COMPONENTS, "index": index} | columns
    if kind == "pin":
        return "pin", {"component": name, "model": rng.choice(("two_step", None))}
    if kind == "forget":
        return "forget", {"component": name}
    if kind == "run":
        size, program = rng.randint(1, 9), f"program-{rng.randrange(3)}"
        programs.add(program)
        return "observe_run", {
            "program": program, "size": size, "workers": rng.choice((1, 2, 4)), "elapsed_s": 0.1 * size,
            "work_s": 0.1 * size, "delay_s": 0.0, "no_work_s": 0.0, "creates": 8, "waits": 4,
        }  # fmt: skip
    if kind == "tasks":
        return "task_events", {"records": TASK_EVENTS, "strings": ["fib"], "ended": True}
    if kind == "forget program" and programs:
        program = rng.choice(sorted(programs))
        programs.discard(program)
        return "forget", {"program": program}
    rows = _rows(rng, {"row": 1, "many": 1200, "strange": 5}.get(kind, rng.randint(2, 30)))
    if kind == "strange":  # rows that are refused, and counted, beside one with optional fields
        rows[2][3], rows[3][1] = -1.0, float("inf")
        rows[4].append({"count": 3, "machine": f"m{rng.randrange(5)}", "active_cores": rows[4][2] + 1})
    if kind == "flow":
        for number, row in enumerate(rows):
            row.append({"network": "images", "entered": number == 0})
    return "observe_rows", {"rows": rows}


class Stream:
    """Numbered events, made again from the seed at any time; event 1 brings all components.

    They are of a few producers; a run of tasks is a producer of its own.
    """

    def __init__(self, seed: int) -> None:
        self.rng, self.programs = random.Random(f"events {seed}"), set[str]()
        rows = [[name, 10.0, 2.0, 0.01] for name in COMPONENTS]
        self.events: list[Event] = [("observe_rows", {"producer": "p", "sequence": 1, "rows": rows})]
        self.sequences = Counter({"p": 1})

    def event(self, number: int) -> Event:
        while len(self.events) < number:
            first = len(self.events) == 1  # one component is known to every `pin` and `forget`
            verb, params = _event("rows" if first else self.rng.choice(KINDS), self.rng, self.programs)
            if verb == "task_events":
                numbered = {"producer": f"run-{len(self.events)}", "sequence": 1}
            else:
                producer = self.rng.choice(PRODUCERS)
                self.sequences[producer] += 1
                numbered = {"producer": producer, "sequence": self.sequences[producer]}
            self.events.append((verb, numbered | params))
        return self.events[number - 1]
