"""Whole programs (paper 3): `observe-run` teaches their runs, `predict-run` predicts larger ones."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli import options, show
from advisor.cli.declared import asked_by, declared
from advisor.cli.options import Output, command
from advisor.cli.source import asked, connected
from advisor.cli.tables import several
from advisor.errors import InvalidValue
from advisor.protocol import verbs as v

if TYPE_CHECKING:
    from advisor import Advisor, SyncClient

BY_HAND = {key: {"name": key.replace("_", "-")} for key in v.ObserveRun.verb.keys}  # with their units


PROGRAM = click.argument("program")


@command(
    PROGRAM,
    declared(v.ObserveRun, leave=("program", "profile", *v.NUMBERING),
             **BY_HAND | {"size": {"required": False, "type": float, "help": "Size of the run's input."},
                          "workers": {"type": float, "help": "Workers that ran it."}}),
    click.option("--profile", "producer", help="Take what is not given from the profile of this producer's newest run."),
    click.option("--runs", type=options.PATH, help="Take the runs of this CSV table instead."),
    options.columns,
    options.service,
)  # fmt: skip
def observe_run_command(program: str, producer: str | None, runs: Path | None, **given: Any) -> Output:
    """Teach a service a run of PROGRAM: by hand, from a profile that it has, or from a table."""
    observed: list[dict[str, Any]] = []
    if runs is not None:
        from advisor.files.runs import read_runs

        observed = [{"transform": given["transform"]} | run for run in read_runs(runs, program, given["columns"])]
        if not observed:
            raise InvalidValue("runs", str(runs), f"a table with runs of {program}")
    else:
        if given["size"] is None:
            raise click.UsageError("give --size, or --runs TABLE.csv")
        profile = {"producer": producer} if producer else None
        observed = [asked_by(v.ObserveRun, given, program=program, profile=profile)]
    answer: Mapping[str, Any] = {}
    with connected(given) as client:
        for run in observed:
            answer = client.observe_run(**run)
    known = f", {several(int(answer['runs']), 'run')} learned of it now" if "runs" in answer else ""
    return Output(
        {"program": program, "sent": len(observed)} | dict(answer),
        [f"{program}: {several(len(observed), 'run')} sent{known}"],
    )


@command(
    PROGRAM,
    declared(v.PredictRun, leave=("program",)),
    declared(v.ObserveRun, only=("transform",)),
    click.option("--runs", type=options.PATH, help="Learn the runs of this CSV table first, then ask."),
    options.learned,
)
def predict_run_command(program: str, size: list[float], workers: list[float], level: float, **source: Any) -> Output:
    """Predict a run of PROGRAM for every size on every number of workers, also beyond what was seen."""
    sizes, counts = [n for n in size for _ in workers], workers * len(size)
    with _taught(program, source) as advisor:
        found = advisor.predict_run(program, size=sizes, workers=counts, level=level, model=source["model"])
    plain = {"program": program, "size": sizes, "workers": counts, "level": level} | found.as_dict()
    return Output(plain, show.run_prediction(plain))


@contextmanager
def _taught(program: str, source: Mapping[str, Any]) -> Generator[Advisor | SyncClient]:
    """Yield whom to ask: one that has learned --runs, or whom the other options name."""
    if source["runs"] is None:
        with asked(source) as advisor:
            yield advisor
        return
    if any(source[key] for key in ("socket", "tcp", "state", "table")):
        raise click.UsageError("--runs is learned on the spot: give no service, state or table beside")
    from advisor import Advisor
    from advisor.files.runs import read_runs

    made = Advisor()
    for run in read_runs(source["runs"], program, source["columns"]):
        made.observe_run(**({"transform": source["transform"]} | run))
    yield made
