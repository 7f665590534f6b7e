"""What a text that does not read says wrong: where, what stands there, what could, and a hint where the mistake is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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
