"""Options that several commands share, and the forms of their values."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from advisor.errors import AdvisorError, CallerError

RANGE_MAX = 65_536  # numbers of one range
EXIT_CALLER = 2  # the command is at fault: the same command fails again
EXIT_FAILED = 1  # the service, its state or the connection is; the same command may succeed later


class Command(click.Command):
    """A command whose failure is one line: on standard error, as JSON where --json was given."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error of the advisor ends it with the status that stands for it."""
        try:
            return super().invoke(ctx)
        except AdvisorError as error:
            plain = json.dumps({"error": error.as_dict()})
            told = (
                plain
                if ctx.params.get("as_json")
                else " ".join(f"{ctx.command_path}: {self._said(ctx, error)}".split())
            )
            click.echo(told, err=True)
            ctx.exit(EXIT_CALLER if isinstance(error, CallerError) else EXIT_FAILED)

    def _said(self, ctx: click.Context, error: AdvisorError) -> str:
        """Return the words of an error, the field that it names called as the option that gives it, or ought to."""
        field, said = str(error.field), str(error)
        for each in self.params:
            if isinstance(each, click.Option) and field.partition("[")[0] in (each.name, getattr(each, "key", None)):
                missing, given = f"{field} is None, must be given", ctx.get_parameter_source(str(each.name))
                if said.startswith(missing):
                    return f"{each.opts[0]} must be given{said.removeprefix(missing)}"
                if said.startswith(f"{field} is ") and given is ParameterSource.COMMANDLINE:  # else a file gave it
                    return each.opts[0] + said.removeprefix(field)
        return said


class KeyOption(click.Option):
    """An option that gives a key of a verb, whatever it is called itself."""

    def __init__(self, *names: Any, key: str, **form: Any) -> None:
        super().__init__(*names, **form)
        self.key = key


Function = TypeVar("Function", bound=Callable[..., Any])

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


def numbers_of(text: str, kind: Callable[[Any], Any] = float) -> list[Any]:
    """Return the numbers of ``1,2,4``, of ranges like ``1..64``, and of ranges in steps like ``2..64:2``.

    Raises ValueError.
    """
    found: list[Any] = []
    for part in text.split(","):
        if ".." in part:
            counts = range_of(part)
            if not 0 < len(counts) <= RANGE_MAX:
                raise ValueError(part)
            found += [kind(count) for count in counts]
        else:
            found.append(kind(part))
    return found


def range_of(text: str) -> range:
    """Return the whole numbers of ``4``, ``1..64`` or ``2..64:2``; raises ValueError."""
    span, _, step = text.partition(":")
    low, dots, high = span.partition("..")
    return range(int(low), int(high if dots else low) + 1, int(step or 1))


def columns(function: Function) -> Function:
    """Add the option that says what the columns of a table are called."""
    return click.option(
        "--columns",
        type=Renamed(),
        metavar="component=JOB,x=SIZE_MB,p=THREADS,t=SECONDS",
        help="What the table's columns are called, where not component,x,p,t or component,predictor,cores,elapsed_s.",
    )(function)


class Renamed(click.ParamType[dict[str, str]]):
    """NAME=HEADING with commas between them."""

    name = "name=heading[,…]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str]:
        """Return the headings by the names used here."""
        if isinstance(value, dict):
            return value  # pyright: ignore[reportUnknownVariableType] - converted already
        pairs = [part.partition("=") for part in str(value).split(",")]
        if not all(name.strip() and sign and heading.strip() for name, sign, heading in pairs):
            self.fail(f"{value!r} is not like component=job,x=size_mb,p=threads,t=seconds", param, ctx)
        return {name.strip(): heading.strip() for name, _, heading in pairs}


class Numbers(click.ParamType[list[float]]):
    """Numbers with commas between them."""

    name = "X[,X…]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[float]:
        """Return the numbers."""
        if isinstance(value, list):
            return value  # pyright: ignore[reportUnknownVariableType] - a default, already converted
        try:
            return numbers_of(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a number, numbers with commas between them, or a range like 1..64", param, ctx)


class AllowedCounts(click.ParamType[Any]):
    """A set of core counts."""

    name = "1,2,4 | 8..64:8 | multiple_of=8,max=64 | power_of=2"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a list of counts, or a map of min, max, multiple_of and power_of."""
        if not isinstance(value, str):
            return value
        try:
            if "=" in value:
                return {key.strip(): int(count) for key, _, count in (part.partition("=") for part in value.split(","))}
            return numbers_of(value, int)
        except ValueError:
            self.fail(f"{value!r} is not like 1,2,4 or 8..64:8 or multiple_of=8,max=64 or power_of=2", param, ctx)


class Explore(click.ParamType[Any]):
    """true, false or freeze."""

    name = "true|false|freeze"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return what may be tried."""
        words: dict[Any, Any] = {"true": True, "false": False, "freeze": "freeze"}
        if isinstance(value, str) and value not in words:
            self.fail(f"{value!r} is not true, false or freeze: there is no budget in seconds", param, ctx)
        return words.get(value, value)


class Points(click.ParamType[list[Any]]):
    """Predictors with commas between them; one of several values has an x between these."""

    name = "X[xY…][,…]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[Any]:
        """Return numbers, or lists of numbers."""
        if isinstance(value, list):
            return value  # pyright: ignore[reportUnknownVariableType] - a default, already converted
        try:
            points = [
                [float(part)] if isinstance(part, float) else [float(one) for one in part.split("x")]
                for point in str(value).split(",")
                for part in (numbers_of(point) if ".." in point else [point])
            ]
        except ValueError:
            self.fail(
                f"{value!r} is not a predictor, or several with commas between them, like 512 or 64x32", param, ctx
            )
        if len({len(point) for point in points}) > 1:
            self.fail(f"{value!r} has predictors of different numbers of values", param, ctx)
        return points if len(points[0]) > 1 else [point[0] for point in points]


class KeyNumbers(click.ParamType[tuple[str, list[Any]]]):
    """NAME=NUMBER, or NAME=NUMBER,NUMBER…"""

    name = "name=n"

    def __init__(self, kind: type[int] | type[float] = float, *, keyless: bool = False) -> None:
        self.kind = kind
        self.keyless = keyless  # a number alone is taken too, with the empty name
        if keyless:
            self.name = "n or name=n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, list[Any]]:
        """Return the name and the numbers."""
        key, sign, numbers = str(value).rpartition("=")
        try:
            found = numbers_of(numbers, self.kind)
        except ValueError:
            found = []
        if self.keyless and found and not sign:
            return "", found
        if not (key and sign and found):
            wanted = "a whole number" if self.kind is int else "a number"
            self.fail(f"{value!r} is not NAME=N with {wanted} after the last =", param, ctx)
        return key, found


class KeyText(click.ParamType[tuple[str, str]]):
    """NAME=TEXT."""

    name = "name=text"

    def __init__(self, *, keyless: bool = False) -> None:
        self.keyless = keyless  # a text alone is taken too, with the empty name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Return the name and the text."""
        key, sign, text = str(value).partition("=")
        if self.keyless and key and not sign:
            return "", key
        if not (key and sign and text):
            self.fail(f"{value!r} is not NAME=TEXT", param, ctx)
        return key, text


def service(function: Function) -> Function:
    """Add the options that say where the service is."""
    for option in (
        click.option(
            "--tls-certificate",
            metavar="FILE",
            help="PEM file with a certificate and key to show [ADVISOR_TLS_CERTIFICATE].",
        ),
        click.option(
            "--tls-ca", metavar="FILE", help="Encrypt TCP; trust this PEM file, or 'system' [ADVISOR_TLS_CA]."
        ),
        click.option(
            "--token-file", type=click.Path(path_type=Path), help="File with the service's token [ADVISOR_TOKEN_FILE]."
        ),
        click.option("--tcp", metavar="HOST:PORT", help="Ask the service at this TCP address [ADVISOR_TCP]."),
        click.option(
            "--socket", type=click.Path(path_type=Path), help="Ask the service on this Unix socket [ADVISOR_SOCKET]."
        ),
    ):
        function = option(function)
    return function


def taught(function: Function) -> Function:
    """Add the options that say whom to teach: a state file, or a service."""
    state = click.option(
        "--state", type=click.Path(path_type=Path), help="Teach this state file; made where there is none."
    )
    return service(state(function))


def learned(function: Function) -> Function:
    """Add the options that say whom to ask: a service, a state file at rest, or a table learned on the spot."""
    for option in (
        columns,
        click.option(
            "--table",
            help="Learn this table first, CSV or Parquet (columns: see --columns), then ask; - is standard input.",
        ),
        click.option("--state", type=click.Path(path_type=Path), help="Read this state or exported file, unchanged."),
    ):
        function = option(function)
    return service(function)
