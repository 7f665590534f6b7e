"""Task graphs in Graphviz' DOT: directed graphs whose nodes have a duration.

Read are node statements, edge chains (``a -> b -> {c d}``), subgraphs, ``node [...]`` defaults, attribute lists, comments and
quoted names, HTML labels (skipped). A node's time is its attribute ``duration``, or another of `TIMES`, in capitals or not;
the graph attribute ``unit`` says in what (``s`` by default). ``type``, ``size`` and the columns that policies read are taken
over as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from advisor.domain.task_graphs import Task
from advisor.errors import InvalidValue

# What the time of a task is called, the surest name first: a node may have a time and a weight.
TIMES = (
    "duration", "time", "runtime", "runtimeInSeconds", "elapsed_s", "time_s", "execution_time", "exec_time", "processing_time",
    "elapsed", "walltime", "wcet", "computation", "cost", "weight", "work", "length",
)  # fmt: skip
COLUMNS = ("loop", "group", "queue", "x", "y", "area", "rate", "demand")
DEPTH_MAX = 100  # of subgraphs: recursion stays far below Python's limit
TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|\#[^\n]*
      |(?P<quoted>"(?:[^"\\]|\\.)*"(?:\s*\+\s*"(?:[^"\\]|\\.)*")*)
      |(?P<html><(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>)
      |(?P<word>-?(?:\.\d+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)(?![\w.])|[\w.]+)
      |(?P<sign>->|[{}\[\]=;,:])
      |(?P<bad>--|.)""",
    re.VERBOSE | re.DOTALL,
)
PIECE = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)  # of a quoted text
ESCAPED = re.compile(r'\\(?:(["\\])|\n)')  # in a piece: a quote, and the end of a line that goes on
KEYWORDS = ("node", "edge", "graph", "subgraph", "strict", "digraph")
DIRECTED = "digraph: the edges of a task graph have a direction"
BAD = {
    "--": "-> between tasks: a task graph is directed",
    "<": "an HTML text with as many > as <",
    "+": "between two quoted texts",
}
NODE, END = "name", "end of file"


class _Token(NamedTuple):
    kind: str  # NODE, END, or the keyword or sign itself
    text: str
    line: int


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for found in TOKEN.finditer(text):
        group, value = found.lastgroup, found.group()
        if group == "bad":
            raise _wrong(_Token(group, value, line), BAD.get(value, "DOT"))
        if group == "quoted":
            pieces = (ESCAPED.sub(lambda escaped: escaped.group(1) or "", piece) for piece in PIECE.findall(value))
            yield _Token(NODE, "".join(pieces), line)
        elif group is not None:
            word = value.lower()
            yield _Token(word if group == "sign" or word in KEYWORDS else NODE, value, line)
        line += value.count("\n")
    yield _Token(END, END, line)


def _wrong(token: _Token, wanted: str) -> InvalidValue:
    return InvalidValue("graph", f"{token.text!r} in line {token.line}", wanted)


class _DotReader:
    """Reads a text, token by token: what the graph says of itself, and of each node its defaults, own attributes, parents."""

    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.token = next(self.tokens)
        self.settings: dict[str, str] = {}
        self.nodes: dict[str, tuple[dict[str, str], dict[str, str], list[str]]] = {}
        self.accept("strict")
        self.expect("digraph", DIRECTED)
        self.accept(NODE)
        self.body({})
        self.expect(END)

    def accept(self, *kinds: str) -> str | None:
        """Return the text of the next token, and go on, where it is of one of these kinds."""
        token = self.token
        if token.kind not in kinds:
            return None
        self.token = next(self.tokens, token)
        return token.text

    def expect(self, kind: str, wanted: str = "") -> str:
        """Return the text of the next token, which has to be of a kind."""
        token = self.token
        if self.accept(kind) is None:
            raise _wrong(token, wanted or f"{kind} there")
        return token.text

    def body(self, defaults: dict[str, str], depth: int = 1) -> list[str]:
        """Read statements between braces; return the nodes that they name."""
        if depth > DEPTH_MAX:
            raise _wrong(self.token, f"subgraphs at most {DEPTH_MAX} deep")
        self.expect("{")
        named: list[str] = []
        while self.accept("}") is None:
            if self.accept(";") is None:
                named += self.statement(defaults, depth)
        return named

    def statement(self, defaults: dict[str, str], depth: int) -> list[str]:
        kind = self.token.kind
        if self.accept("node", "edge", "graph"):
            {"node": defaults, "graph": self.settings}.get(kind, {}).update(self.attributes())
            return []
        name = self.accept(NODE)
        if name is not None and self.accept("="):
            self.settings[name.lower()] = self.expect(NODE)
            return []
        named = before = self.nodes_of(name, defaults, depth)
        while self.accept("->"):
            here = self.nodes_of(self.accept(NODE), defaults, depth)
            for child in here:
                self.nodes[child][2].extend(before)
            named, before = named + here, here
        found = self.attributes()
        for node in named if named is before else ():  # those of edges say nothing of a task
            self.nodes[node][1].update(found)
        return named

    def nodes_of(self, name: str | None, defaults: dict[str, str], depth: int) -> list[str]:
        """Return the nodes of one side of an edge: a node whose name was read, or a subgraph."""
        if name is None:
            if self.accept("subgraph"):
                self.accept(NODE)
            elif self.token.kind != "{":
                self.expect(NODE)
            return self.body(dict(defaults), depth + 1)
        while self.accept(":"):  # a port, which says where an edge is drawn
            self.expect(NODE)
        self.nodes.setdefault(name, (dict(defaults), {}, []))
        return [name]

    def attributes(self) -> dict[str, str]:
        found: dict[str, str] = {}
        while self.accept("["):
            while self.accept("]") is None:
                key = self.accept(*KEYWORDS) or self.expect(NODE)
                found[key.lower()] = self.expect(NODE) if self.accept("=") else "true"
                self.accept(",", ";")
        return found


def dot_tasks(text: str, *, timed: bool = True) -> tuple[str, list[Task]]:
    """Return the unit of time and the tasks of a DOT text; raises InvalidValue with the line at which it does not read.

    Without `timed` a node that has a type needs no time: it is to be predicted.
    """
    reader = _DotReader(text)
    names = [name.lower() for name in TIMES]
    tasks: list[Task] = []
    for name, (defaults, own, parents) in reader.nodes.items():
        attributes = defaults | own
        task_type = attributes.get("type", attributes.get("task_type", ""))
        # What a node says itself goes before a default, whatever either is called.
        given = next((key for each in (own, attributes) for key in names if key in each), None)
        if given is None and (timed or not task_type):
            raise InvalidValue(f"tasks[{name}].duration", None, "a number", f"or one of {', '.join(TIMES[1:])}")
        time = _number(name, given, attributes[given]) if given else 0.0
        columns = {key: _number(name, key, attributes[key]) for key in COLUMNS if key in attributes}
        tasks.append(Task(name, time, parents, task_type, _number(name, "size", attributes.get("size", "1")), columns))
    return reader.settings.get("unit", "s"), tasks


def _number(name: str, key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InvalidValue(f"tasks[{name}].{key}", text, "a number") from error
