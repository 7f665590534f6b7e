"""Commands and options from the declaration of a verb: name, type, default and help stand in `advisor.protocol.verbs`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import click

from advisor.cli import options, source
from advisor.domain.fields import LISTS, MAPS, UNIONS, taken_apart
from advisor.errors import InvalidValue
from advisor.protocol.declaring import Params, called, meanings

if TYPE_CHECKING:
    from advisor.cli.tables import Printed

Function = TypeVar("Function", bound=Callable[..., Any])
Pairs = Sequence[tuple[str, list[Any]]]
Forms = dict[str, Any]  # by key, what an option has otherwise
Given = dict[str, Any]  # values by option or by key

WANTED = ("fresh", "evidence")
UNITS = re.compile(r"(_per)?_s$|_bytes$")  # an option is called without the unit of its key
VALUE = re.compile(r"\w+:")  # what a text begins with that explains a value
NOT_HERE = re.compile(r" \(below\)")  # on the protocol page
# What a map by name takes.
BY_NAME = {int: options.key_numbers(int), float: options.key_numbers(), str: options.KEY_TEXT}


def asks(
    question: type[Params], *parts: Any, keys: Callable[[Given], Given] = lambda _: {}, echo: Sequence[str] = (),
    answer: Callable[[Any, Given, Given], Any] | None = None, served: bool = False, leave: Collection[str] = (),
    forms: Forms | None = None, **form: Mapping[str, Any],
) -> Callable[[Callable[[Given], Iterable[Printed]]], options.Command]:  # fmt: skip
    """Return a decorator that makes the command of a verb. The function under it yields what is printed of an answer in JSON.

    What is read is asked of a service, a state or a table, what changes something of a service only.

    Parameters
    ----------
    parts : decorators
        Arguments, and options that are no keys.
    keys : callable, optional
        Makes of what is given the keys that are not an option's value as it is.
    echo : sequence of str, optional
        Keys of the request that the JSON repeats before the answer.
    answer : callable, optional
        Asks `asker` with a request, given the options; else the method is called that is named like the verb. What yields
        several answers has each printed as it comes.
    served : bool, optional
        Whether nothing but a service answers.
    leave, forms, form
        As of `declared`.
    """
    verb, reads = question.verb, question.verb.scope == "read" and not served

    def make(printed: Callable[[Given], Iterable[Printed]]) -> options.Command:
        def ask(**given: Any) -> options.Output | None:
            request = asked_by(question, given, **keys(given))
            if verb.rule is not None:
                verb.rule(called(question, (), request))
            with (source.asked if reads else source.connected)(given) as asker:
                found = answer(asker, request, given) if answer else getattr(asker, verb.name)(**request)
                if isinstance(found, Iterator):
                    for each in cast("Iterator[Given]", found):
                        options.put_line(each, printed(each))
                    return None
            plain = {key: request.get(key) for key in echo} | _as_plain(found)
            return options.Output(plain, printed(plain))

        ask.__name__, ask.__doc__ = printed.__name__, printed.__doc__
        where = options.learned if reads else options.service
        return options.command(*parts, declared(question, leave=leave, **(forms or {}) | form), where)(ask)

    return make


def _as_plain(found: Any) -> Given:
    """Return an answer as JSON has it; one that was lost with its connection is empty."""
    return found.as_dict() if hasattr(found, "as_dict") else dict(found or {})


def declared(
    question: type[Params], *, only: Collection[str] | None = None, leave: Collection[str] = (),
    **forms: Mapping[str, Any],
) -> Callable[[Function], Function]:  # fmt: skip
    """Return a decorator that adds an option for each key of a verb, but for those to `leave`.

    `question`: type, the declaration. `only`: collection of str, optional, the keys, instead of all. `forms`: mapping by key,
    what a command has otherwise: parameters of `click.option`, and `name`, the option's.
    """
    given, meaning = {each.name: each for each in fields(question)}, meanings(question.verb.name)
    keys = [key for key in question.verb.keys if key not in leave and (only is None or key in only)]
    names = {key: forms.get(key, {}).get("name", UNITS.sub("", key).replace("_", "-")) for key in {*keys, *forms}}

    def add(function: Function) -> Function:
        for key in reversed(keys):
            default, form = given[key].default, dict(forms.get(key, {}))
            made: dict[str, Any] = {"help": _sentence(meaning[key], names), "required": default is MISSING}
            if default not in (MISSING, None) and not isinstance(default, bool):
                made |= {"default": default, "show_default": True}
            made |= form if "type" in form else _type(given[key].type) | form
            into = made.pop("into", key)
            made.pop("name", None)
            function = click.option(f"--{names[key]}", into, cls=options.KeyOption, key=key, **made)(function)
        return function

    return add


def _sentence(meaning: str, names: Mapping[str, str]) -> str:
    """Return what a key means as a help text, where keys are options."""
    meaning = NOT_HERE.sub("", meaning).replace("nil", "absent")
    text = re.sub(r"`(\w+)`", lambda word: f"--{names[word[1]]}" if word[1] in names else word[1], meaning)
    return f"{text}." if VALUE.match(text) else f"{text[:1].upper()}{text[1:]}."  # a value is written as it is


def _type(annotation: Any) -> dict[str, Any]:
    """Return the arguments of `click.option` for an annotation: of several types the first that a command line can give."""
    of, parts, _ = taken_apart(annotation)
    if of is Literal:
        return {"type": click.Choice(parts)}
    if of in MAPS:
        value = taken_apart(parts[1])[0]
        return {"type": BY_NAME[float if value in UNIONS else value], "multiple": True}
    if of in LISTS:
        return {"type": options.NUMBERS}
    if of in UNIONS:
        kinds = [taken_apart(part)[0] for part in parts]
        if not set(LISTS).isdisjoint(kinds) and (int in kinds or float in kinds):
            return {"type": options.NUMBERS}
        return {"type": float} if float in kinds else _type(parts[0])
    return {"is_flag": True} if of is bool else {"type": of}


def asked_by(question: type[Params], given: Mapping[str, Any], **instead: Any) -> dict[str, Any]:
    """Return the keys of a verb that a command was given, as clients and `Advisor` take them, or others `instead`."""
    found = {key: given[key] for key in question.verb.keys if key in given} | instead
    found = {key: by_name(key, value) if _is_pairs(value) else value for key, value in found.items()}
    # An advisor in process is fresh always, and takes no word for it: what is not wanted is not said.
    return {
        key: value for key, value in found.items()
        if key in question.verb.required or (value is not None and not (key in WANTED and value is False))
    }  # fmt: skip


def _is_pairs(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(each, tuple) for each in value)  # pyright: ignore[reportUnknownVariableType]


def by_name(option: str, pairs: Pairs) -> dict[str, Any] | None:
    """Return the one number of each name, or its text; raises InvalidValue."""
    for name, numbers in pairs:
        if isinstance(numbers, list) and len(numbers) != 1:
            raise InvalidValue(option, f"{name}={','.join(map(str, numbers))}", "BOX=N with one number")
    return {name: value[0] if isinstance(value, list) else value for name, value in pairs} or None
