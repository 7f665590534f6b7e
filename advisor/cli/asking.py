"""Questions about components: `predict`, `choose-cores`, `suggest`, `status`; and `forget`, `pin`."""

from __future__ import annotations

import sys
from typing import Any

import click

from advisor.cli import options, show, show_status
from advisor.cli.source import asked, connected
from advisor.domain.limits import MEASURES
from advisor.errors import InvalidValue


@click.command("predict", cls=options.Command)
@click.argument("component")
@click.option(
    "--predictor",
    type=options.Points(),
    help="Predictors of the inputs; 64x32 is one of two values. Without, a run of the observed load.",
)
@click.option("--cores", type=options.Numbers(), default="1", show_default=True, help="Core counts.")
@click.option("--model", help="Answer with this model, e.g. two_step; by default the one that the evidence supports.")
@click.option("--active-cores", type=float, help="Workers that run tasks meanwhile, for a model of task types.")
@click.option("--measure", type=click.Choice(list(MEASURES)), help="Predict this instead of the elapsed time.")
@options.prior
@options.machine
@options.level
@options.learned
@options.as_json
def predict_command(
    component: str,
    predictor: list[Any] | None,
    cores: list[float],
    level: float,
    measure: str | None,
    active_cores: float | None,
    **source: Any,
) -> None:
    """Predict the elapsed time of COMPONENT for every predictor on every core count, or another measure of its runs."""
    x = None if predictor is None else [value for value in predictor for _ in cores]
    p = cores if predictor is None else cores * len(predictor)
    chosen: dict[str, Any] = {key: source[key] for key in ("model", "machine", "prior")}
    if measure:
        chosen["measure"] = measure
    if active_cores is not None:
        chosen["active_cores"] = active_cores
    with asked(source) as advisor:
        prediction = advisor.predict(component, predictor=x, cores=p, level=level, **chosen)
    show.prediction(component, x, p, level, prediction, measure, as_json=source["as_json"])


@click.command("choose-cores", cls=options.Command)
@click.argument("component")
@click.option("--predictor", type=options.Points(), help="The input's predictor. Without, a run of the observed load.")
@click.option("--cores-max", type=int, required=True, help="Cores there are to choose from.")
@click.option("--tolerance", default=0.05, show_default=True, help="Take the fewest cores this close to the fastest.")
@click.option("--risk", default=0.0, show_default=True, help="0 to 1: compare so far towards the interval's upper end.")
@click.option("--explore", default=0.0, show_default=True, help="Seconds that its runs may lose for what they teach.")
@click.option("--free-now", type=int, help="Cores that are free now; with --wait, whether to take them.")
@click.option("--wait", "wait_s", type=float, help="Seconds until all --cores-max are free.")
@options.prior
@options.machine
@options.level
@options.learned
@options.as_json
def choose_cores_command(
    component: str, predictor: list[Any] | None, cores_max: int, tolerance: float, level: float, **source: Any
) -> None:
    """Choose the cores for one invocation of COMPONENT: the fewest within --tolerance of the fastest.

    With --free-now and --wait, also whether to take the cores that are free, or to wait for all.
    """
    point = None if predictor is None else _one(predictor)
    further = {
        key: source[key]
        for key in ("risk", "explore", "machine", "free_now", "wait_s", "prior")
        if source[key] is not None
    }
    with asked(source) as advisor:
        choice = advisor.choose_cores(
            component, predictor=point, cores_max=cores_max, tolerance=tolerance, level=level, **further
        )
    show.choice(component, point, level, choice, as_json=source["as_json"])


@click.command("suggest", cls=options.Command)
@click.argument("component")
@click.option(
    "--predictor", type=options.Points(), help="Narrow the answers for this input; else for all observed load."
)
@click.option("--cores", type=float, help="Narrow the answer on so many cores, for the --predictor given.")
@click.option("--cores-max", type=int, default=64, show_default=True, help="Cores there are to run on.")
@click.option("--limit", type=int, default=3, show_default=True, help="Suggestions to make.")
@options.learned
@options.as_json
def suggest_command(
    component: str, predictor: list[Any] | None, cores: float | None, cores_max: int, limit: int, **source: Any
) -> None:
    """Suggest which runs of COMPONENT would narrow its predictions most, and what they cost."""
    if cores is not None and predictor is None:
        raise InvalidValue("predictor", None, "given where cores is", "leave both out to know the whole load better")
    point = None if predictor is None else _one(predictor)
    with asked(source) as advisor:
        found = advisor.suggest(component, predictor=point, cores=cores, cores_max=cores_max, limit=limit)
    show.suggestions(component, found, as_json=source["as_json"])


@click.command("status", cls=options.Command)
@click.argument("components", nargs=-1)
@click.option("--offset", default=0, show_default=True, help="Components to skip.")
@click.option("--limit", default=20, show_default=True, help="Components to show.")
@options.learned
@options.as_json
def status_command(components: tuple[str, ...], offset: int, limit: int, **source: Any) -> None:
    """Show totals, and of the components (all, or those named) what is known."""
    with asked(source) as advisor:
        everything: Any = None if source["state"] or source["table"] else True
        status = advisor.status(components=list(components) or everything, offset=offset, limit=limit)
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
    component: str | None,
    keep: float,
    program: str | None,
    producer: str | None,
    *,
    yes: bool,
    dry_run: bool,
    **source: Any,
) -> None:
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


def _one(points: list[Any]) -> Any:
    if len(points) != 1:
        raise InvalidValue("predictor", f"{len(points)} predictors", "one", "one of several values is written 64x32")
    return points[0]
