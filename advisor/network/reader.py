"""S-Net text -> SnetProgram, with lark (LALR; the grammar is snet.lark).

The parser is fed token by token, so that limits are met where they stand, before anything is built on them.
Neither lark's LALR parser nor the callbacks recurse.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import cast

from lark import Lark, Token, UnexpectedInput
from lark.lexer import PatternStr

from advisor.domain import limits
from advisor.errors import InvalidValue, TooLarge
from advisor.network.building import callbacks, check_names
from advisor.network.expansion import SnetProgram
from advisor.network.explaining import explained

NAMING = frozenset(("ID", "WHOLE_BOX", "WHOLE_RECORD"))
OPENING, CLOSING = frozenset(("LPAR", "LBRACE", "FILTER_OPEN")), frozenset(("RPAR", "RBRACE", "RSQB"))


def read(text: object) -> SnetProgram:
    """Return the definitions of a text, or its bare expression. Cost O(tokens).

    Raises NetworkSyntax, TooLarge, InvalidValue as `advisor.network.parse` says.
    """
    if not isinstance(text, str):
        raise InvalidValue("network", text, "S-Net text")
    check_size(text)
    parser = _parser().parse_interactive(text)
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


def check_size(text: str) -> None:
    """Refuse a text beyond NETWORK_TEXT_BYTES_MAX."""
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
        start="program",
        parser="lalr",
        maybe_placeholders=False,
        transformer=callbacks(),
    )
