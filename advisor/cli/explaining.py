"""The command `explain`: why an answer is as it is, and whether its evidence gives it again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from advisor import __version__
from advisor.cli import options, tables
from advisor.cli.options import Output, command
from advisor.cli.tables import Note, Printed
from advisor.domain.answers import Basis
from advisor.domain.json_bytes import as_json
from advisor.domain.shapes import converted
from advisor.errors import InvalidValue, MalformedMessage
from advisor.service.explaining import differences, replayed, sentences, sentences_of_basis

ANSWER = "what a command prints with --json: allocate, predict, choose-cores, choose-together or suggest"
SHOWN = 20  # fields that differ; with --json all


@command(
    click.argument("file", metavar="ANSWER.json", type=click.File("rb")),
    click.option(
        "--replay", is_flag=True, help="Compute the answer again from its evidence alone, and compare each field."
    ),
)
def explain_command(file: Any, replay: bool) -> Output:
    """Explain ANSWER.json, an answer that a command printed with --json, in sentences. "-" reads standard input.

    An answer that was asked with --evidence carries what it rests on. --replay computes it again from that alone, without
    state and service. The exit status is 1 if a field differs.
    """
    try:
        answer: dict[str, Any] = json.load(file)
        basis = converted(Basis, answer.pop("basis")) if "basis" in answer else None
        said = list(sentences(answer, None if basis is None else basis.request.get("measure")))
    except (ValueError, KeyError, TypeError, AttributeError, MalformedMessage) as error:
        raise InvalidValue("file", file.name, ANSWER) from error
    if basis is not None:
        said += sentences_of_basis(basis)
    if not replay:
        return Output({"sentences": said}, said)
    if basis is None:
        raise InvalidValue("file", file.name, "an answer with evidence", "ask it again with --evidence --json")
    again = json.loads(as_json(replayed(basis)))
    echoed = {key: basis.request.get(key) for key in answer if key not in again}
    found = list(differences(answer, again | json.loads(as_json(echoed))))
    plain = [{"field": field, "answer": given, "replay": value} for field, given, value in found]
    plain = {"sentences": said, "same": not found, "differences": plain}
    return Output(plain, [*said, *_compared(found, basis)], options.EXIT_FAILED if found else 0)


def _compared(found: list[tuple[str, Any, Any]], basis: Basis) -> Iterator[Printed]:
    """Say whether the replay gives the answer again."""
    if not found:
        yield "Replayed from its evidence alone: the same in every field."
        return
    yield f"Replayed from its evidence alone: it differs in {tables.several(len(found), 'field')}."
    for field, given, value in found[:SHOWN]:
        yield Note(f"{field}: the answer has {given}, the replay {value}")
    if basis.versions.get("advisor") != __version__:
        yield Note(f"answered by Advisor {basis.versions.get('advisor')}, replayed by {__version__}")
