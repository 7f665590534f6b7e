"""Questions about components: `predict`, `choose-cores`, `suggest`, `status`; and `forget`, `pin`."""

from __future__ import annotations

import sys
from typing import Any

import click

from advisor.cli import options, show, show_status
from advisor.cli.declared import asked_by, declared
from advisor.cli.source import asked, connected
from advisor.errors import InvalidValue
from advisor.protocol import verbs as v

POINT = {
    "type": options.Points(),
    "help": "The input's predictor; 64x32 is one of two values. Absent: a run of the observed load.",
}


@click.command("predict", cls=options.Command)
@click.argument("component")
@declared(
    v.Predict, leave=("component", "dimensions"), predictor=POINT,
    cores={"type": options.Numbers(), "default": "1", "help": "Core counts."},
)  # fmt: skip
@options.learned
@options.as_json
def predict_command(
    component: str, predictor: list[Any] | None, cores: list[float], level: float, measure: str, **source: Any
) -> None:
    """Predict the elapsed time of COMPONENT for every predictor on every core count, or another measure of its runs."""
    x = None if predictor is None else [value for value in predictor for _ in cores]
    p = cores if predictor is None else cores * len(predictor)
    chosen = asked_by(v.Predict, source, predictor=x, cores=p, level=level, measure=measure)
    with asked(source) as advisor:
        prediction = advisor.predict(component, **chosen)
    shown = None if measure == v.TIME else measure
    show.prediction(component, x, p, level, prediction, shown, as_json=source["as_json"])


@click.command("choose-cores", cls=options.Command)
@click.argument("component")
@declared(
    v.ChooseCores, leave=("component", "under_way"), predictor=POINT, allowed={"type": options.AllowedCounts()},
    explore={"type": options.Explore(), "default": "false", "show_default": True},
)  # fmt: skip
@options.learned
@options.as_json
def choose_cores_command(component: str, predictor: list[Any] | None, level: float, **source: Any) -> None:
    """Choose the cores for one run of COMPONENT: near the counts seen, the fewest within --tolerance of the best.

    With --free-now and --wait, also whether to take the cores that are free, or to wait for all.
    """
    point = None if predictor is None else _one(predictor)
    with asked(source) as advisor:
        choice = advisor.choose_cores(component, **asked_by(v.ChooseCores, source, predictor=point, level=level))
    show.choice(component, point, level, choice, as_json=source["as_json"])


@click.command("suggest", cls=options.Command)
@click.argument("component")
@declared(v.Suggest, leave=("component", "candidates"), predictor=POINT, allowed={"type": options.AllowedCounts()})
@options.learned
@options.as_json
def suggest_command(component: str, predictor: list[Any] | None, **source: Any) -> None:
    """Suggest which runs of COMPONENT would narrow its predictions most, and what they cost."""
    if source["cores"] is not None and predictor is None:
        raise InvalidValue("predictor", None, "given where cores is", "leave both out to know the whole load better")
    point = None if predictor is None else _one(predictor)
    with asked(source) as advisor:
        found = advisor.suggest(component, **asked_by(v.Suggest, source, predictor=point))
    show.suggestions(component, found, as_json=source["as_json"])


@click.command("status", cls=options.Command)
@click.argument("components", nargs=-1)
@declared(v.StatusAsked, leave=("components",), limit={"default": 20})
@options.learned
@options.as_json
def status_command(components: tuple[str, ...], offset: int, limit: int, **source: Any) -> None:
    """Show totals, and of the components (all, or those named) what is known."""
    with asked(source) as advisor:
        status = advisor.status(components=list(components) or True, offset=offset, limit=limit)
    show_status.status(status, as_json=source["as_json"])


@click.command("forget", cls=options.Command)
@click.argument("component", required=False)
@click.option("--keep", default=0.0, show_default=True, help="Share of what was learned that stays, below 1.")
@click.option("--program", help="Forget this whole program instead: its runs and what was learned of them.")
@click.option(
    "--profile", "producer", help="Forget the profiles of this producer's runs instead, task types with them."
)
@click.option("--yes", is_flag=True, help="Do not ask; needed where nobody can be asked.")
@click.option("--dry-run", is_flag=True, help="Say what would be forgotten, and forget nothing.")
@options.service
@options.as_json
def forget_command(
    component: str | None, keep: float, program: str | None, producer: str | None, *,
    yes: bool, dry_run: bool, **source: Any,
) -> None:  # fmt: skip
    """Weaken, or drop, what a service has learned of COMPONENT, or of a program; exact counts never go back.

    What is forgotten does not come back: on a terminal the command asks before, elsewhere it wants --yes.
    """
    if sum(each is not None for each in (component, program, producer)) != 1:
        raise click.UsageError("give a COMPONENT, --program or --profile, and only one of them")
    if keep and component is None:
        raise click.UsageError("--keep goes with a COMPONENT: programs and profiles are forgotten as a whole")
    with connected(source) as client:
        what = _known(client, component, program, producer)
        if dry_run:
            show.would_forget(what, keep, as_json=source["as_json"])
            return
        if not yes and not sys.stdin.isatty():
            raise click.UsageError(f"--yes is needed, for nobody can be asked: it would forget {what}")
        if not yes:
            click.confirm(f"forget {f'{1.0 - keep:.0%} of ' if keep else ''}{what}?", abort=True, err=True)
        if program is not None:
            show.dropped("program", client.forget_program(program), as_json=source["as_json"])
        elif producer is not None:
            show.dropped("profile", client.forget_profile(producer), as_json=source["as_json"])
        elif component is not None:
            show.forgotten(component, keep, client.forget(component, keep=keep), as_json=source["as_json"])


def _known(client: Any, component: str | None, program: str | None, producer: str | None) -> str:
    """Return in words what would be forgotten: that it is there, and how much it is."""
    if component is not None:
        (entry,) = client.status(components=[component], limit=1)["components"]
        return f"{component}, {show.several(entry['rows'], 'row')}"
    if program is not None:
        runs = {each["program"]: each["runs"] for each in client.status()["programs"]}
        if program not in runs:
            raise InvalidValue("program", program, f"of {', '.join(runs) or 'none: no program was observed'}")
        return f"the program {program}, {show.several(runs[program], 'run')}"
    kept = [run for run in client.profile()["runs"] if run["producer"] == producer]
    if not kept:
        raise InvalidValue("profile", producer, "a producer whose profiles are kept", "`advisor profile` lists them")
    return f"the profiles of {producer}, {show.several(len(kept), 'run')}"


@click.command("pin", cls=options.Command)
@click.argument("component")
@click.argument("model", required=False)
@click.option("--clear", is_flag=True, help="Let the evidence choose again.")
@options.service
@options.as_json
def pin_command(component: str, model: str | None, clear: bool, **source: Any) -> None:
    """Hold COMPONENT of a service to MODEL, whatever the evidence says; --clear ends that."""
    if clear == (model is not None):
        raise click.UsageError("give a MODEL, or --clear")
    with connected(source) as client:
        answer = client.pin(component, model)
    show.pinned(component, model, answer, as_json=source["as_json"])


@click.command("set-allowed", cls=options.Command)
@click.argument("component")
@click.argument("allowed", required=False, type=options.AllowedCounts())
@click.option("--clear", is_flag=True, help="Allow every count again.")
@options.service
@options.as_json
def set_allowed_command(component: str, allowed: Any, clear: bool, **source: Any) -> None:
    """Set the core counts that COMPONENT of a service allows: 1,2,4, or 8..64:8, or powers_of=2,max=64; --clear ends that."""
    if clear == (allowed is not None):
        raise click.UsageError("give counts, or --clear")
    with connected(source) as client:
        answer = client.set_allowed(component, allowed)
    show.allowed_set(component, answer, as_json=source["as_json"])


def _one(points: list[Any]) -> Any:
    if len(points) != 1:
        raise InvalidValue("predictor", f"{len(points)} predictors", "one", "one of several values is written 64x32")
    return points[0]
