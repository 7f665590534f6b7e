"""S-Net text: what it means, and where exactly it does not read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.domain import limits
from advisor.domain.networks import Network
from advisor.errors import AdvisorError, InvalidValue, NetworkSyntax, TooLarge
from advisor.network import parse, read, write
from advisor.network.expansion import Box

MISTAKES = Path(__file__).with_name("mistakes.jsonl")  # a line each: text, line and column of the mistake, words


def shape(network: Network) -> Any:
    """The tree as nested tuples: a name, or (operator, parts)."""
    done: list[Any] = []
    for node in network.nodes:
        operator = {"series": "..", "choice": "||" if node.ordered else "|"}.get(node.kind)
        done.append((operator, *[done[child] for child in node.children]) if operator else node.name)
    return done[-1]


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
    assert (decode.consumes, decode.produces) == (("data", "<#b>"), (("image",), ("error", "<code>")))
    assert (blur.consumes, blur.produces) == (("image=", "<w>"), ((),))


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


@pytest.mark.parametrize(("text", "line", "column", "words"), [*map(json.loads, MISTAKES.read_text().splitlines())])
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
        "a .. " * 20_000 + "(" * 300,
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
        "a" + "@1" * 300,
        "a * {x} if <" + "(" * 100_000,
        "a * {x} if <" + "- " * 20_000 + "1>",
        "a * {x} if <" + "1?1:" * 4_000 + "1>",
        "a * {x} if <" + "1+" * 100_000 + "1>",
        "a * {x} if <1 > " + "/**/" * 200_000 + ")",
        "a * {x} if <1 > " + "/*" * 200_000,
        "a * {x} if <" + "> " * 300_000,
        "a * {x} if <0x" + "f" * 500_000 + ">",
        "<metadata " * 100_000,
        "<metadata a/" * 80_000,
        "<!--" * 200_000,
        "<m:n>" * 100_000,
        "<m:n></m:n>" * 15_000,
        "<?" * 400_000,
        "box a (" + "(" * 100_000,
        "box a ((" + "x," * 15_000,
        "box a ((" + "x= , " * 10_000 + ") -> ();",
        "box " * 200_000,
        "[" * 100_000,
        "[| {a}, " * 100_000,
        "[{a} -> if <1> then " * 40_000,
        "type t = " + "{a}|" * 10_000,
    ],
    ids=range(39),
)
def test_a_hostile_text_is_an_error_and_not_a_crash(text: str) -> None:
    with pytest.raises(AdvisorError) as raised:
        parse(text)
    assert isinstance(raised.value, (NetworkSyntax, TooLarge))
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize(
    "metadata",
    [
        "<metadata></metadata>",
        '<metadata x="a/b"><box name="n"/></metadata>',
        "<metadata/>",
        "<metadata attr = '<' />",
        '<!DOCTYPE m [<!ENTITY a "&a;&a;">]>'.join(["<metadata>", "&a;</metadata>"]),
        "<snet:metadata xmlns:snet='x'> <snet:box/> </snet:metadata>",
        "<metadata> net x connect y; /* </metadata>",
        "<snet:net name='a'> <snet:net name='b'> http://kept </snet:net> </snet:net>",
    ],
)
def test_metadata_is_never_read(metadata: str) -> None:
    text = f"<?xml version='1.0'?>\n<!-- about --> {metadata}\nnet m {{ {metadata} }} connect a;"
    program = read(text)
    assert [*program.scope] == ["m"]
    assert shape(parse(text)) == "a"


def test_filters_are_kept_as_written_without_comments() -> None:
    text = "[{<c>} -> {a, <x = 1, #y = c + 1, z>}]"
    assert parse(text.replace(" ->", " /* to\n */\n ->")).nodes[0].text == text
    with pytest.raises(NetworkSyntax, match="expected"):
        parse("[{<c>} -> {<x = 1,>}]")


def test_the_grammar_page_s_example_binds_as_it_says() -> None:
    plain, explicit = "a | b || c .. d*{x}@1", "a | (b || (c .. ((d*{x})@1)))"
    assert parse(plain) == parse(explicit)
    kinds = [(node.kind, node.ordered, node.children) for node in parse(plain).nodes]
    assert kinds == [
        ("box", False, ()), ("box", False, ()), ("box", False, ()), ("box", False, ()), ("replication", False, (3,)),
        ("placement", False, (4,)), ("series", False, (2, 5)), ("choice", True, (1, 6)), ("choice", False, (0, 7)),
    ]  # fmt: skip


OPERATORS = r"""
box work ((a=, <t>) -> (b) | ());
net ext ({a} | {c} -> {b}, {d} -> ...);
net m connect ((work ** {x}, {y, <t>} if <t > 3 && #n == 0x10>) !!@ <#b>) @ 017
    .. [{a, <t>} -> if <t < 1> then {b = a}; {<t = t - 1>} else if <t == 1> then else {}]
    .. ext \ {r} .. [|{a},{b} if <!t>|] * {a, b} ! <t>;
"""


def test_operators_carry_what_the_text_says() -> None:
    network = parse(OPERATORS)
    by_kind = {node.kind: node for node in network.nodes}
    placement, split, feedback = by_kind["placement"], network.nodes[network.splits[0]], by_kind["feedback"]
    assert placement.place == 0o17
    assert (split.tag, split.ordered, split.placed) == ("#b", True, True)
    star = network.nodes[network.replications[0]]
    assert (star.ordered, star.patterns) == (True, ("{x}", "{y, <t>} if <t > 3 && #n == 0x10>"))
    assert feedback.patterns == ("{r}",)
    assert by_kind["sync"].patterns == ("{a}", "{b} if <!t>")
    assert (
        by_kind["filter"].text == "[{a, <t>} -> if <t < 1> then {b = a}; {<t = t - 1>} else if <t == 1> then else {}]"
    )
    work, ext = (network.nodes[index] for index in network.boxes)
    assert (work.consumes, work.produces) == (("a=", "<t>"), (("b",), ()))
    assert (ext.consumes, ext.once) == (None, False)
    lines = OPERATORS.splitlines()
    for node in network.nodes:
        assert lines[node.line - 1][node.column - 1] in "w*!@.[e\\"


@pytest.mark.parametrize(
    "text",
    [
        "net m connect a ** ({y, z}) !! (<t>);",
        "net m connect (a !! (<#t>)) \\ ({b}, {c} if <t>);",
        "net lib::a ({lib::x, <lib::t>} -> ...); net m connect lib::a;",
        "net m connect [(x, <t>) -> (y, <t>)];",
        "net m connect [{x} if <1 == 2> -> {y = x}; {<d = 3>} if <1 == 3> -> else -> {x}];",
        "net m connect [{x, <t>} if <t / 6> -> {x, <s = #b>}];",
        "net m connect [{} ->] .. [ ] .. [{<n>} -> if <n >= 2> then {<p = 2>} ; {<n>} else ];",
        "net m connect a * {x}, { } if < 1 > s + #b >= 3 || ! 10 > 11 > .. b;",
        "net m { net in connect a } connect in".replace("a }", "a; }"),
        "net m { type t = t; typesig s = t -> t; net n (s); } connect n; ",
        "net m { net t connect [{<x>} -> if <x<=0> then {<x=0>}else if<x%2==0> then {<x=x/2>}else{<x>}]; } connect t@0!@<I>",
        "net m { box b(->(<c>)); } connect (b|a!<j>) .. ([|{x},{<c>}|]*{x,<c>} .. c)\\{<c>},{x};",
        "box b ((a)->(b)){ <<< c /* | no */ | int x = a >> 1; >>> } net m connect b;",
    ],
    ids=range(13),
)  # fmt: skip
def test_what_programs_in_the_wild_write_reads_and_is_written_back(text: str) -> None:
    assert parse(write(parse(text))) == parse(text)


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
