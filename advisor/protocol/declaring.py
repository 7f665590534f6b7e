"""How a verb is declared: a class whose annotations say what each key takes, and what it means in a text of `Annotated`.

From the declaration follow the check of what comes over the wire, what the clients send and how they are called, and the
tables of `docs/protocol.md`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar, cast, dataclass_transform

import msgspec

from advisor.domain.fields import Check, further_of, refusal, taken_apart, unknown_key
from advisor.domain.shapes import plain
from advisor.errors import InvalidValue, UnknownKey, UnknownMethod, closest, nearest

OWN = ("timeout_s", "on_change")  # of a client: they are no keys
OF_SERVICE = ("fresh",)  # how it answers: no question to the engine
# Who may call a verb. "write" is as the producer that it names, or as anybody where it names none; "teach" is to write as
# somebody.
Scope = Literal["open", "read", "write", "teach", "admin"]

Declared = TypeVar("Declared", bound="Params")


@dataclass(frozen=True)
class Params:
    """The parameters of a verb, in their typed form. Its fields are the wire's, but for those of `OWN`."""

    verb: ClassVar[Verb]

    def given(self, **instead: Any) -> dict[str, Any]:
        """Return the keys that came, with their values or others `instead`, but for what is the service's own."""
        keys = self.verb.keys
        return {key: value for key, value in {**vars(self), **instead}.items() if key in keys and key not in OF_SERVICE}

    def wire(self) -> Self:
        """Return what a caller asked in the form whose keys are sent."""
        return self


@dataclass(frozen=True)
class Question(Params):
    """A verb that a client asks, and waits for at most `timeout_s`, else the client's own."""

    timeout_s: float | None = field(default=None, kw_only=True)

    def components_asked(self) -> Sequence[str] | None:
        """Return the components that it is about, as a service on Ray must have them; None, where it names none: all."""
        given = getattr(self, "component", None) or getattr(self, "components", None)
        return [given] if isinstance(given, str) else given


class Verb(NamedTuple):
    """One line of the table of verbs."""

    name: str
    scope: Scope  # who may call it
    # the class of its parameters; a field without default is required, in the order of a positional call
    into: type[Any]
    keys: Mapping[str, Any]  # what each takes, as its annotation says
    further: Mapping[str, Check]  # what looks at values of the right type
    required: tuple[str, ...]  # the keys that must be given; another may be nil, which is the same as absent
    positional: int  # parameters may be an array of values, the first so many keys in order; 0: they are one map
    named: bool  # parameters may be one map
    notification: bool  # it may come without msgid
    rule: Callable[[Any], None] | None  # what must hold between parameters


METHODS: dict[str, Verb] = {}


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def verb(
    name: str, scope: Scope, *, positional: int = 0, named: bool = True, notification: bool = False,
    rule: Callable[[Any], None] | None = None,
) -> Callable[[type[Declared]], type[Declared]]:  # fmt: skip
    """Make a frozen dataclass of a declaration, and a line of the table of verbs of it."""

    def declare(into: type[Declared]) -> type[Declared]:
        made = dataclass(frozen=True)(into)  # without slots, a default that did not come is that of the class
        said: dict[str, Any] = {}
        for each in reversed(made.__mro__):
            said |= inspect.get_annotations(each)
        own = sorted((each for each in fields(made) if each.name not in OWN), key=lambda each: each.kw_only is True)
        keys = {each.name: said[each.name] for each in own}
        further = {key: take for key, of in keys.items() if (take := further_of(of)) is not None}
        required = tuple(each.name for each in own if each.default is MISSING)
        made.verb = METHODS[name] = Verb(
            name, scope, made, keys, further, required, positional, named, notification, rule
        )  # fmt: skip
        return made

    return declare


def check_params(method: str, params: Sequence[Any], *, notification: bool = False) -> Any:
    """Return the parameters of a call in their typed form. Cost O(size of `params`), rows left out.

    Raises UnknownMethod; UnknownKey, InvalidValue, TooLarge naming the key, its value and its bound. A notification of any
    method but `observe` is an InvalidValue.
    """
    spec = METHODS.get(method)
    if spec is None:
        raise UnknownMethod(
            f"no method {method[:40]!r}", field="method", value=method, bound=", ".join(METHODS),
            hint=nearest(method, METHODS) or "docs/protocol.md describes each",
        )  # fmt: skip
    if notification and not spec.notification:
        raise InvalidValue("msgid", None, f"given: {method} is a request", "only observe may be a notification")
    return checked(spec, _by_key(spec, params))


def checked(spec: Verb, given: Mapping[Any, Any]) -> Any:
    """Return parameters by key in their typed form; raises as `check_params`."""
    if not given.keys() <= spec.keys.keys():
        raise unknown_key(spec.name, next(key for key in given if key not in spec.keys), spec.keys, "params")
    for key in spec.required:
        if key not in given:
            raise InvalidValue(key, None, "given", f"{spec.name} needs {', '.join(spec.required)}")
    there = given
    if None in given.values():
        there = {key: value for key, value in given.items() if value is not None or key in spec.required}
    try:
        found = msgspec.convert(there, spec.into)
    except msgspec.ValidationError as error:
        wrong = (refusal(key, spec.keys[key], value) for key, value in there.items())
        raise next(filter(None, wrong), InvalidValue("params", str(error), "as declared")) from error
    for key, check in spec.further.items():
        if key in there:
            object.__setattr__(found, key, check(key, getattr(found, key)))
    if spec.rule is not None:
        spec.rule(found)
    return found


def _by_key(spec: Verb, params: Sequence[Any]) -> Mapping[Any, Any]:
    """Return the parameters of a call by their keys."""
    only: Any = params[0] if params else {}
    if spec.named and len(params) <= 1 and isinstance(only, dict):
        return cast("dict[Any, Any]", only)
    if spec.positional:
        if len(params) > spec.positional:
            names = ", ".join(list(spec.keys)[: spec.positional])
            raise InvalidValue("params", f"{len(params)} values", f"at most {spec.positional}: {names}")
        return dict(zip(spec.keys, params, strict=False))
    raise InvalidValue("params", f"{len(params)} values", f"one map, [{{…}}], for {spec.name}")


def called(into: Callable[..., Declared], args: Sequence[Any], given: Mapping[str, Any]) -> Declared:
    """Return what a caller of a client has asked, by place and by name.

    Raises UnknownKey for a name that the verb does not have, with the nearest that it has; InvalidValue when a value is
    missing, or given twice.
    """
    try:
        return into(*args, **given)
    except TypeError as error:
        names, spec = _names(cast("type[Params]", into)), cast("type[Params]", into).verb
        for name in given:
            if name not in names:
                raise UnknownKey(
                    f"{spec.name} has no parameter {name[:40]!r}", field=name, value=given[name], bound=", ".join(names),
                    hint=closest(name, names),
                ) from error  # fmt: skip
        there = {*names[: len(args)], *given}
        missing = next((key for key in spec.required if key not in there), spec.name)
        raise InvalidValue(missing, None, "given, once", f"{spec.name}({', '.join(names)})") from error


def sent(asked: Params) -> dict[str, Any]:
    """Return what a caller has asked as the wire has it: the keys that are not as their default, checked.

    Raises InvalidValue, TooLarge, UnknownKey as the service would.
    """
    spec, defaults, asked = asked.verb, _defaults(type(asked)), asked.wire()
    found: dict[str, Any] = {}
    for key in spec.keys:
        value, default = plain(getattr(asked, key)), defaults.get(key)
        same = value is None or (value == default and isinstance(value, bool) == isinstance(default, bool))
        if key in spec.required or not same:
            found[key] = value
    checked(spec, found)
    return found


@cache
def _names(into: type[Params]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(into))


@cache
def _defaults(into: type[Params]) -> dict[str, Any]:
    return {each.name: each.default for each in fields(into) if each.default is not MISSING}


@cache
def meanings(name: str) -> dict[str, str]:
    """Return what each key of a verb means: what the docstring of its declaration says (`key: meaning`), else its type."""
    spec = METHODS[name]
    doc = "\n".join(inspect.getdoc(each) or "" for each in reversed(spec.into.__mro__[:-1]) if issubclass(each, Params))
    said = {key: " ".join(words.split()) for key, words in re.findall(r"^(\w+): (.+(?:\n    .+)*)", doc, re.MULTILINE)}
    return {key: said.get(key) or _meaning(of) for key, of in spec.keys.items()}


def _meaning(said: Any) -> str:
    """Return the text in the annotation of a key, perhaps of one side of a union."""
    _, parts, notes = taken_apart(said)
    return next((said for said in (*notes, *map(_meaning, parts)) if isinstance(said, str) and said), "")
