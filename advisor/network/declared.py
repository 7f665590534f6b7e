"""Declared types: the signature of a net with the names of types and signatures looked up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from advisor.errors import TooLarge
from advisor.network import program as syntax

# For each variant of the input: its labels, then those of each variant of output.
Mappings = tuple[tuple[tuple[str, ...], ...], ...]
VARIANTS_MAX = 4_096  # of one declared type, in all its mappings: each use of the net carries them
ANY_OUTPUT = (syntax.ANYTHING,)
Named = syntax.TypeDefinition | syntax.SignatureDefinition


class Scope(Protocol):
    """Where names are looked up: the types defined there, and those around them."""

    @property
    def types(self) -> syntax.Types: ...
    @property
    def outer(self) -> Scope | None: ...


def declared_type(net: syntax.Net, scope: Scope) -> Mappings:
    """Return the type that a net's signature declares; empty where there is none, or a name in it is not defined.

    A mapping without input adds nothing. `scope` is where the net's own names are looked up. Raises TooLarge beyond
    VARIANTS_MAX. Cost O(variants + definitions of types).
    """
    found: list[tuple[tuple[str, ...], ...]] = []
    size = 0
    for mapping, home in _mappings(net.signature or (), scope):
        if mapping is None:
            return ()
        if mapping.takes is None:
            continue
        takes, gives = _variants(mapping.takes, home), _outputs(mapping, home)
        if takes is None:
            return ()
        size += len(takes) * (1 + len(gives))
        if size > VARIANTS_MAX:
            raise TooLarge("network signature variants", size, VARIANTS_MAX, f"of net `{net.name}`")
        found += [(variant, *gives) for variant in takes]
    return tuple(found)


def outputs_of(net: syntax.Net, scope: Scope) -> tuple[tuple[str, ...], ...]:
    """Return the variants of output of a net that has no input."""
    return tuple(dict.fromkeys(variant for mapping, home in _mappings(net.signature or (), scope) if mapping is not None
                               for variant in _outputs(mapping, home)))  # fmt: skip


def _outputs(mapping: syntax.TypeMapping, scope: Scope) -> tuple[tuple[str, ...], ...]:
    if mapping.gives is None:
        return ()
    variants = None if mapping.gives == syntax.ANYTHING else _variants(mapping.gives, scope)
    return (ANY_OUTPUT,) if variants is None else variants


def _mappings(signature: syntax.Signature, scope: Scope) -> Iterator[tuple[syntax.TypeMapping | None, Scope]]:
    """Yield the mappings of a signature with their scope, those of named ones in place; None for an unknown name."""
    todo: list[tuple[syntax.TypeMapping | str, Scope, Named | None]] = [(item, scope, None) for item in signature[::-1]]
    seen: set[int] = set()
    while todo:
        item, here, within = todo.pop()
        if isinstance(item, syntax.TypeMapping):
            yield item, here
            continue
        found, home = _look_up(item, here, within, syntax.SignatureDefinition)
        if not isinstance(found, syntax.SignatureDefinition):
            yield None, here
        elif id(found) not in seen:
            seen.add(id(found))
            todo += [(part, home, found) for part in found.signature[::-1]]


def _variants(variants: Sequence[syntax.Variant], scope: Scope) -> tuple[tuple[str, ...], ...] | None:
    """Return the records of a type, each once, names looked up; None when one is not defined."""
    found: dict[tuple[str, ...], None] = {}
    todo: list[tuple[syntax.Variant, Scope, Named | None]] = [(item, scope, None) for item in variants[::-1]]
    seen: set[int] = set()
    while todo:
        item, here, within = todo.pop()
        if not isinstance(item, str):
            found[tuple(label.plain for label in item)] = None
            continue
        named, home = _look_up(item, here, within, syntax.TypeDefinition)
        if not isinstance(named, syntax.TypeDefinition):
            return None
        if id(named) not in seen:
            seen.add(id(named))
            todo += [(part, home, named) for part in named.variants[::-1]]
    return tuple(found) or None


def _look_up(
    name: str, scope: Scope, within: Named | None, kind: type[syntax.TypeDefinition] | type[syntax.SignatureDefinition]
) -> tuple[Named | None, Scope]:
    """Return what a name means; inside its own definition it means the one around that."""
    here: Scope | None = scope
    while here is not None:
        found = here.types.get((kind, name))
        if found is not None and found is not within:
            return found, here
        here = here.outer
    return None, scope
