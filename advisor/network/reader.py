"""S-Net text -> Program, with lark (LALR; the grammar is snet.lark).

The parser is fed token by token, so that limits are met where they stand, before anything is built on them. Neither lark's LALR parser nor the callbacks recurse.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import cast

from lark import Lark, Token, UnexpectedInput, UnexpectedToken
from lark.lexer import PatternStr

from advisor.domain import limits
from advisor.errors import InvalidValue, NetworkSyntax, TooLarge, shorten
from advisor.network.building import callbacks
from advisor.network.program import Program

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
    "an operator of tags": {"DOUBLE_BAR", "AND", "EQUAL", "ORDER", "LESS", "GREATER", "PLUS", "MINUS", "FACTOR", "EXTREME"},
    "a definition": {"BOX", "NET", "TYPE", "TYPESIG", "METADATA", "XML_ASIDE"},
}
KEYWORDS = frozenset(("box", "net", "connect", "type", "typesig", "if", "then", "else"))
UNCLOSED = {"/*": "a comment that no `*/` closes", "<<<": "box code that no `>>>` closes"}
OPENING, CLOSING = frozenset(("LPAR", "LBRACE", "FILTER_OPEN")), frozenset(("RPAR", "RBRACE", "RSQB"))


def read(text: object) -> Program:
    """Return the definitions of a text, or its bare expression. Cost O(tokens).

    Raises
    ------
    NetworkSyntax, TooLarge, InvalidValue
        As `advisor.network.parse` says.
    """
    if not isinstance(text, str):
        raise InvalidValue("network", text, "S-Net text")
    _check_size(text)
    parser = _parser().parse_interactive(text)
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
                raise _syntax(token, f"a name of {len(token)} bytes, at most {limits.NAME_BYTES_MAX} allowed")
        return parser.feed_eof(last)
    except UnexpectedInput as error:
        raise _explained(error, text, last, cast("set[str]", parser.accepts())) from None


def _check_size(text: str) -> None:
    size = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
    if size > limits.NETWORK_TEXT_BYTES_MAX:
        raise TooLarge("network text bytes", size, limits.NETWORK_TEXT_BYTES_MAX)


def _place(token: Token) -> str:
    return f"line {token.line}, column {token.column}"


def _syntax(token: Token, message: str, hint: str = "") -> NetworkSyntax:
    return NetworkSyntax(message, line=token.line or 1, column=token.column or 1, hint=hint)


def _explained(error: UnexpectedInput, text: str, last: Token | None, accepted: Iterable[str]) -> NetworkSyntax:
    """Return the error in words: where, what stands there, what could have stood there."""
    accepted = set(accepted)
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
    return Lark(grammar, start="program", parser="lalr", maybe_placeholders=False, transformer=callbacks())
