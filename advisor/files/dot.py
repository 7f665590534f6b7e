"""Task graphs in Graphviz' DOT: directed graphs whose nodes have a duration.

Read are node statements, edge chains (``a -> b -> {c d}``), subgraphs, ``node [...]`` defaults, attribute lists, comments and
quoted names. A node's time is its attribute ``duration`` (or ``time``, ``runtime``, ``cost``, ``weight``); the graph attribute
``unit`` says in what (``s`` by default). ``type``, ``size`` and the columns that policies read are taken over as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from advisor.domain.task_graphs import Task
from advisor.errors import InvalidValue

TIMES = ("duration", "time", "runtime", "cost", "weight")
COLUMNS = ("loop", "group", "queue", "x", "y", "area", "rate", "demand")
DEPTH_MAX = 100  # of subgraphs: recursion stays far below Python's limit
TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|\#[^\n]*
      |(?P<quoted>"(?:[^"\\]|\\.)*")
      |(?P<edge>->|--)
      |(?P<sign>[{}\[\]=;,:])
      |(?P<name>-?(?:\.\d+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)(?![\w.])|[\w.][\w.]*)
      |(?P<bad>.)""",
    re.VERBOSE | re.DOTALL,
)
KEYWORDS = ("node", "edge", "graph", "subgraph", "strict", "digraph")


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for found in TOKEN.finditer(text):
        kind, value = found.lastgroup, found.group()
        if kind == "bad":
            raise _wrong(_Token("bad", value, line), "DOT")
        if kind == "quoted":
            yield _Token("name", re.sub(r'\\(["\\])', r"\1", value[1:-1]), line)
        elif kind:
            word = kind == "name" and value.lower() in KEYWORDS
            yield _Token("word" if word else kind, value.lower() if word else value, line)
        line += value.count("\n")
    yield _Token("end", "end of file", line)


def _wrong(token: _Token, wanted: str) -> InvalidValue:
    return InvalidValue("graph", f"{token.text!r} in line {token.line}", wanted)


@dataclass
class _Reader:
    tokens: list[_Token]
    at: int = 0
    depth: int = 0
    nodes: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    parents: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    graph: dict[str, str] = field(default_factory=dict[str, str])

    def peek(self) -> _Token:
        return self.tokens[self.at]

    def take(self, kind: str, text: str | None = None) -> _Token:
        token = self.peek()
        if token.kind != kind or (text is not None and token.text != text):
            raise _wrong(token, f"{text or kind} there")
        self.at += 1
        return token

    def accept(self, kind: str, text: str) -> bool:
        token = self.peek()
        if token.kind == kind and token.text == text:
            self.at += 1
            return True
        return False

    def whole(self) -> None:
        self.accept("word", "strict")
        self.take("word", "digraph")
        if self.peek().kind == "name":
            self.at += 1
        self.take("sign", "{")
        self.body({})
        self.take("end")

    def body(self, defaults: dict[str, str]) -> list[str]:
        """Read statements up to the closing brace; return the nodes that they name."""
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise _wrong(self.peek(), f"subgraphs at most {DEPTH_MAX} deep")
        named: list[str] = []
        while not self.accept("sign", "}"):
            if self.accept("sign", ";"):
                continue
            named += self.statement(defaults)
        self.depth -= 1
        return named

    def statement(self, defaults: dict[str, str]) -> list[str]:
        token = self.peek()
        if token.kind == "word" and token.text in ("node", "edge", "graph"):
            self.at += 1
            found = self.attributes()
            {"node": defaults, "graph": self.graph}.get(token.text, {}).update(found)
            return []
        if token.kind == "name" and self.tokens[self.at + 1][:2] == ("sign", "="):
            self.at += 2
            self.graph[token.text] = self.take("name").text
            return []
        ends = self.end(defaults)
        named = list(ends)
        chained = False
        while self.peek().kind == "edge":
            if self.peek().text == "--":
                raise _wrong(self.peek(), "-> between tasks: a task graph is directed")
            self.at += 1
            chained = True
            following = self.end(defaults)
            for child in following:
                self.parents[child] += ends
            ends = following
            named += following
        found = self.attributes()
        if not chained:
            for node in ends:
                self.nodes[node].update(found)
        return named

    def end(self, defaults: dict[str, str]) -> list[str]:
        """Read a node or a subgraph, one side of an edge; return its nodes."""
        if self.accept("word", "subgraph"):
            if self.peek().kind == "name":
                self.at += 1
            self.take("sign", "{")
            return self.body(dict(defaults))
        if self.accept("sign", "{"):
            return self.body(dict(defaults))
        name = self.take("name").text
        while self.accept("sign", ":"):  # a port, which says where an edge is drawn
            self.take("name")
        if name not in self.nodes:
            self.nodes[name] = dict(defaults)
            self.parents[name] = []
        return [name]

    def attributes(self) -> dict[str, str]:
        found: dict[str, str] = {}
        while self.accept("sign", "["):
            while not self.accept("sign", "]"):
                key = self.take(self.peek().kind if self.peek().kind in ("name", "word") else "name").text
                found[key] = self.take("name").text if self.accept("sign", "=") else "true"
                if not self.accept("sign", ","):
                    self.accept("sign", ";")
        return found


def dot_tasks(text: str) -> tuple[str, list[Task]]:
    """Return the unit of time and the tasks of a DOT text; raises InvalidValue with the line at which it does not read."""
    reader = _Reader(list(_tokens(text)))
    reader.whole()
    tasks: list[Task] = []
    for name, attributes in reader.nodes.items():
        given = next((key for key in TIMES if key in attributes), None)
        if given is None:
            raise InvalidValue(f"tasks[{name}].duration", None, "a number", "every node needs its duration")
        columns = {key: _number(name, key, attributes[key]) for key in COLUMNS if key in attributes}
        tasks.append(
            Task(
                name,
                _number(name, given, attributes[given]),
                reader.parents[name],
                attributes.get("type", attributes.get("task_type", "")),
                _number(name, "size", attributes.get("size", "1")),
                columns,
            )
        )
    return reader.graph.get("unit", "s"), tasks


def _number(name: str, key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InvalidValue(f"tasks[{name}].{key}", text, "a number") from error
