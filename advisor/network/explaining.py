"""What a text that does not read says wrong: where, what stands there, what could, and a hint where the mistake is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lark import Token, UnexpectedInput, UnexpectedToken

from advisor.errors import NetworkSyntax, shorten

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
# Terminals that are named as one where all of them could stand.
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
# What begins something that is closed by another sign, and did not find it.
UNCLOSED = {
    "/*": "a comment that no `*/` closes", "<<<": "box code that no `>>>` closes",
    "<metadata": "metadata that no `</metadata>` closes", "<!--": "a comment that no `-->` closes",
    "<?": "an XML prologue that no `?>` closes",
}  # fmt: skip
CLOSED_BY = {")": "(", "}": "{", "]": "["}
FOUND_SHOWN = 40  # characters of a token


class Mistake(NamedTuple):
    """A mistake that people make: it is the one when all that is not None fits."""

    hint: str
    after: tuple[str, ...] | None = None  # terminals, one of which was the last that read
    found: tuple[str, ...] | None = None  # texts, one of which stands there
    accepted: tuple[str, ...] = ()  # terminals that all could stand there
    refused: tuple[str, ...] = ()  # terminals that could not


MISTAKES = (
    Mistake("an exit or return pattern stands in braces: {a, <t>}", ("STAR", "DOUBLE_STAR", "FEEDBACK")),
    Mistake("a split names a tag: ! <t>", ("SPLIT", "DOUBLE_SPLIT")),
    Mistake("a placement names a node by its number: @ 1", ("AT",), accepted=("NUMBER",)),
    Mistake("a split names a tag: !@ <t>", ("AT",)),
    Mistake("a guard stands in angle brackets: if <t > 3>", ("IF",)),
    Mistake("a synchrocell joins two patterns or more: [| {a}, {b} |]", found=("|]",), accepted=("COMMA",)),
    Mistake("every `if <…> then` of a filter has an `else`, if only an empty one", found=("]",), accepted=("ELSE",)),
    Mistake("a filter parts the records that it puts out by `;`", found=(",",), accepted=("SEMICOLON", "RSQB")),
    Mistake("records of a filter stand in braces: [{a} -> {b}]", accepted=("RSQB", "LBRACE"), refused=("ELSE",)),
    Mistake("a net says what it connects: net m connect a .. b;", accepted=("CONNECT",)),
    Mistake("an operator stands between its operands: a .. b", found=("..", "|", "||"), accepted=("ID", "FILTER_OPEN")),
    Mistake("pipelines are written with two dots: a .. b", found=(".", "...", "->"), accepted=("DOTS",)),
    Mistake("definitions stand before `connect`, and end with `;`", found=("connect",), accepted=("RBRACE", "BOX")),
    Mistake("a definition ends with `;`", found=("net", "box", "type", "typesig"), accepted=("SEMICOLON",)),
    Mistake("code of a box stands as <<<language| code >>>", found=("}",), accepted=("CODE",)),
    Mistake("variants are parted by `|`", found=(",",), accepted=("BAR", "SEMICOLON")),
    Mistake("a name begins with a letter or `_`", found=tuple("0123456789"), accepted=("ID",), refused=("NUMBER",)),
)


def explained(
    error: UnexpectedInput, text: str, last: Token | None, accepted: Iterable[str], plain: Mapping[str, str],
    open_brackets: Sequence[Token],
) -> NetworkSyntax:  # fmt: skip
    """Return the error in words.

    `error`: that of lark. `text`, `last`, `accepted`: the text, the last token that read, the terminals that could have stood
    there. `plain`: the text of each terminal that is no regular expression. `open_brackets`: brackets that are open there,
    the innermost last.
    """
    could = set(accepted) - {"WHOLE_BOX", "WHOLE_RECORD"}
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        line, column = (last.end_line or 1, last.end_column or 1) if last is not None else (1, 1)
        found, words = "", "the text ends"
    else:
        line, column, start = error.line, error.column, error.pos_in_stream or 0
        found = _text(error)[:FOUND_SHOWN] if isinstance(error, UnexpectedToken) else text[start : start + 1]
        unclosed = (meaning for opening, meaning in UNCLOSED.items() if text.startswith(opening, start))
        words = next(unclosed, f"`{shorten(found)}`")
    hint = _hint(found, last, could)
    if not hint and open_brackets and (not found or CLOSED_BY.get(found, open_brackets[-1]) != open_brackets[-1]):
        bracket = open_brackets[-1]
        hint = f"the `{bracket}` at line {bracket.line}, column {bracket.column} is not closed"
    return NetworkSyntax(f"{words}, expected {_words(could, plain)}", line=line, column=column, hint=hint)


def _hint(found: str, last: Token | None, could: set[str]) -> str:
    if found in KEYWORDS and "ID" in could and "CONNECT" not in could and "BOX" not in could:
        return f"`{found}` is a reserved word"
    if last is not None and last.lower() in KEYWORDS and last.type == "ID" and "DOTS" in could:
        return f"`{last.lower()}` is written in small letters"
    for mistake in MISTAKES:
        if (
            (mistake.after is None or (last is not None and last.type in mistake.after))
            and (mistake.found is None or found in mistake.found)
            and could.issuperset(mistake.accepted)
            and could.isdisjoint(mistake.refused)
        ):
            return mistake.hint
    return ""


def _text(error: UnexpectedToken) -> str:
    token: str = error.token
    return str(token)


def _words(accepted: Iterable[str], plain: Mapping[str, str]) -> str:
    left = set(accepted)
    words: list[str] = []
    for name, group in GROUPS.items():
        if group <= left:
            left -= group
            words.append(name)
    quoted = {name: f"`{text}`" for name, text in plain.items()}
    words = sorted({*words, *(TERMINAL_WORDS.get(name) or quoted.get(name, name) for name in left)})
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words) or "nothing more"
