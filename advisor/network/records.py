"""What the text of a network says of records: labels, patterns, tag expressions and filters, and how each is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

FIELD, TAG, BINDING_TAG = "field", "tag", "binding tag"
_WRITTEN = {FIELD: "{}", TAG: "<{}>", BINDING_TAG: "<#{}>"}


class Label(NamedTuple):
    """A label of a record: `kind` is field, tag or binding tag; `passes` marks a consumed label that travels on."""

    kind: str
    name: str
    passes: bool = False

    @property
    def plain(self) -> str:
        """The label alone: ``a``, ``<t>`` or ``<#b>``."""
        return _WRITTEN[self.kind].format(self.name)

    @property
    def text(self) -> str:
        """The label as S-Net writes it, with ``=`` where it passes on."""
        return self.plain + "=" if self.passes else self.plain


# A tag expression in postfix order, so that however deep it is, it compares and copies without recursion: an integer; a
# tag as the text of its label, ``<t>`` or ``<#b>``; an operator, whose operands stand before it.
TagExpression = tuple[int | str, ...]
# Operators by their sign in a TagExpression: (how tightly each binds, how many operands, what S-Net writes).
OPERATORS = {
    "?:": (0, 3, ""), "||": (1, 2, "||"), "&&": (2, 2, "&&"), "==": (3, 2, "=="), "!=": (3, 2, "!="), "<": (4, 2, "<"),
    "<=": (4, 2, "<="), ">": (4, 2, ">"), ">=": (4, 2, ">="), "+": (5, 2, "+"), "-": (5, 2, "-"), "*": (6, 2, "*"),
    "/": (6, 2, "/"), "%": (6, 2, "%"), "min": (7, 2, "min"), "max": (7, 2, "max"), "not": (8, 1, "!"),
    "negative": (8, 1, "-"), "abs": (8, 1, "abs "),
}  # fmt: skip
_OPERAND = 9


class Pattern(NamedTuple):
    """A record pattern, ``{a, <t>} if <t > 3>``: what has all its labels matches, where the guard holds."""

    labels: tuple[Label, ...]
    guard: TagExpression | None = None

    @property
    def text(self) -> str:
        """The pattern as S-Net writes it."""
        record = record_text(self.labels)
        return record if self.guard is None else f"{record} if {guard_text(self.guard)}"


class FilterItem(NamedTuple):
    """One label of a record that a filter puts out.

    `source` is None where the label keeps its value (or is a new tag of value 0), the field it is renamed from, or the
    expression a tag is set to.
    """

    label: Label
    source: str | TagExpression | None = None

    @property
    def text(self) -> str:
        """The item as S-Net writes it."""
        if self.source is None:
            return self.label.plain
        if isinstance(self.source, str):
            return f"{self.label.name} = {self.source}"
        return f"{self.label.plain[:-1]} = {tags_text(self.source)}>"


Action = tuple[tuple[FilterItem, ...], ...]  # the records put out, in order; none drops the record


@dataclass(frozen=True, slots=True)
class Branch:
    """One guarded action of a filter; `guard` None holds always."""

    guard: TagExpression | None
    action: Action


@dataclass(frozen=True, slots=True)
class FilterRule:
    """What a filter does: the action of the first branch whose guard holds. No pattern and no branch: the identity.

    The last branch has no guard, but for the older form ``[{a} if <g> -> …]`` without else, which takes no record whose
    guards all fail.
    """

    pattern: tuple[Label, ...] | None = None
    branches: tuple[Branch, ...] = ()

    @property
    def text(self) -> str:
        """The filter as S-Net writes it."""
        if self.pattern is None:
            return "[]"
        head = record_text(self.pattern)
        if self.branches[-1].guard is not None:
            rules = " ".join(_joined(f"if {guard_text(each.guard or ())} ->", each.action) for each in self.branches)
            return f"[{head} {rules}]"
        words = [f"[{head} ->"]
        words += [
            _joined(f"if {guard_text(each.guard or ())} then", each.action) + " else" for each in self.branches[:-1]
        ]
        return _joined(" ".join(words), self.branches[-1].action) + "]"


def _joined(head: str, action: Action) -> str:
    outs = "; ".join("{" + ", ".join(item.text for item in out) + "}" for out in action)
    return f"{head} {outs}" if outs else head


def record_text(labels: Sequence[Label]) -> str:
    """Return a record as S-Net writes it."""
    return "{" + ", ".join(label.plain for label in labels) + "}"


def guard_text(guard: TagExpression) -> str:
    """Return a guard as S-Net writes it."""
    return f"<{tags_text(guard)}>"


def tags_text(expression: TagExpression) -> str:
    """Return a tag expression as S-Net writes it, with brackets only where they are needed. Cost O(its length²)."""
    done: list[tuple[str, int]] = []
    for item in expression:
        if isinstance(item, int):
            done.append((str(item), _OPERAND))
        elif item not in OPERATORS:
            done.append((item[1:-1], _OPERAND))
        else:
            tightness, count, sign = OPERATORS[item]
            parts = done[-count:]
            del done[-count:]
            done.append((_applied(tightness, sign, parts), tightness))
    return done[-1][0]


def _applied(tightness: int, sign: str, parts: list[tuple[str, int]]) -> str:
    if len(parts) == 1:  # a sign beside a sign would be another token
        operand = _bracketed(parts[0], tightness)
        return f"{sign} {operand}" if operand[0] in "!-=" and sign[-1] != " " else sign + operand
    if len(parts) == 3:
        condition, yes, no = _bracketed(parts[0], tightness + 1), parts[1][0], parts[2][0]
        return f"{condition} ? {yes} : {no}"
    return f"{_bracketed(parts[0], tightness)} {sign} {_bracketed(parts[1], tightness + 1)}"


def _bracketed(part: tuple[str, int], tightness: int) -> str:
    text, own = part
    return text if own >= tightness else f"({text})"
