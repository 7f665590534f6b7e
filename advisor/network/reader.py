"""S-Net text -> Program, with lark (LALR; the grammar is snet.lark).

The parser is fed token by token, so that limits and operators which are not planned yet are met where they stand,
before anything is built on them. Neither lark's LALR parser nor the callbacks recurse.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import cast

from lark import Lark, Token, UnexpectedInput, UnexpectedToken
from lark.lexer import PatternStr

from advisor.domain import limits
from advisor.errors import InvalidValue, NetworkSyntax, TooLarge, Unsupported, shorten
from advisor.network.building import callbacks
from advisor.network.program import Program

# Operators that the grammar reads and the planner does not plan yet, by terminal.
LATER = {
    "STAR": ("*", "serial replication"),
    "DOUBLE_STAR": ("**", "ordered serial replication"),
    "SPLIT": ("!", "index split"),
    "DOUBLE_SPLIT": ("!!", "ordered index split"),
    "FEEDBACK": ("\\", "feedback"),
    "PLACEMENT": ("@", "placement"),
    "SYNC": ("[|", "synchrocell"),
    "FILTER": ("[", "filter"),
}
# Words for the terminals whose pattern is no plain text.
TERMINAL_WORDS = {
    "ID": "a name",
    "CODE": "box code <<<…>>>",
    "METADATA": "<metadata>",
    "BAR": "`|`",
    "DOTS": "`..`",
    "$END": "the end",
}
KEYWORDS = frozenset(("box", "net", "connect", "type", "typesig", "if", "then", "else"))
UNCLOSED = {"/*": "a comment that no `*/` closes", "<<<": "box code that no `>>>` closes"}
OPENING, CLOSING = frozenset(("LPAR", "LBRACE")), frozenset(("RPAR", "RBRACE"))


def read(text: object) -> Program:
    """Return the definitions of a text, or its bare expression. Cost O(tokens).

    Raises
    ------
    NetworkSyntax, Unsupported, TooLarge, InvalidValue
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
            if token.type in LATER:
                raise _unsupported(token)
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


def _unsupported(token: Token) -> Unsupported:
    operator, meaning = LATER[token.type]
    return Unsupported(
        f"{_place(token)}: the operator `{operator}` ({meaning}) is not planned by this version",
        field="network", value=operator, bound=f"{token.line}:{token.column}",
        hint="plan the parts that use boxes, nets, `..`, `|`, `||` and brackets",
    )  # fmt: skip


def _explained(error: UnexpectedInput, text: str, last: Token | None, accepted: Iterable[str]) -> NetworkSyntax:
    """Return the error in words: where, what stands there, what could have stood there."""
    accepted = set(accepted) - LATER.keys()
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
    words = sorted({TERMINAL_WORDS.get(name) or plain.get(name, name) for name in accepted})
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words) or "nothing more"


@cache
def _parser() -> Lark:
    grammar = files(__package__ or "advisor.network").joinpath("snet.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", maybe_placeholders=False, transformer=callbacks())
