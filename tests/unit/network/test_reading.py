"""S-Net text: what it means, and where exactly it does not read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.domain import limits
from advisor.domain.networks import Network
from advisor.errors import AdvisorError, InvalidValue, NetworkSyntax, TooLarge
from advisor.network import parse
from advisor.network.program import Box, Label
from advisor.network.reader import read


def shape(network: Network) -> Any:
    """The tree as nested tuples: a name, or (operator, parts)."""
    done: list[Any] = []
    for node in network.nodes:
        operator = {"series": "..", "choice": "||" if node.ordered else "|"}.get(node.kind)
        done.append((operator, *[done[child] for child in node.children]) if operator else node.name)
    return done[-1]


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a", "a"),
        ("((a))", "a"),
        ("a .. b", ("..", "a", "b")),
        ("a..b..c", ("..", "a", "b", "c")),
        ("a .. (b .. c)", ("..", "a", ("..", "b", "c"))),
        ("a | b | c", ("|", "a", "b", "c")),
        ("a | (b | c)", ("|", "a", ("|", "b", "c"))),
        ("a || b || c", ("||", "a", "b", "c")),
        ("a | b || c", ("|", "a", ("||", "b", "c"))),
        ("a || b | c", ("|", ("||", "a", "b"), "c")),
        ("a | b || c .. d", ("|", "a", ("||", "b", ("..", "c", "d")))),
        ("a .. b | c .. d", ("|", ("..", "a", "b"), ("..", "c", "d"))),
        ("a .. (b | c) .. d", ("..", "a", ("|", "b", "c"), "d")),
        ("a // one\n .. /* two\n*/ b", ("..", "a", "b")),
        ("typed .. boxes .. iffy .. _x9", ("..", "typed", "boxes", "iffy", "_x9")),
    ],
)
def test_expressions_bind_as_the_grammar_says(text: str, tree: Any) -> None:
    assert shape(parse(text)) == tree
    assert shape(parse(f"net main connect {text};")) == tree


PROGRAM = """
// A frame pipeline.
<metadata> <creator>nobody</creator> </metadata>
type frame = {image, <w>, <h>} | raw;
type raw = {};
typesig work = frame -> frame | {done}, raw -> ...;
box decode ((data, <#b>) -> (image) | (error, <code>)) ;
box blur ((image=, <w>) -> ( )) { <<<C| for (;;) { a || b; } >>> }
net filters (work, {image} -> ...)
{
  box sharpen ((image)->(image));
  net blur;
  <metadata>inner</metadata>
  net both connect blur | sharpen;
}
connect both .. both;
net external ({a} -> {b});
net main connect decode .. filters .. blur .. external .. elsewhere"""


def test_a_program_with_nested_scopes() -> None:
    network = parse(PROGRAM)
    both = ("|", "blur", "sharpen")
    assert shape(network) == ("..", "decode", ("..", both, both), "blur", "external", "elsewhere")
    assert network.keys == (
        "decode", "blur#1", "sharpen#1", "blur#2", "sharpen#2", "blur#3", "external", "elsewhere",
    )  # fmt: skip
    first = network.nodes[network.boxes[0]]
    assert PROGRAM.splitlines()[first.line - 1][first.column - 1 :].startswith("decode ..")
    outer = network.nodes[network.choices[0]]
    assert PROGRAM.splitlines()[outer.line - 1][outer.column - 1] == "|"
    assert shape(parse(PROGRAM, net="filters")) == ("..", both, both)


def test_declarations_are_kept_as_written() -> None:
    program = read(PROGRAM)
    decode, blur = program.scope["decode"], program.scope["blur"]
    assert isinstance(decode, Box)
    assert isinstance(blur, Box)
    assert decode.consumes == (Label("field", "data"), Label("binding tag", "b"))
    assert decode.produces == ((Label("field", "image"),), (Label("field", "error"), Label("tag", "code")))
    assert blur.consumes == (Label("field", "image", passes=True), Label("tag", "w"))
    assert blur.produces == ((),)
    assert program.metadata == ("<metadata> <creator>nobody</creator> </metadata>",)


def test_an_initialiser_box_runs_once() -> None:
    network = parse("box start (-> (a)); box step (() -> (a)); net m connect start .. step;")
    assert [network.nodes[index].once for index in network.boxes] == [True, False]


def test_the_innermost_definition_wins_and_order_does_not_matter() -> None:
    text = "net m { net x connect in1 .. in2; } connect x .. y; net y connect x; net x connect out; net z connect m;"
    assert shape(parse(text)) == ("..", ("..", "in1", "in2"), "out")


def test_the_main_net_is_the_last_one_with_an_expression_unless_named() -> None:
    text = "net a connect x; net b connect y; net c;"
    assert shape(parse(text)) == "y"
    assert shape(parse(text, net="a")) == "x"
    for wrong in ("c", "d", "x"):
        with pytest.raises(InvalidValue) as raised:
            parse(text, net=wrong)
        assert (raised.value.field, raised.value.bound) == ("net", "one of: a, b")
    with pytest.raises(InvalidValue):
        parse("a .. b", net="a")


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("", 1, 1, "the text ends"),
        ("  // nothing\n", 1, 1, "the text ends"),
        ("a ..", 1, 5, "the text ends, expected `(`, `[`, `[|` or a name"),
        ("a\n..\n.. b", 3, 1, "`..`, expected `(`, `[`, `[|` or a name"),
        ("a b", 1, 3, "`b`, expected `..`, `|`, `||`, an operator or the end"),
        ("a . b", 1, 3, "`.`"),
        ("a ... b", 1, 3, "`...`"),
        ("a | | b", 1, 5, "`|`"),
        ("a ||| b", 1, 5, "`|`"),
        ("| a", 1, 1, "`|`"),
        ("(a", 1, 3, "the text ends, expected `)`"),
        ("(a))", 1, 4, "`)`"),
        ("()", 1, 2, "`)`"),
        ("a .. net", 1, 6, "reserved word"),
        ("a .. 7", 1, 6, "`7`"),
        ("a .. b;", 1, 7, "`;`"),
        ("a .. \u00e9", 1, 6, "`\u00e9`"),
        ("a .. b\x00", 1, 7, "\\u0000"),
        ("a /* b", 1, 3, "a comment that no `*/` closes"),
        ("box a ((x)->(y)) { <<<C| x }", 1, 20, "box code that no `>>>` closes"),
        ("box a (x -> y);", 1, 8, "`x`, expected `(` or `->`"),
        ("box a ((x)->(y))", 1, 17, "the text ends, expected `;` or `{`"),
        ("box a ((x,)->(y));", 1, 11, "`)`"),
        ("box a ((x)->(y=));", 1, 15, "`=`"),
        ("box a ((<x)->(y));", 1, 11, "`)`, expected `>`"),
        ("net a connect b; }", 1, 18, "`}`"),
        ("net a { box b ((x)->(y)); } connect", 1, 36, "the text ends"),
        ("net a { net b connect c } connect b;", 1, 25, "`}`"),
        ("net a connect b\nnet c connect d;", 2, 1, "`net`"),
        ("net a connect b;\nbox a ((x)->(y));", 2, 5, "defined again, first at line 1, column 5"),
        ("net a connect b .. a;", 1, 20, "net `a` contains itself"),
        ("net a connect b; net b connect c ..\n a;", 2, 2, "contains itself"),
        ("box a ((x)->(y));", 1, 1, "no top-level net has a connect"),
        ("type t = {a}", 1, 13, "the text ends"),
        ("typesig t = {a};", 1, 16, "`;`, expected `->`"),
        ("connect a;", 1, 1, "`connect`"),
        ("x" * 201, 1, 1, "201 bytes"),
    ],
)
def test_a_mistake_is_told_with_line_and_column(text: str, line: int, column: int, words: str) -> None:
    with pytest.raises(NetworkSyntax) as raised:
        parse(text)
    assert (raised.value.line, raised.value.column) == (line, column), str(raised.value)
    assert words in str(raised.value)
    assert raised.value.field == "network"


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "(" * 100_000 + "a" + ")" * 100_000,
        "net a {" * 100_000,
        "a .. " * 100_000 + "(" * 300,
        "a" * 2**20,
        "a" * (2**20 + 1),
        "\u00e9" * 2**20,
        "/*" * 500_000,
        "<metadata>" * 100_000,
        "box a ((x)->(y)) {" + "<<<" * 300_000,
        "{" * 1000,
        "\ud800",
        "net a connect a .. a;",
        "net n0 connect a .. a;" + "".join(f"net n{i + 1} connect n{i} .. n{i};" for i in range(60)),
        "".join(f"net n{i + 1} connect n{i};" for i in range(5000)),
        "net a { net b { net c connect a; } connect c; } connect b;",
    ],
    ids=range(16),
)
def test_a_hostile_text_is_an_error_and_not_a_crash(text: str) -> None:
    with pytest.raises(AdvisorError) as raised:
        parse(text)
    assert isinstance(raised.value, (NetworkSyntax, TooLarge))
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize("text", [None, 7, b"a", ["a"]])
def test_what_is_no_text_is_refused(text: Any) -> None:
    with pytest.raises(InvalidValue):
        parse(text)


def test_brackets_may_nest_up_to_the_limit() -> None:
    deep = limits.NETWORK_DEPTH_MAX
    assert shape(parse("(" * deep + "a" + ")" * deep)) == "a"
    with pytest.raises(TooLarge):
        parse("(" * (deep + 1) + "a" + ")" * (deep + 1))


NAMES = st.sampled_from(["a", "b", "c9", "_d", "long_name", "typed"])


def _operators(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda op, some: (op, *some), st.sampled_from(["..", "|", "||"]), st.lists(parts, min_size=2, max_size=4)
    )


TREES = st.recursive(NAMES, _operators, max_leaves=20)
TIGHTNESS = {"|": 0, "||": 1, "..": 2}


def text_of(tree: Any, draw: Any, around: int = -1) -> str:
    """Write a tree as text, with brackets where they are needed and at times where they are not."""
    space = draw(st.sampled_from(["", " ", "\n", " /* x */ ", " // y\n"]))
    if isinstance(tree, str):
        return tree
    operator, *parts = tree
    inner = f"{space}{operator}{space}".join(text_of(part, draw, TIGHTNESS[operator]) for part in parts)
    return f"({inner})" if TIGHTNESS[operator] <= around or draw(st.booleans()) else inner


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_any_expression_reads_back_as_the_tree_it_was_written_from(data: st.DataObject) -> None:
    tree = data.draw(TREES)
    assert shape(parse(text_of(tree, data.draw))) == tree


@given(st.text(alphabet="ab .|()[]{}<>*!;,\n/=-#@\\", max_size=60) | st.text(max_size=30))
@settings(max_examples=300, deadline=None)
def test_any_text_reads_or_is_an_error_of_the_caller(text: str) -> None:
    error = error_of(text)
    if error is None:
        assert parse(text).nodes
        return
    assert isinstance(error, (NetworkSyntax, TooLarge))
    if isinstance(error, NetworkSyntax):
        lines = text.split("\n")
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1


def error_of(text: str) -> AdvisorError | None:
    try:
        parse(text)
    except AdvisorError as error:
        return error
    return None
