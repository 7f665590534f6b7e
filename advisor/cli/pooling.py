"""`choose-together`: the cores of jobs that share one pool, from a file of jobs."""

from __future__ import annotations

import json
from typing import Any, cast

import click

from advisor.cli import options, show
from advisor.cli.declared import asked_by, declared
from advisor.cli.source import asked
from advisor.errors import InvalidValue
from advisor.protocol import verbs as v


@click.command("choose-together", cls=options.Command)
@click.argument("file", type=click.File("rb"))
@declared(v.ChooseTogether, leave=("jobs",))
@options.learned
@options.as_json
def choose_together_command(file: Any, **source: Any) -> None:
    """Choose the cores of the jobs in FILE, a JSON list of maps; - reads standard input.

    Each map has an id and a component, and may have predictor, allowed, cores_now, weight, due_s, resizable, restart_s, done,
    waited_s and machine.
    """
    try:
        jobs = json.load(file)
    except ValueError as error:
        raise InvalidValue("file", file.name, f"JSON: {error}") from error
    if not isinstance(jobs, list):
        raise InvalidValue("file", file.name, 'a JSON list of jobs, [{"id": 1, "component": "blur"}, ...]')
    with asked(source) as advisor:
        plan = advisor.choose_together(cast("list[Any]", jobs), **asked_by(v.ChooseTogether, source))
    if source["as_json"]:
        show.put_json(plan.as_dict())
        return
    rows = show.table("job", "why", "cores", "elapsed", text_columns=2)
    for job in plan.jobs:
        rows.add_row(str(job.id), job.why, str(job.cores), show.seconds(job.elapsed_s))
    show.put(rows)
    show.notes(f"{component}: {text}" for component, text in plan.assumed.items())
