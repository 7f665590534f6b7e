"""S-Net text -> SnetProgram, with lark (LALR; the grammar is snet.lark).

The parser is fed token by token, so that limits are met where they stand, before anything is built on them.
Neither lark's LALR parser nor the callbacks recurse.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, cast

from lark import Lark, Token, UnexpectedInput
from lark.lexer import PatternStr

from advisor.domain import limits
from advisor.errors import InvalidValue, NetworkSyntax, TooLarge
from advisor.network.building import callbacks, check_names
from advisor.network.expansion import SnetProgram
from advisor.network.explaining import KEYWORDS, explained

# A name, as ID of snet.lark.
ID_PATTERN = (
    rf"(?!(?:{'|'.join(sorted(KEYWORDS))})(?![A-Za-z0-9_:]))[A-Za-z_][A-Za-z0-9_]*(?:::[A-Za-z_][A-Za-z0-9_]*)*"
)
PARTS_KEPT = 1_024  # patterns and filters kept read: a network repeats few,
PART_KEPT_CHARACTERS_MAX = 1_000  # and they are short
NAMING = frozenset(("ID", "WHOLE_BOX", "WHOLE_RECORD"))
OPENING, CLOSING = frozenset(("LPAR", "LBRACE", "FILTER_OPEN")), frozenset(("RPAR", "RBRACE", "RSQB"))


def read(text: object) -> SnetProgram:
    """Return the definitions of a text, or its bare expression. Cost O(tokens).

    Raises NetworkSyntax, TooLarge, InvalidValue as `advisor.network.parse` says.
    """
    return _read(text, "network", "program")


def read_pattern(text: object, where: str = "pattern") -> str:
    """Return the text of a pattern such as ``{a, <t>} if <t > 3>`` without comments; `where` names it in errors."""
    return _part(text, where, "pattern")


def read_filter(text: object, where: str = "filter") -> str:
    """Return the text of a filter such as ``[{a} -> {b = a}]`` without comments; `where` names it in errors."""
    return _part(text, where, "filter")[0].text


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
    open_brackets: list[Token] = []
    last: Token | None = None
    try:
        for count, token in enumerate(parser.iter_parse(), 1):
            last = token
            if count > limits.NETWORK_TOKENS_MAX:
                raise TooLarge("network tokens", count, limits.NETWORK_TOKENS_MAX, f"the text from {_place(token)} on")
            if token.type in OPENING:
                open_brackets.append(token)
                if len(open_brackets) > limits.NETWORK_DEPTH_MAX:
                    depth = len(open_brackets)
                    raise TooLarge("network depth", depth, limits.NETWORK_DEPTH_MAX, f"brackets at {_place(token)}")
            elif token.type in CLOSING:
                del open_brackets[-1:]  # none is open where the parser is about to refuse it
            elif token.type in NAMING and len(token) > limits.NAME_BYTES_MAX:
                check_names(token)
        return parser.feed_eof(last)
    except UnexpectedInput as error:
        accepted = cast("set[str]", parser.accepts())
        raise explained(error, text, last, accepted, _plain_terminals(), open_brackets) from None


def _check_size(text: str) -> None:
    size = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
    if size > limits.NETWORK_TEXT_BYTES_MAX:
        raise TooLarge("network text bytes", size, limits.NETWORK_TEXT_BYTES_MAX)


def _place(token: Token) -> str:
    return f"line {token.line}, column {token.column}"


@cache
def _plain_terminals() -> dict[str, str]:
    return {t.name: t.pattern.value for t in _parser().terminals if isinstance(t.pattern, PatternStr)}


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
