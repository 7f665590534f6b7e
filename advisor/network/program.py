"""What an S-Net text says, before nets are expanded: definitions and expressions with their positions.

Positions tell where a thing stands and are no part of what it is: two texts that say the same give equal programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from advisor.network.records import FilterRule, Label, Pattern

ANYTHING: Literal["..."] = "..."  # an output type that says nothing


@dataclass(frozen=True, slots=True)
class Reference:
    """The use of a name in an expression."""

    name: str
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Chain:
    """An n-ary chain of one operator over the `arity` parts before it; the position is that of its first operator."""

    kind: str
    arity: int
    ordered: bool
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Postfix:
    """An operator after its operand: replication, split, feedback or placement; the attributes are those of `Node`."""

    kind: str
    patterns: tuple[Pattern, ...] = ()
    tag: Label | None = None
    ordered: bool = False
    placed: bool = False
    place: int = 0
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Sync:
    """A synchrocell."""

    patterns: tuple[Pattern, ...]
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter."""

    rule: FilterRule
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)


# An expression in postfix order, the root last: it compares, copies and is walked without recursion.
Expression = tuple[Reference | Chain | Postfix | Sync | Filter, ...]

Variant = tuple[Label, ...] | str  # of a type: a record, or the name of a type


@dataclass(frozen=True, slots=True)
class TypeMapping:
    """One mapping of a signature; `takes` None: no input; `gives` None: no output, or ANYTHING."""

    takes: tuple[Variant, ...] | None
    gives: tuple[Variant, ...] | Literal["..."] | None


Signature = tuple[TypeMapping | str, ...]  # a string names a typesig


@dataclass(frozen=True, slots=True)
class Box:
    """A declared box; `consumes` is None for an initialiser, which has no input and runs once."""

    name: str
    line: int = field(compare=False)
    column: int = field(compare=False)
    consumes: tuple[Label, ...] | None
    produces: tuple[tuple[Label, ...], ...]
    code: str | None = None  # with its <<< and >>>


@dataclass(frozen=True, slots=True)
class Net:
    """A net with what is defined in its braces; `expression` is None for an external net."""

    name: str
    line: int = field(compare=False)
    column: int = field(compare=False)
    definitions: tuple[Definition, ...]
    expression: Expression | None
    signature: Signature | None = None
    scope: Mapping[str, Box | Net] = field(init=False, compare=False, repr=False)
    types: Types = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scope", scope_of(self.definitions))
        object.__setattr__(self, "types", types_of(self.definitions))


@dataclass(frozen=True, slots=True)
class TypeDefinition:
    """``type name = …;``"""

    name: str
    line: int = field(compare=False)
    column: int = field(compare=False)
    variants: tuple[Variant, ...]


@dataclass(frozen=True, slots=True)
class SignatureDefinition:
    """``typesig name = …;``"""

    name: str
    line: int = field(compare=False)
    column: int = field(compare=False)
    signature: Signature


@dataclass(frozen=True, slots=True)
class Metadata:
    """A metadata block: its text as it stands, never read as XML."""

    text: str
    line: int = field(compare=False)
    column: int = field(compare=False)


Definition = Box | Net | TypeDefinition | SignatureDefinition | Metadata
Types = Mapping[tuple[type[TypeDefinition] | type[SignatureDefinition], str], TypeDefinition | SignatureDefinition]


def scope_of(definitions: Iterable[Definition]) -> Mapping[str, Box | Net]:
    """Return the boxes and nets among definitions by name."""
    return {item.name: item for item in definitions if isinstance(item, (Box, Net))}


def types_of(definitions: Iterable[Definition]) -> Types:
    """Return the definitions of types and of signatures by what they are and their name."""
    return {(type(item), item.name): item for item in definitions
            if isinstance(item, (TypeDefinition, SignatureDefinition))}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SnetProgram:
    """A whole text: its top-level definitions in order, or a bare expression."""

    definitions: tuple[Definition, ...]
    expression: Expression | None = None
    scope: Mapping[str, Box | Net] = field(init=False, compare=False, repr=False)
    types: Types = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scope", scope_of(self.definitions))
        object.__setattr__(self, "types", types_of(self.definitions))

    @property
    def metadata(self) -> tuple[str, ...]:
        """The texts of the top-level metadata blocks."""
        return tuple(item.text for item in self.definitions if isinstance(item, Metadata))
