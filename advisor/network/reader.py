"""S-Net text -> Program, with lark (LALR; the grammar is snet.lark).

The parser is fed token by token, so that limits are met where they stand, before anything is built on them.
Neither lark's LALR parser nor the callbacks recurse.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, cast

from lark import Lark, Token, UnexpectedInput, UnexpectedToken
from lark.lexer import PatternStr

from advisor.domain import limits
from advisor.errors import InvalidValue, NetworkSyntax, TooLarge, shorten
from advisor.network.building import callbacks, check_name
from advisor.network.program import Program
from advisor.network.records import FilterRule, Pattern

# Words for the terminals whose pattern is no plain text.
TERMINAL_WORDS = {
    "ID": "a name",
    "CODE": "box code <<<…>>>",
    "METADATA": "<metadata>",
    "NUMBER": "an integer",
    "BAR": "`|`",
    "DOTS": "`..`",
    "STAR": "`*`",
    "SPLIT": "`!`",
    "FILTER_OPEN": "`[`",
    "MINUS": "`-`",
    "NOT": "`!`",
    "ABS": "`abs`",
    "$END": "the end",
}
# Terminals that are told as one where all of them could stand.
GROUPS = {
    "an operator": {"STAR", "DOUBLE_STAR", "SPLIT", "DOUBLE_SPLIT", "FEEDBACK", "AT"},
    "an operator of tags": {
        "DOUBLE_BAR",
        "AND",
        "EQUAL",
        "ORDER",
        "LESS",
        "GREATER",
        "PLUS",
        "MINUS",
        "FACTOR",
        "EXTREME",
    },
    "a definition": {"BOX", "NET", "TYPE", "TYPESIG", "METADATA", "XML_ASIDE"},
}
KEYWORDS = frozenset(("box", "net", "connect", "type", "typesig", "if", "then", "else"))
# A name, as ID of snet.lark.
ID_PATTERN = (
    rf"(?!(?:{'|'.join(sorted(KEYWORDS))})(?![A-Za-z0-9_:]))[A-Za-z_][A-Za-z0-9_]*(?:::[A-Za-z_][A-Za-z0-9_]*)*"
)
PARTS_KEPT = 1_024  # patterns and filters kept read: a network repeats few,
PART_KEPT_CHARACTERS_MAX = 1_000  # and they are short
UNCLOSED = {"/*": "a comment that no `*/` closes", "<<<": "box code that no `>>>` closes"}
OPENING, CLOSING = frozenset(("LPAR", "LBRACE", "FILTER_OPEN")), frozenset(("RPAR", "RBRACE", "RSQB"))


def read(text: object) -> Program:
    """Return the definitions of a text, or its bare expression. Cost O(tokens).

    Raises
    ------
    NetworkSyntax, TooLarge, InvalidValue
        As `advisor.network.parse` says.
    """
    return _read(text, "network", "program")


def read_pattern(text: object, where: str = "pattern") -> Pattern:
    """Return the pattern that a text such as ``{a, <t>} if <t > 3>`` says; `where` names it in errors."""
    return _part(text, where, "pattern")


def read_filter(text: object, where: str = "filter") -> FilterRule:
    """Return what the filter of a text such as ``[{a} -> {b = a}]`` does; `where` names it in errors."""
    return _part(text, where, "filter")[0].rule


def _part(text: object, where: str, start: str) -> Any:
    """Return what a piece of S-Net says; an error names the field that holds it."""
    try:
        if isinstance(text, str) and len(text) <= PART_KEPT_CHARACTERS_MAX:
            return _kept_part(text, start)
        return _read(text, where, start)
    except NetworkSyntax as error:
        message = f"{where}: {error.message}"
        raise InvalidValue(where, text, f"a {start} in S-Net's form", message) from None


@lru_cache(maxsize=PARTS_KEPT)
def _kept_part(text: str, start: str) -> Any:
    return _read(text, start, start)


def _read(text: object, where: str, start: str) -> Any:
    if not isinstance(text, str):
        raise InvalidValue(where, text, "S-Net text")
    _check_size(text)
    parser = _parser().parse_interactive(text, start=start)
    depth = 0
    last: Token | None = None
    try:
        for count, token in enumerate(parser.iter_parse(), 1):
            last = token
            if count > limits.NETWORK_TOKENS_MAX:
                raise TooLarge("network tokens", count, limits.NETWORK_TOKENS_MAX, f"the text from {_place(token)} on")
            if token.type in OPENING:
                depth += 1
                if depth > limits.NETWORK_DEPTH_MAX:
                    raise TooLarge("network depth", depth, limits.NETWORK_DEPTH_MAX, f"brackets at {_place(token)}")
            elif token.type in CLOSING:
                depth -= 1
            elif token.type == "ID" and len(token) > limits.NAME_BYTES_MAX:
                check_name(token, token.line or 1, token.column or 1)
        return parser.feed_eof(last)
    except UnexpectedInput as error:
        raise _explained(error, text, last, cast("set[str]", parser.accepts())) from None


def _check_size(text: str) -> None:
    size = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
    if size > limits.NETWORK_TEXT_BYTES_MAX:
        raise TooLarge("network text bytes", size, limits.NETWORK_TEXT_BYTES_MAX)


def _place(token: Token) -> str:
    return f"line {token.line}, column {token.column}"


def _explained(error: UnexpectedInput, text: str, last: Token | None, accepted: Iterable[str]) -> NetworkSyntax:
    """Return the error in words: where, what stands there, what could have stood there."""
    accepted = set(accepted) - {"WHOLE_BOX"}
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        line, column = (last.end_line or 1, last.end_column or 1) if last is not None else (1, 1)
        return NetworkSyntax(f"the text ends, expected {_words(accepted)}", line=line, column=column)
    start = error.pos_in_stream or 0
    found = _text(error)[:40] if isinstance(error, UnexpectedToken) else text[start : start + 1]
    unclosed = (words for opening, words in UNCLOSED.items() if text.startswith(opening, start))
    words = next(unclosed, f"`{shorten(found)}`")
    hint = f"`{found}` is a reserved word" if found in KEYWORDS and "ID" in accepted else ""
    return NetworkSyntax(f"{words}, expected {_words(accepted)}", line=error.line, column=error.column, hint=hint)


def _text(error: UnexpectedToken) -> str:
    token: str = error.token
    return str(token)


def _words(accepted: Iterable[str]) -> str:
    plain = {t.name: f"`{t.pattern.value}`" for t in _parser().terminals if isinstance(t.pattern, PatternStr)}
    left = set(accepted)
    words: list[str] = []
    for name, group in GROUPS.items():
        if group <= left:
            left -= group
            words.append(name)
    words = sorted({*words, *(TERMINAL_WORDS.get(name) or plain.get(name, name) for name in left)})
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words) or "nothing more"


@cache
def _parser() -> Lark:
    grammar = files(__package__ or "advisor.network").joinpath("snet.lark").read_text(encoding="utf-8")
    return Lark(
        grammar,
        start=["program", "pattern", "filter"],
        parser="lalr",
        maybe_placeholders=False,
        transformer=callbacks(),
    )
