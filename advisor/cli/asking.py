"""Questions to what was learned: `predict`, `choose-cores`, `suggest`, `allocate`, `status`; and `forget`, `pin`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from advisor.cli import options, show
from advisor.cli.source import asked, connected
from advisor.domain.limits import MEASURES, NETWORK_TEXT_BYTES_MAX
from advisor.errors import InvalidValue, TooLarge


@click.command("predict", cls=options.Command)
@click.argument("component")
@click.option(
    "--predictor",
    type=options.Points(),
    default="1",
    show_default=True,
    help="Predictors of the inputs; 64x32 is one of two values.",
)
@click.option("--cores", type=options.Numbers(), default="1", show_default=True, help="Core counts.")
@click.option("--model", help="Answer with this model, e.g. two_step; by default the one that the evidence supports.")
@click.option("--measure", type=click.Choice(list(MEASURES)), help="Predict this instead of the elapsed time.")
@options.machine
@options.level
@options.learned
@options.as_json
def predict_command(
    component: str, predictor: list[Any], cores: list[float], level: float, measure: str | None, **source: Any
) -> None:
    """Predict the elapsed time of COMPONENT for every predictor on every core count, or another measure of its runs."""
    x = [value for value in predictor for _ in cores]
    p = cores * len(predictor)
    chosen: dict[str, Any] = {key: source[key] for key in ("model", "machine")}
    if measure:
        chosen["measure"] = measure
    with asked(source) as advisor:
        prediction = advisor.predict(component, predictor=x, cores=p, level=level, **chosen)
    show.prediction(component, x, p, level, prediction, measure, as_json=source["as_json"])


@click.command("choose-cores", cls=options.Command)
@click.argument("component")
@click.option("--predictor", type=options.Points(), default="1", show_default=True, help="The input's predictor.")
@click.option("--cores-max", type=int, required=True, help="Cores there are to choose from.")
@click.option("--tolerance", default=0.0, show_default=True, help="Take the fewest cores this close to the fastest.")
@options.machine
@options.level
@options.learned
@options.as_json
def choose_cores_command(
    component: str, predictor: list[Any], cores_max: int, tolerance: float, level: float, **source: Any
) -> None:
    """Choose the cores for one invocation of COMPONENT: the fastest, or the fewest within --tolerance of it."""
    point = _one(predictor)
    with asked(source) as advisor:
        choice = advisor.choose_cores(
            component, predictor=point, cores_max=cores_max, tolerance=tolerance, level=level, machine=source["machine"]
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


@click.command("allocate", cls=options.Command)
@click.argument("network", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--cores", type=int, help="Cores to give out; for fewest_cores at most so many, or absent.")
@click.option(
    "--objective", type=click.Choice(["throughput", "latency", "fewest_cores"]), default="throughput", show_default=True
)
@click.option("--throughput", "throughput_per_s", type=float, help="Target of fewest_cores: records per second.")
@click.option("--latency", "latency_s", type=float, help="Target of fewest_cores: seconds a record spends inside.")
@click.option("--shares", type=options.Numbers(), multiple=True, help="Shares of a choice's branches, in text order.")
@click.option("--visits", type=options.KeyNumbers(), multiple=True, help="Runs of a box per record that enters.")
@click.option("--minimum", type=options.KeyNumbers(int), multiple=True, help="Fewest cores of a box.")
@click.option("--maximum", type=options.KeyNumbers(int), multiple=True, help="Most cores of a box.")
@click.option(
    "--load", type=options.KeyNumbers(), multiple=True, help="Predictor value of a box; else its observed load."
)
@click.option("--component", type=options.KeyText(), multiple=True, help="BOX=COMPONENT where the names differ.")
@click.option("--instances-max", type=int, default=1, show_default=True, help="Instances that a box may run as.")
@options.learned
@options.as_json
def allocate_command(
    network: Path,
    cores: int | None,
    objective: str,
    throughput_per_s: float | None,
    latency_s: float | None,
    shares: tuple[list[float], ...],
    component: tuple[tuple[str, str], ...],
    instances_max: int,
    **rest: Any,
) -> None:
    """Allocate cores to the components of NETWORK, a file of S-Net text; - is standard input.

    Options that name a box are written BOX=N and may be given several times.
    """
    targets = {"throughput_per_s": throughput_per_s, "latency_s": latency_s}
    given: dict[str, Any] = {
        "target": {key: value for key, value in targets.items() if value is not None} or None,
        "shares": list(shares) or None,
        "components": dict(component) or None,
        "visits": _by_box("visits", rest["visits"]),
        "minimum": _by_box("minimum", rest["minimum"]),
        "maximum": _by_box("maximum", rest["maximum"]),
        "load": _by_box("load", rest["load"]),
    }
    text = network_text(network)
    with asked(rest) as advisor:
        allocation = advisor.allocate(
            text, cores=cores, objective=objective, instances_max=instances_max,
            **{key: value for key, value in given.items() if value is not None},
        )  # fmt: skip
    show.allocation(objective, cores, allocation, as_json=rest["as_json"])


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
    show.status(status, as_json=source["as_json"])


@click.command("forget", cls=options.Command)
@click.argument("component")
@click.option("--keep", default=0.0, show_default=True, help="Share of what was learned that stays, below 1.")
@options.service
@options.as_json
def forget_command(component: str, keep: float, **source: Any) -> None:
    """Weaken, or drop, what a service has learned of COMPONENT; its exact counts never go back."""
    with connected(source) as client:
        answer = client.forget(component, keep=keep)
    show.forgotten(component, keep, answer, as_json=source["as_json"])


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


def _by_box(option: str, pairs: Sequence[tuple[str, list[Any]]]) -> dict[str, Any] | None:
    for box, numbers in pairs:
        if len(numbers) != 1:
            raise InvalidValue(option, f"{box}={','.join(map(str, numbers))}", "BOX=N with one number")
    return {box: numbers[0] for box, numbers in pairs} or None


def network_text(path: Path) -> str:
    try:
        with click.open_file(str(path), "rb") as file:
            data = file.read(NETWORK_TEXT_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidValue("network", str(path), "a file that can be read", error.strerror or "") from error
    if len(data) > NETWORK_TEXT_BYTES_MAX:
        raise TooLarge("network", len(data), NETWORK_TEXT_BYTES_MAX)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidValue("network", str(path), "UTF-8 text") from error
