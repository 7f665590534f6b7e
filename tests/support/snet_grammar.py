"""Texts drawn from the S-Net grammar as its page has it, token by token: written without any code of the reader."""

from __future__ import annotations

from hypothesis import strategies as st

Tokens = tuple[str, ...]

NAMES = st.sampled_from(["a", "b", "c9", "_d", "long_name", "typed", "boxes", "iffy", "min", "abs_", "tag::x", "T"])
INTEGERS = st.sampled_from(["0", "7", "42", "0x1F", "0Xab", "017", "9223372036854775807"])
SPACES = st.sampled_from([" ", "\n", "\t", " /* c ** > */ ", " // d |]\n", "  "])
METADATA = st.sampled_from([
    "<metadata></metadata>", "<metadata> & ]]> </metadata>", "<metadata/>",
    '<metadata x="1">\n<box name="a/b"> &lt; <!-- c --> </box></metadata>',
])  # fmt: skip
CODE = st.sampled_from(["<<<C| int f() { return a >> 2; } >>>", "<<< SaC | >>>", "<<<C|// } ; */\n>>>"])
BINARY = ["||", "&&", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "min", "max"]


def _chained(parts: list[Tokens], sign: str) -> Tokens:
    return tuple(token for number, part in enumerate(parts) for token in ((*((sign,) if number else ()), *part)))


def _list(items: st.SearchStrategy[Tokens], sign: str, least: int = 0, most: int = 3) -> st.SearchStrategy[Tokens]:
    return st.lists(items, min_size=least, max_size=most).map(lambda parts: _chained(parts, sign))


def _within(left: str, items: st.SearchStrategy[Tokens], right: str) -> st.SearchStrategy[Tokens]:
    return items.map(lambda tokens: (left, *tokens, right))


def _sequence(*parts: st.SearchStrategy[Tokens] | str) -> st.SearchStrategy[Tokens]:
    drawn = st.tuples(*(st.just((part,)) if isinstance(part, str) else part for part in parts))
    return drawn.map(lambda found: tuple(token for tokens in found for token in tokens))


def _or_nothing(part: st.SearchStrategy[Tokens]) -> st.SearchStrategy[Tokens]:
    return st.just(()) | part


NAME = NAMES.map(lambda name: (name,))
LABEL = NAME | NAME.map(lambda name: ("<", *name, ">")) | NAME.map(lambda name: ("<", "#", *name, ">"))
RECORD = _within("{", _list(LABEL, ","), "}")
TAGS: st.SearchStrategy[Tokens] = st.recursive(
    INTEGERS.map(lambda number: (number,)) | NAME | NAME.map(lambda name: ("#", *name)),
    lambda inner: (
        st.tuples(inner, st.sampled_from(BINARY), inner).map(lambda found: (*found[0], found[1], *found[2]))
        | _sequence(inner, "?", inner, ":", inner)
        | _within("(", inner, ")")
        | st.tuples(st.sampled_from(["!", "-", "abs"]), inner).map(lambda found: (found[0], *found[1]))
    ),
    max_leaves=6,
)
GUARD = _sequence("if", "<", TAGS, ">")
PATTERN = RECORD | _sequence(RECORD, GUARD)
ITEM = (
    LABEL
    | _sequence(NAME, "=", NAME)
    | _sequence("<", NAME, "=", TAGS, ">")
    | _sequence("<", "#", NAME, "=", TAGS, ">")
)
ACTION = _list(_within("{", _list(ITEM, ","), "}"), ";")
FILTER = (
    st.just(("[", "]"))
    | _sequence("[", RECORD, "->", ACTION, "]")
    | _sequence("[", RECORD, "->", GUARD, "then", ACTION, "else", ACTION, "]")
    | _sequence("[", RECORD, "->", GUARD, "then", ACTION, "else", GUARD, "then", ACTION, "else", ACTION, "]")
)
SYNC = _within("[|", _list(PATTERN, ",", 2), "|]")
TERM = _list(PATTERN, ",", 1, 2)
RANGE = _within("<", NAME, ">") | NAME.map(lambda name: ("<", "#", *name, ">"))


def _applied(inner: st.SearchStrategy[Tokens]) -> st.SearchStrategy[Tokens]:
    # Brackets round the operand: what binds how is tested by itself, and a `!` behind a guard's `>` is an operand's sign.
    operand = _within("(", inner, ")")
    return (
        _sequence(operand, st.sampled_from([("*",), ("**",), ("\\",)]), TERM)
        | _sequence(operand, st.sampled_from([("!",), ("!!",), ("!", "@"), ("!!", "@")]), RANGE)
        | _sequence(operand, "@", st.sampled_from([("0",), ("17",), ("0x10",), ("2147483648",)]))
        | _sequence(inner, "@", st.just(("3",)))
        | operand
    )


EXPRESSION: st.SearchStrategy[Tokens] = st.recursive(
    NAME | FILTER | SYNC,
    lambda inner: (
        st.tuples(st.sampled_from(["..", "|", "||"]), st.lists(inner, min_size=2, max_size=3)).map(
            lambda found: _chained(found[1], found[0])
        )
        | _applied(inner)
    ),
    max_leaves=6,
)
TUPLE = _within("(", _list(LABEL, ","), ")")
PASSING = _within("(", _list(LABEL | _sequence(LABEL, "="), ","), ")")
TYPE = _list(RECORD | NAME, "|", 1, 2)
MAPPING = _sequence(_or_nothing(TYPE), "->", _or_nothing(TYPE | st.just(("...",))))
SIGNATURE = _list(MAPPING | NAME, ",", 1, 2)
SIGNED = _or_nothing(_within("(", SIGNATURE, ")"))


def _box(name: str) -> st.SearchStrategy[Tokens]:
    end = st.just((";",)) | CODE.map(lambda code: ("{", code, "}"))
    return _sequence("box", name, "(", _or_nothing(PASSING), "->", _list(TUPLE, "|"), ")", end)


def _named(name: str, depth: int) -> st.SearchStrategy[Tokens]:
    body = _or_nothing(_within("{", _definitions(depth - 1, 2), "}")) if depth else st.just(())
    return st.one_of(
        _box(name),
        _sequence("net", name, SIGNED, ";"),
        _sequence("net", name, SIGNED, body, "connect", EXPRESSION, ";"),
        _sequence("type", name, "=", TYPE, ";"),
        _sequence("typesig", name, "=", SIGNATURE, ";"),
        METADATA.map(lambda text: (text,)),
    )


def _definitions(depth: int, most: int) -> st.SearchStrategy[Tokens]:
    names = st.lists(NAMES, max_size=most, unique=True)
    return names.flatmap(lambda found: _sequence(*(_named(name, depth) for name in found)))


MODULE = _sequence(_definitions(2, 3), "net", "main", SIGNED, "connect", EXPRESSION, _or_nothing(st.just((";",))))


@st.composite
def texts(draw: st.DrawFn, tokens: st.SearchStrategy[Tokens] = MODULE) -> str:
    """Draw a text: the tokens with blanks and comments between them, always where two would run together."""
    written = ""
    for token in draw(tokens):
        glued = (
            bool(written)
            and not written[-1].isspace()
            and draw(st.integers(0, 9)) < 5
            and _apart(written[-1], token[0])
        )
        written += ("" if glued else draw(SPACES)) + token
    return written


def _apart(left: str, right: str) -> bool:
    """Say whether two characters never make one token of two."""
    closing, opening = set(")}];,"), set("(){},;")
    return left in closing - {"]"} or (right in opening and (left.isalnum() or left in "_)}"))
