"""Runs of an S-Net program on workers, written as the stream runtime's logs and maps: what they must teach is known."""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import dataclass, field

HEADER = "Log format version 2.2 (since 05/03/2012)#"
TEXT = """
box read((a) -> (b) | (c)); box small((b) -> (d)); box large((c) -> (d)); box step((d) -> (d) | (d, <done>));
box write((d, <done>) -> (e));
net film connect read .. (small | large) .. step * {<done>} .. write;
"""
TIMES = {"read": 1_000, "small": 2_000, "large": 9_000, "step": 3_000, "write": 500}  # ns a byte
STEPS_MAX = 6
APART_NS = 200_000  # between records: workers keep up


@dataclass
class Written:
    """The files of a run, and what they tell.

    Attributes
    ----------
    files : dict
        Name to text.
    runs : list of (box, bytes, ns)
    """

    files: dict[str, str] = field(default_factory=dict)
    runs: list[tuple[str, int, int]] = field(default_factory=list)
    branches: Counter[str] = field(default_factory=Counter)
    depths: Counter[int] = field(default_factory=Counter)
    records: int = 0


class _Worker:
    def __init__(self, number: int) -> None:
        self.number = number
        self.now = 10 * number
        self.text = [HEADER, f"{self.now}S#"]


def write_run(records: int, seed: int, *, workers: int = 3, mapped: bool = True, blocked: float = 0.2) -> Written:
    """Return a run in which each record is read, goes to one branch, makes some steps and is written.

    Tasks serve several records a dispatch, are blocked on their output in the middle of a run with probability `blocked`, and
    may then go on with another worker.
    """
    rng = random.Random(seed)
    written = Written(records=records)
    crew = [_Worker(number) for number in range(workers)]
    tasks: dict[str, int] = {}
    map_text = [HEADER, "1glob_input -1#", "2:S2:P <parallel> 0#"]
    waiting: dict[str, deque[tuple[int, int, int, list[str]]]] = {}  # path -> (ready, id, bytes, ways still to go)
    free: dict[int, int] = {}  # when a task has stopped
    made = 0

    def task_of(path: str) -> int:
        if path not in tasks:
            tasks[path] = 10 + len(tasks)
            way, _, box = path.partition(" ")
            map_text.append(
                f"{tasks[path]}{way} {box} {tasks[path] % workers}#" if mapped else f"{tasks[path]}{way} {box}#"
            )
        return tasks[path]

    for entered in range(records):
        branch = "small" if rng.random() < 0.3 else "large"
        depth = rng.randrange(STEPS_MAX)
        written.branches[branch] += 1
        written.depths[depth] += 1
        ways = [
            ":S1 read",
            f":S2:P{int(branch == 'large')} {branch}",
            *(f":S3:R{n} step" for n in range(depth)),
            ":S4 write",
        ]
        made += 1
        waiting.setdefault(ways[0], deque()).append((entered * APART_NS, made, rng.randrange(1, 50), ways))
    while waiting:
        path = min(waiting, key=lambda each: waiting[each][0][0])
        queue, box = waiting[path], path.partition(" ")[2]
        task, worker = task_of(path), min(crew, key=lambda each: each.now)
        worker.now = max(worker.now, queue[0][0], free.get(task, 0)) + rng.randrange(1, 30)
        started, text = worker.now, ""
        for place in range(min(len(queue), rng.randrange(1, 4))):
            if queue[0][0] > worker.now:
                break
            _, record, size, ways = queue.popleft()
            took = TIMES[box] * size + rng.randrange(100)
            written.runs.append((box, size, took))
            worker.now += 5 * (not place)  # to read the first record takes a moment, which is of no run
            text += f"{worker.now}I0.{record}S{size};"
            first = took
            if rng.random() < blocked:  # blocked on its output, then goes on: elsewhere, perhaps
                first = rng.randrange(1, took)
                worker.now += first
                _stop(worker, "O", task, started, text)
                other = rng.choice(crew)
                other.now = max(other.now, worker.now) + rng.randrange(50)
                worker, started, text = other, other.now, ""
                first = took - first
            worker.now += first
            made += 1
            text += f"{worker.now}O0.{made}S{size};"
            if len(ways) > 1:
                following = waiting.setdefault(ways[1], deque())
                following.append((worker.now, made, size, ways[1:]))
        _stop(worker, "I", task, started, text)
        free[task] = worker.now
        if not queue:
            del waiting[path]
    for worker in crew:
        worker.text.append(f"{worker.now + 7}W5#{worker.now + 9}E#")
        written.files[f"mon_n00_worker{worker.number:02}.log"] = "".join(worker.text)
    written.files["n00_tasks.map"] = "".join(map_text)
    written.files["mon_n00_glob_input.log"] = ""
    return written


def _stop(worker: _Worker, state: str, task: int, started: int, messages: str) -> None:
    worker.text.append(f"{worker.now}{state}{task} {worker.now - started} 3rI1--*4wO2?!*{messages}#")
