"""Questions: `predict`, `choose-cores`, `choose-together`, `allocate-together`, `suggest`, `status`."""

from __future__ import annotations

import json
from typing import Any, cast

import click

from advisor.cli import options, show, show_plans, show_status
from advisor.cli.declared import asked_by, declared
from advisor.cli.options import Output, command
from advisor.cli.source import asked
from advisor.errors import InvalidValue
from advisor.protocol import verbs as v

COMPONENT = click.argument("component")
ALLOWED = {"type": options.ALLOWED}
POINT = {
    "type": options.POINTS,
    "help": "The input's predictor; 64x32 is one of two values. Absent: a run of the observed load.",
}


@command(
    COMPONENT,
    declared(v.Predict, leave=("component", "dimensions"), predictor=POINT,
             cores={"type": options.NUMBERS, "default": "1", "help": "Core counts."},
             prior={"help": "Answer for a component that was never observed, from the others."}),
    options.learned,
)  # fmt: skip
def predict_command(component: str, predictor: list[Any] | None, cores: list[float], **given: Any) -> Output:
    """Predict the elapsed time of COMPONENT for every predictor on every core count, or another measure of its runs."""
    x = None if predictor is None else [value for value in predictor for _ in cores]
    p = cores if predictor is None else cores * len(predictor)
    measure = {} if given["measure"] == v.TIME else {"measure": given["measure"]}
    with asked(given) as advisor:
        found = advisor.predict(component, **asked_by(v.Predict, given, predictor=x, cores=p))
    if getattr(found.elapsed_s, "ndim", 1) > 1:
        raise InvalidValue(
            "predictor", f"{len(cast('Any', predictor)[0])} values", f"one: {component} has one predictor"
        )
    plain = {"component": component, "predictor": x, "cores": p, "level": given["level"]} | measure | found.as_dict()
    return Output(plain, show.prediction(plain))


@command(
    COMPONENT,
    declared(v.ChooseCores, leave=("component", "under_way"), predictor=POINT, allowed=ALLOWED,
             explore={"type": options.EXPLORE, "default": "false", "show_default": True}),
    options.learned,
)  # fmt: skip
def choose_cores_command(component: str, predictor: list[Any] | None, **given: Any) -> Output:
    """Choose the cores for one run of COMPONENT: near the counts seen, the fewest within --tolerance of the best.

    With --free-now and --wait, also whether to take the cores that are free, or to wait for all.
    """
    x = _one(predictor)
    with asked(given) as advisor:
        found = advisor.choose_cores(component, **asked_by(v.ChooseCores, given, predictor=x))
    plain = {"component": component, "predictor": x, "level": given["level"]} | found.as_dict()
    return Output(plain, show.choice(plain))


@command(click.argument("file", type=click.File("rb")), declared(v.ChooseTogether, leave=("jobs",)), options.learned)
def choose_together_command(file: Any, **given: Any) -> Output:
    """Choose the cores of the jobs in FILE, a JSON list of maps; - reads standard input.

    Each map has an id and a component, and may have predictor, allowed, cores_now, weight, due_s, resizable, restart_s, done,
    waited_s and machine.
    """
    jobs = _list_in(file, 'jobs, [{"id": 1, "component": "blur"}, ...]')
    with asked(given) as advisor:
        plan = advisor.choose_together(jobs, **asked_by(v.ChooseTogether, given))
    return Output(plan.as_dict(), show.pool(plan))


@command(
    click.argument("file", type=click.File("rb")), declared(v.AllocateTogether, leave=("networks",)), options.learned
)
def allocate_together_command(file: Any, **given: Any) -> Output:
    """Allocate the cores of one machine to the networks in FILE, a JSON list of maps; - reads standard input.

    Each map has a network, S-Net text or an id, and may have name, weight (2: twice the throughput of others), priority
    (higher ones first), and keys of `allocate` for one network: shares, minimum, pinned, target and others.
    """
    request = asked_by(v.AllocateTogether, given)
    networks = _list_in(file, 'networks, [{"network": "read .. blur", "weight": 2}, ...]')
    with asked(given) as advisor:
        found = advisor.allocate_together(networks, **request)
    cores, pareto = given["cores"], given["objective"] == "pareto"
    printed = show_plans.front(found, request) if pareto else show_plans.together(found, cores)
    return Output({"cores": cores} | found.as_dict(), printed)


def _list_in(file: Any, what: str) -> list[Any]:
    """Return the list that a JSON file holds; raises InvalidValue."""
    try:
        found = json.load(file)
    except ValueError as error:
        raise InvalidValue("file", file.name, f"JSON: {error}") from error
    if not isinstance(found, list):
        raise InvalidValue("file", file.name, f"a JSON list of {what}")
    return cast("list[Any]", found)


@command(
    COMPONENT,
    declared(v.Suggest, leave=("component", "candidates"), predictor=POINT, allowed=ALLOWED),
    options.learned,
)  # fmt: skip
def suggest_command(component: str, predictor: list[Any] | None, **given: Any) -> Output:
    """Suggest which runs of COMPONENT would narrow its predictions most, and what they cost."""
    if given["cores"] is not None and predictor is None:
        raise InvalidValue("predictor", None, "given where cores is", "leave both out to know the whole load better")
    with asked(given) as advisor:
        answers = advisor.suggest(component, **asked_by(v.Suggest, given, predictor=_one(predictor)))
    found = [each.as_dict() for each in answers]
    plain = {"component": component, "suggestions": found} | (
        {"basis": answers.basis.as_dict()} if answers.basis else {}
    )
    return Output(plain, show.suggestions(component, found))


@command(
    click.argument("components", nargs=-1),
    declared(v.StatusAsked, leave=("components",), limit={"default": 20, "help": "Components to show."}),
    options.learned,
)
def status_command(components: tuple[str, ...], offset: int, limit: int, **given: Any) -> Output:
    """Show totals, and of the components (all, or those named) what is known."""
    with asked(given) as advisor:
        found = advisor.status(components=list(components) or True, offset=offset, limit=limit)
    return Output(found, show_status.status(found))


def _one(points: list[Any] | None) -> Any:
    """Return the one predictor that was given, or None."""
    if points is not None and len(points) != 1:
        raise InvalidValue("predictor", f"{len(points)} predictors", "one", "one of several values is written 64x32")
    return None if points is None else points[0]
