"""What a key takes: a type, which msgspec checks, with bounds in `Annotated`; and the words of what is wrong with a value.

A `Further` in `Annotated` looks at what msgspec has typed, and may return another value: at names in bytes, at core counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union, cast, get_args, get_origin

import msgspec
from msgspec import Meta

from advisor.domain.names import NAME_BOUND, checked_name
from advisor.errors import InvalidValue, TooLarge, UnknownKey, closest

Check = Callable[[str, Any], Any]  # (field, value) to the typed value; raises InvalidValue, TooLarge or UnknownKey

UNIONS, LISTS, MAPS = (Union, UnionType), (list, tuple, Sequence), (dict, Mapping)
NUMBER_TYPES = frozenset((int, float))
SIMPLE = {bool: "true or false", str: "text", bytes: "bin", NoneType: "nil", Any: "any value"}


class Further(NamedTuple):
    """What looks at a value whose type is as it should be."""

    check: Check


Name = Annotated[str, Meta(title="name", description=NAME_BOUND), Further(checked_name)]


class Shape(NamedTuple):
    """A type, and what looks further at its values."""

    type: Any
    further: Check | None

    def check_value(self, field: str, value: Any) -> Any:
        """Return a value typed; raises InvalidValue, TooLarge, UnknownKey."""
        try:
            found = msgspec.convert(value, self.type)
        except msgspec.ValidationError as error:
            raise refusal(field, self.type, value) or InvalidValue(field, value, str(error)) from error
        return found if self.further is None else self.further(field, found)


def shape_of(said: Any) -> Shape:
    """Return the shape of an annotation."""
    of = taken_apart(said)[0]
    return Shape(of if _is_record(of) else said, further_of(said))  # a bare record is looked up faster


def taken_apart(said: Any) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Return what an annotation is of, its parts, and what `Annotated` says of it."""
    if get_origin(said) is Annotated:
        inner, *notes = get_args(said)
        of, parts, more = taken_apart(inner)
        return of, parts, (*notes, *more)
    of, parts = get_origin(said) or said, get_args(said)
    return (Sequence, parts[:1], ()) if of is tuple and parts[1:] == (...,) else (of, parts, ())


def further_of(said: Any) -> Check | None:
    """Return what looks further at the values of an annotation: at a list's items, a map's values, one side of a union."""
    of, parts, notes = taken_apart(said)
    own = next((note.check for note in notes if isinstance(note, Further)), None)
    takes = [None if own or of is Literal else further_of(part) for part in parts]
    of_all = next(filter(None, takes), None)
    if of_all is None:
        return own
    by_kind = {
        kind: take for part, take in zip(parts, takes, strict=True) for kind in kinds_of(part) if take is not None
    }

    def each(field: str, value: Any) -> Any:
        if of in UNIONS:
            take = None if value is None else of_all if object in by_kind else by_kind.get(value.__class__)
            return value if take is None else take(field, value)
        if of is tuple:
            places = enumerate(zip(takes, cast("tuple[Any, ...]", value), strict=True))
            return [item if take is None else take(f"{field}[{at}]", item) for at, (take, item) in places]
        if isinstance(value, (list, tuple)):
            found = [of_all(f"{field}[{at}]", item) for at, item in enumerate(cast("list[Any]", value))]
            return tuple(found) if isinstance(value, tuple) else found
        entries: dict[str, Any] = value
        return {key: of_all(f"{field}[{key[:40]!r}]", item) for key, item in entries.items()}

    return each


def kinds_of(said: Any) -> tuple[type, ...]:
    """Return the types of the values of an annotation; a truth value is no number."""
    of, parts, _ = taken_apart(said)
    if of in UNIONS:
        return tuple(kind for part in parts for kind in kinds_of(part))
    if of is Literal:
        return tuple(map(type, parts))
    if of in LISTS or of in MAPS:
        return (list, tuple) if of in LISTS else (dict,)
    return (dict, of) if _is_record(of) else {float: (float, int), Any: (object,)}.get(of, (of,))


def record(**keys: Any) -> Any:
    """Return the annotation of a map with some of these keys, each of its type; nil is absent, another an UnknownKey."""
    furthers = {key: further_of(said) for key, said in keys.items()}
    members: Any = [(key, Optional[said], None) for key, said in keys.items()]  # noqa: UP045 - of what is no type yet
    shape = msgspec.defstruct("Record", members, forbid_unknown_fields=True)

    def as_map(field: str, given: Any) -> dict[str, Any]:
        found = {key: value for key in keys if (value := getattr(given, key)) is not None}
        for key, value in found.items():
            if (further := furthers[key]) is not None:
                found[key] = further(f"{field}.{key}", value)
        return found

    return Annotated[shape, Further(as_map), Meta(title=f"map with {', '.join(f'`{key}`' for key in keys)}")]


# -- the words of what is wrong ---------------------------------------------------------------------------------------------


def refusal(field: str, said: Any, value: Any) -> InvalidValue | TooLarge | UnknownKey | None:
    """Return what is wrong with a value that is not of a type, of its parts the first; None where nothing is."""
    of, parts, _ = taken_apart(said)
    if of in UNIONS:
        part = next((part for part in parts if _may_be(part, value)), None)
        return InvalidValue(field, value, bound_of(said)) if part is None else refusal(field, part, value)
    if of in LISTS or of in MAPS or _is_record(of):
        return _refusal_within(field, said, value)
    try:
        msgspec.convert(value, said)
    except msgspec.ValidationError:
        return InvalidValue(field, value, bound_of(said))
    return None


def _refusal_within(field: str, said: Any, value: Any) -> InvalidValue | TooLarge | UnknownKey | None:
    of, parts, notes = taken_apart(said)
    if not _may_be(said, value):
        return InvalidValue(field, value, bound_of(said))
    if of in LISTS:
        items: list[Any] = value
        most = next((note.max_length for note in notes if isinstance(note, Meta) and note.max_length), len(items))
        if len(items) > most:
            return TooLarge(f"length of {field}", len(items), most)
        least = next((note.min_length for note in notes if isinstance(note, Meta) and note.min_length), 0)
        if len(items) < least or (of is tuple and len(items) != len(parts)):
            return InvalidValue(field, value, bound_of(said))
        inside = [(f"{field}[{at}]", parts[at if of is tuple else 0], item) for at, item in enumerate(items)]
    else:
        entries: dict[Any, Any] = value
        known = _members(of) if _is_record(of) else None
        for key in entries:
            if known is not None and key not in known:
                return unknown_key(field, key, known, field)
            if not isinstance(key, str):
                return InvalidValue(f"a key of {field}", key, "text")
        inside = [
            (f"{field}.{key}", known[key], item) if known is not None else (f"{field}[{key[:40]!r}]", parts[1], item)
            for key, item in entries.items()
        ]
    return next((found for each in inside if (found := refusal(*each)) is not None), None)


def unknown_key(what: str, key: Any, known: Collection[str], field: str) -> UnknownKey:
    """Return the error of a key that `what` does not have, with the nearest that it has."""
    return UnknownKey(
        f"{what} has no key {str(key)[:40]!r}", field=field, value=key, bound=", ".join(known),
        hint=closest(str(key), tuple(known)),
    )  # fmt: skip


def bound_of(said: Any) -> str:
    """Return what an error says that a value must be."""
    of, parts, notes = taken_apart(said)
    bounds = next((note for note in notes if isinstance(note, Meta)), Meta())
    if bounds.description:
        return bounds.description
    if of in UNIONS:
        return _of_several([part for part in parts if part is not NoneType])
    if of is Literal:
        return " or ".join(map(str, parts))
    if of in NUMBER_TYPES:
        words, short = ("an integer", "d") if of is int else ("a number", "g")
        return words if bounds.ge is None else f"{words} from {bounds.ge:{short}} to {bounds.le:{short}}"
    if _is_record(of):
        return f"a map with the keys {', '.join(_members(of))}"
    if of is bytes and bounds.min_length:
        return f"bin of {bounds.min_length} bytes"
    return SIMPLE.get(of) or ("a list" if of in LISTS else "a map")


def _of_several(parts: list[Any]) -> str:
    return "a number" if {int, float} <= set(parts) else " or ".join(map(bound_of, parts))


def _may_be(said: Any, value: Any) -> bool:
    kinds = kinds_of(said)
    return type(value) in kinds or object in kinds


def _is_record(of: Any) -> bool:
    return isinstance(of, type) and issubclass(of, msgspec.Struct)


def _members(of: Any) -> dict[str, Any]:
    return {each.name: each.type for each in msgspec.structs.fields(of)}
