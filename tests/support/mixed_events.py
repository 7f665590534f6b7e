"""A stream of events of every verb that changes what is known: as it is sent, and as an engine is told."""

from __future__ import annotations

import random
from typing import Any

import msgpack
import numpy as np
from task_program import Program, recursive

from advisor.domain.observations import ComponentNames, columns_of
from advisor.domain.task_events import TaskEvents
from advisor.engine import Engine
from advisor.engine.events import (
    ComponentForgotten,
    ComponentPinned,
    NetworkDefined,
    ProfileForgotten,
    ProgramForgotten,
    RunObserved,
)
from advisor.profile.view import profile_of
from advisor.protocol.rows import columns_of_rows

ZEROS = bytes(16)  # the incarnation of who gives none
KINDS = ("row", "row", "row", "rows", "rows", "strange", "many", "columns", "pin", "forget", "run", "run", "tasks",
         "network", "forget program", "forget profile")  # fmt: skip
COMPONENTS = [f"c{number}" for number in range(12)]
NETWORK = "c0 .. c1 .. c2"
TASKS = [Program(2, recursive(2, 2, 500 + 200 * kind)).run() for kind in range(3)]


class Mixed:
    """So many events: (verb, producer, its number or 0, parameters); each run of tasks is a producer of its own."""

    def __init__(self, seed: int, events: int) -> None:
        self.events: list[tuple[str, str, int, dict[str, Any]]] = []
        rng, sequence, programs, runs = random.Random(seed), 0, set[str](), list[str]()
        for number in range(events):
            kind = "rows" if number == 0 else rng.choice(KINDS)
            verb, params = _event(kind, rng, programs, runs) if number else ("observe_rows", {"rows": _rows(rng, 12)})
            if verb in ("define_network", "task_events"):
                self.events.append((verb, f"run-{number}", int(verb == "task_events"), params))
                runs += [f"run-{number}"] * (verb == "task_events")
            else:
                sequence += 1
                self.events.append((verb, "p", sequence, params))

    def message(self, at: int) -> bytes:
        """Return event `at` as it is sent, its message numbered by its place."""
        verb, producer, sequence, params = self.events[at]
        told = {"producer": producer, "sequence": sequence} if sequence else {}
        return msgpack.packb([0, at, verb, [told | params]])

    def apply(self, engine: Engine, at: int) -> None:
        """Let event `at` happen in an engine."""
        verb, producer, sequence, given = self.events[at]
        key = (producer, ZEROS)
        if verb == "observe_rows":
            engine.apply(key, sequence, columns_of_rows(given["rows"]))
        elif verb == "observe_columns":
            kinds = {"index": "<u4", "predictor": "<f8", "cores": "<f8", "elapsed_s": "<f8"}
            columns = {key: np.frombuffer(given[key], kind) for key, kind in kinds.items()}
            engine.apply(key, sequence, columns_of(ComponentNames(given["components"]), *columns.values()))
        elif verb == "pin":
            engine.apply(key, sequence, ComponentPinned(**given))
        elif verb == "observe_run":
            engine.apply(key, sequence, RunObserved(given))
        elif verb == "task_events":
            records = next(each.records for each in TASKS if each.records.tobytes() == given["records"])
            engine.apply(key, sequence, TaskEvents(records, tuple(given["strings"]), ended=True))
        elif verb == "define_network":
            engine.apply(None, None, NetworkDefined(given["text"], given["id"]))
        elif "profile" in given:
            engine.apply(key, sequence, ProfileForgotten(**given["profile"]))
        elif "program" in given:
            engine.apply(key, sequence, ProgramForgotten(given["program"]))
        else:
            engine.apply(key, sequence, ComponentForgotten(**given))

    def happened(self, engine: Engine, at: int) -> bool:
        """Return whether an engine knows of event `at`."""
        _, producer, sequence, given = self.events[at]
        if not sequence:
            return given["id"] in engine.advisor.components.flows.kept
        return engine.applied(producer, ZEROS) >= sequence


def _rows(rng: random.Random, n: int) -> list[list[Any]]:
    found: list[list[Any]] = []
    for number in range(n):
        x, p = float(rng.randint(1, 100)), float(rng.choice((1, 2, 4, 8)))
        name = COMPONENTS[number] if n == len(COMPONENTS) else rng.choice(COMPONENTS)
        found.append([name, x, p, 1e-3 * x / p * rng.uniform(0.9, 1.1)])
    return found


def _event(kind: str, rng: random.Random, programs: set[str], runs: list[str]) -> tuple[str, dict[str, Any]]:
    name = rng.choice(COMPONENTS)
    if kind == "columns":
        rows = _rows(rng, rng.randint(1, 900))
        index = np.array([COMPONENTS.index(row[0]) for row in rows], "<u4").tobytes()
        x, p, t = (np.array([row[at] for row in rows]).tobytes() for at in (1, 2, 3))
        return "observe_columns", {
            "components": COMPONENTS, "index": index, "predictor": x, "cores": p, "elapsed_s": t,
        }  # fmt: skip
    if kind == "pin":
        return "pin", {"component": name, "model": rng.choice(("two_step", None))}
    if kind == "forget":
        return "forget", {"component": name, "keep": rng.choice((0.0, 0.5, 0.9))}
    if kind == "run":
        size, program = rng.randint(1, 9), f"program-{rng.randrange(3)}"
        programs.add(program)
        return "observe_run", {
            "program": program, "size": size, "workers": rng.choice((1, 2, 4)), "elapsed_s": 0.1 * size,
            "work_s": 0.1 * size, "delay_s": 0.0, "no_work_s": 0.0, "creates": 8, "waits": 4,
        }  # fmt: skip
    if kind == "tasks":
        run = rng.choice(TASKS)
        return "task_events", {"records": run.records.tobytes(), "strings": list(run.strings), "ended": True}
    if kind == "network":
        return "define_network", {"id": f"net-{rng.randrange(10**6)}", "text": NETWORK}
    if kind == "forget program" and programs:
        program = rng.choice(sorted(programs))
        programs.discard(program)
        return "forget", {"program": program}
    if kind == "forget profile" and runs:
        return "forget", {"profile": {"producer": runs.pop()}}  # the newest is kept still
    rows = _rows(rng, {"row": 1, "many": 1200, "strange": 5}.get(kind, rng.randint(2, 30)))
    if kind == "strange":
        rows[2][3], rows[3][1] = -1.0, float("inf")  # refused, and counted
        rows[4].append({"count": 3, "machine": f"m{rng.randrange(5)}", "active_cores": rows[4][2] + 1})
    return "observe_rows", {"rows": rows}


def bits(engine: Engine) -> tuple[bytes, dict[tuple[str, bytes], Any], dict[tuple[str, bytes], int]]:
    """Return all that an engine holds: its tables, documents and totals, its profiles, its producers' numbers."""
    profiles = {key: profile_of(run).as_dict() for key, run in engine.profiles.runs.items()}
    return engine.advisor.to_bytes(), profiles, dict(engine.producers)
