"""Whole programs (paper 3): `observe-run` teaches their runs, `predict-run` predicts larger ones."""

from __future__ import annotations

from typing import Any

import click

from advisor.cli import options, show
from advisor.cli.declared import asked_by, declared
from advisor.cli.options import Output, command
from advisor.cli.source import asked, connected
from advisor.cli.tables import several
from advisor.protocol import verbs as v

BY_HAND = {key: {"name": key.replace("_", "-")} for key in v.ObserveRun.verb.keys}  # with their units


PROGRAM = click.argument("program")


@command(
    PROGRAM,
    declared(v.ObserveRun, leave=("program", "profile", *v.NUMBERING),
             **BY_HAND | {"size": {"type": float, "help": "Size of the run's input."},
                          "workers": {"type": float, "help": "Workers that ran it."}}),
    click.option("--profile", "producer", help="Take what is not given from the profile of this producer's newest run."),
    options.service,
)  # fmt: skip
def observe_run_command(program: str, producer: str | None, **given: Any) -> Output:
    """Teach a service a run of PROGRAM: by hand, or from a profile that it has."""
    profile = {"producer": producer} if producer else None
    with connected(given) as client:
        answer = dict(client.observe_run(**asked_by(v.ObserveRun, given, program=program, profile=profile)))
    known = f", {several(int(answer['runs']), 'run')} learned of it now" if "runs" in answer else ""
    return Output({"program": program} | answer, [f"{program}: 1 run sent{known}"])


@command(
    PROGRAM,
    declared(v.PredictRun, leave=("program",)),
    options.learned,
)
def predict_run_command(program: str, size: list[float], workers: list[float], level: float, **source: Any) -> Output:
    """Predict a run of PROGRAM for every size on every number of workers, also beyond what was seen."""
    sizes, counts = [n for n in size for _ in workers], workers * len(size)
    with asked(source) as advisor:
        found = advisor.predict_run(program, size=sizes, workers=counts, level=level)
    plain = {"program": program, "size": sizes, "workers": counts, "level": level} | found.as_dict()
    return Output(plain, show.run_prediction(plain))
