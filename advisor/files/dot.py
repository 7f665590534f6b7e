"""Task graphs in Graphviz' DOT: directed graphs whose nodes have a duration.

Read are node statements, edge chains (``a -> b -> {c d}``), subgraphs, ``node [...]`` defaults, attribute lists, comments and
quoted names, HTML labels (skipped). A node's time is its attribute ``duration``, or another of `TIMES`, in capitals or not;
the graph attribute ``unit`` says in what (``s`` by default). ``type``, ``size`` and the columns that policies read are taken
over as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
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
      |(?P<quoted>"(?:[^"\\]|\\.)*")
      |(?P<edge>->|--)
      |(?P<sign>[{}\[\]=;,:+<])
      |(?P<name>-?(?:\.\d+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)(?![\w.])|[\w.][\w.]*)
      |(?P<bad>.)""",
    re.VERBOSE | re.DOTALL,
)
ESCAPED = re.compile(r'\\(?:(["\\])|\n)')  # in a quoted text: a quote, and the end of a line that goes on
BRACKET = re.compile("[<>]")
KEYWORDS = ("node", "edge", "graph", "subgraph", "strict", "digraph")


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    line, at, joins = 1, 0, False
    while found := TOKEN.match(text, at):
        kind, value = found.lastgroup, found.group()
        at = found.end()
        if kind == "bad":
            raise _wrong(_Token("bad", value, line), "DOT")
        if value == "<" and kind == "sign":
            at = _html_end(text, at, line)
            value = text[found.start() : at]
            tokens.append(_Token("name", value, line))
        elif value == "+" and kind == "sign":
            joins = True
        elif kind == "quoted":
            whole = ESCAPED.sub(lambda escaped: escaped.group(1) or "", value[1:-1])
            if joins and tokens and tokens[-1].kind == "name":
                whole = tokens.pop().text + whole
            tokens.append(_Token("name", whole, line))
            joins = False
        elif kind:
            word = kind == "name" and value.lower() in KEYWORDS
            tokens.append(_Token("word" if word else kind, value.lower() if word else value, line))
        if joins and kind and value != "+":
            raise _wrong(_Token("sign", "+", line), "between two quoted texts")
        line += value.count("\n")
    tokens.append(_Token("end", "end of file", line))
    return tokens


def _html_end(text: str, at: int, line: int) -> int:
    """Return where the HTML text ends whose < stands before `at`: brackets nest."""
    depth = 1
    for found in BRACKET.finditer(text, at):
        depth += 1 if found.group() == "<" else -1
        if not depth:
            return found.end()
    raise _wrong(_Token("sign", "<", line), "an HTML text with as many > as <")


def _wrong(token: _Token, wanted: str) -> InvalidValue:
    return InvalidValue("graph", f"{token.text!r} in line {token.line}", wanted)


@dataclass
class _DotReader:
    tokens: list[_Token]
    at: int = 0
    depth: int = 0
    nodes: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    own: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])  # without the defaults
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
        if not self.accept("word", "digraph"):
            raise _wrong(self.peek(), "digraph: the edges of a task graph have a direction")
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
            self.graph[token.text.lower()] = self.take("name").text
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
                self.own[node].update(found)
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
            self.own[name] = {}
            self.parents[name] = []
        return [name]

    def attributes(self) -> dict[str, str]:
        found: dict[str, str] = {}
        while self.accept("sign", "["):
            while not self.accept("sign", "]"):
                key = self.take(self.peek().kind if self.peek().kind in ("name", "word") else "name").text
                found[key.lower()] = self.take("name").text if self.accept("sign", "=") else "true"
                if not self.accept("sign", ","):
                    self.accept("sign", ";")
        return found


def dot_tasks(text: str, *, timed: bool = True) -> tuple[str, list[Task]]:
    """Return the unit of time and the tasks of a DOT text; raises InvalidValue with the line at which it does not read.

    Without `timed` a node that has a type needs no time: it is to be predicted.
    """
    reader = _DotReader(_tokens(text))
    reader.whole()
    names = [name.lower() for name in TIMES]
    tasks: list[Task] = []
    for name, attributes in reader.nodes.items():
        task_type = attributes.get("type", attributes.get("task_type", ""))
        # What a node says itself goes before a default, whatever either is called.
        given = next((key for each in (reader.own[name], attributes) for key in names if key in each), None)
        if given is None and (timed or not task_type):
            raise InvalidValue(f"tasks[{name}].duration", None, "a number", f"or one of {', '.join(TIMES[1:])}")
        columns = {key: _number(name, key, attributes[key]) for key in COLUMNS if key in attributes}
        tasks.append(
            Task(
                name,
                _number(name, given, attributes[given]) if given else 0.0,
                reader.parents[name],
                task_type,
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
