"""What a command is: options that several share, the forms of their values, and how its answer or its failure is printed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from advisor.errors import AdvisorError, CallerError

if TYPE_CHECKING:
    from advisor.cli.tables import Printed

RANGE_MAX = 65_536  # numbers of one range
EXIT_CALLER = 2  # the command is at fault: the same command fails again
EXIT_FAILED = 1  # the service, its state or the connection is; the same command may succeed later
WANTS_JSON = "advisor.json"  # in a context's meta

# Where an option stands in --help, by its name; the others come first.
GROUPS = {
    "The network": ("visits", "shares", "depths", "fan_outs", "returns", "component", "load", "speed"),
    "Bounds": ("minimum", "maximum", "pin", "allowed", "instances_max", "nodes", "memory_bytes", "work_max"),
    "Service, state or table": ("socket", "tcp", "token_file", "tls_ca", "tls_certificate", "state", "table", "columns"),
    "What is printed": ("limit", "offset", "stacks", "chrome", "depth", "least", "form",
                        "out", "as_json", "help"),
}  # fmt: skip

Function = TypeVar("Function", bound=Callable[..., Any])


class Output(NamedTuple):
    """What a command prints: with --json `plain`, else what `printed` gives; and its exit status."""

    plain: Any
    printed: Iterable[Printed] = ()
    status: int = 0


class Command(click.Command):
    """A command that prints the `Output` of its function; a failure is one line on standard error, with --json as JSON."""

    def __init__(
        self, *names: Any, as_json: bool = True, groups: Mapping[str, Sequence[str]] = GROUPS, **more: Any
    ) -> None:  # fmt: skip
        super().__init__(*names, **more)
        self._groups = groups
        if as_json:
            flag = click.Option(["--json", "as_json"], is_flag=True, help="Print JSON instead of text.")
            self.params.append(flag)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; an error names the command."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error of the advisor ends it with the status that stands for it."""
        as_json = ctx.meta[WANTS_JSON] = ctx.params.pop("as_json", False)
        if ctx.params.get("evidence") and not as_json:
            raise click.UsageError("--evidence is printed with --json, for `advisor explain`", ctx)
        try:
            answer = super().invoke(ctx)
            if isinstance(answer, Output):
                from advisor.cli import tables

                tables.put_json(answer.plain) if as_json else tables.print_parts(answer.printed)
                ctx.exit(answer.status)
        except AdvisorError as error:
            line = f"{ctx.command_path}: {self._words_of(ctx, error)}"
            click.echo(json.dumps({"error": error.as_dict()}) if as_json else " ".join(line.split()), err=True)
            ctx.exit(EXIT_CALLER if isinstance(error, CallerError) else EXIT_FAILED)

    def _words_of(self, ctx: click.Context, error: AdvisorError) -> str:
        """Return the words of an error, the field that it names called as the option that gives it, or ought to."""
        field, words = str(error.field), str(error)
        name, missing = field.partition("[")[0].replace("-", "_"), f"{field} is None, must be "
        for each in self.params:
            if isinstance(each, click.Option) and name in (each.name, getattr(each, "key", None)):
                given = ctx.get_parameter_source(str(each.name))
                if words.startswith(missing):
                    wanted = words.removeprefix(missing)
                    return f"{each.opts[0]} must be {'' if wanted.startswith('given') else 'given, '}{wanted}"
                if words.startswith(f"{field} is ") and given is ParameterSource.COMMANDLINE:  # else a file gave it
                    return each.opts[0] + words.removeprefix(field)
        return words

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in groups."""
        group_of = {name: group for group, names in self._groups.items() for name in names}
        found: dict[str, list[tuple[str, str]]] = {"Options": []} | {group: [] for group in self._groups}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and not isinstance(param, click.Argument):
                found[group_of.get(str(param.name), "Options")].append(record)
        for group, records in found.items():
            if records:
                with formatter.section(group):
                    formatter.write_dl(records)


def command(*parts: Callable[[Any], Any], cls: type[Command] = Command, **more: Any) -> Callable[[Any], Command]:
    """Return a decorator that makes a command of a function NAME_command, with arguments and options in this order."""

    def make(function: Any) -> Command:
        for part in reversed(parts):
            function = part(function)
        name = function.__name__.removesuffix("_command").replace("_", "-")
        return click.command(name, cls=cls, **more)(function)

    return make


def wants_json() -> bool:
    """Return whether the command that runs was given --json."""
    return bool(click.get_current_context().meta[WANTS_JSON])


def put_line(plain: Any, printed: Iterable[Printed]) -> None:
    """Print one of several answers at once: with --json a line of JSON."""
    from advisor.cli import tables

    tables.put_json_line(plain) if wants_json() else tables.print_parts(printed)


class KeyOption(click.Option):
    """An option that gives a key of a verb, whatever it is called itself."""

    def __init__(self, *names: Any, key: str, **form: Any) -> None:
        super().__init__(*names, **form)
        self.key = key


# -- forms of values


class ValueForm(click.ParamType[Any]):
    """A text that `read` makes a value of; a ValueError of it means that the text is not as `wanted`, or says why itself."""

    def __init__(self, name: str, read: Callable[[str], Any], wanted: str) -> None:
        self.name, self._read, self._wanted = name, read, wanted

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return the form as it is typed: click would write it in capitals."""
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value; a default is one already."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except Unfit as error:
            self.fail(f"{value!r} {error}", param, ctx)
        except (ValueError, KeyError):
            self.fail(f"{value!r} is not {self._wanted}", param, ctx)


class Unfit(ValueError):
    """A text that does not fit for a reason of its own."""


def numbers_of(text: str, kind: Callable[[Any], Any] = float) -> list[Any]:
    """Return the numbers of ``1,2,4``, of ranges like ``1..64``, and of ranges in steps like ``2..64:2``.

    Raises ValueError.
    """
    found: list[Any] = []
    for part in text.split(","):
        low, dots, end = part.partition("..")
        high, _, step = end.partition(":")
        counts = range(int(low), int(high) + 1, int(step or 1)) if dots else (part,)
        if not counts:
            raise Unfit(f"has {part!r}, which is empty: a range begins with its smallest number")
        if len(counts) > RANGE_MAX:
            raise Unfit(f"has {part!r}, which has more than {RANGE_MAX} numbers")
        found += map(kind, counts)
    return found


def counts_of(text: str, most: int) -> list[int]:
    """Return numbers of cores, each once, ascending; raises ValueError."""
    found = sorted(set(numbers_of(text, int)))
    if found[0] < 1 or found[-1] > most:
        raise Unfit(f"has a number outside 1..{most}")
    return found


def _headings_of(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name.strip() and sign and heading.strip() for name, sign, heading in pairs):
        raise ValueError(text)
    return {name.strip(): heading.strip() for name, _, heading in pairs}


def _counts_of(text: str) -> Any:
    if "=" in text:
        return {key.strip(): int(count) for key, _, count in (part.partition("=") for part in text.split(","))}
    return numbers_of(text, int)


def _points_of(text: str) -> list[Any]:
    points = [
        [float(part)] if isinstance(part, float) else [float(one) for one in part.split("x")]
        for point in text.split(",")
        for part in (numbers_of(point) if ".." in point else [point])
    ]
    if len({len(point) for point in points}) > 1:
        raise Unfit("has predictors of different numbers of values")
    return points if len(points[0]) > 1 else [point[0] for point in points]


def _words_in(text: str) -> list[str]:
    found = list(dict.fromkeys(filter(None, (part.strip() for part in text.split(",")))))
    if not found:
        raise Unfit("has no name in it")
    return found


EXPLORED = {"true": True, "false": False, "freeze": "freeze"}
NUMBERS = ValueForm("X[,X…]", numbers_of, "a number, numbers with commas between them, or a range like 1..64")
ALLOWED = ValueForm(
    "1,2,4 | 8..64:8 | multiple_of=8,max=64 | power_of=2", _counts_of,
    "like 1,2,4 or 8..64:8 or multiple_of=8,max=64 or power_of=2",
)  # fmt: skip
EXPLORE = ValueForm("true|false|freeze", EXPLORED.__getitem__, "true, false or freeze: there is no budget in seconds")
POINTS = ValueForm(
    "X[xY…][,…]", _points_of, "a predictor, or several with commas between them, like 512 or 64x32"
)  # one of several values has an x between these
WORDS = ValueForm("NAME[,…]", _words_in, "names")
HEADINGS = ValueForm("name=heading[,…]", _headings_of, "like component=job,x=size_mb,p=threads,t=seconds")


def _key_numbers_of(text: str, kind: type[int] | type[float]) -> tuple[str, list[Any]]:
    key, sign, numbers = text.rpartition("=")
    if not (key and sign):
        raise ValueError(text)
    return key, numbers_of(numbers, kind)


def key_numbers(kind: type[int] | type[float] = float) -> ValueForm:
    """Return the form NAME=NUMBER, or NAME=NUMBER,NUMBER…"""
    wanted = f"NAME=N with {'a whole number' if kind is int else 'a number'} after the last ="
    return ValueForm("name=n", partial(_key_numbers_of, kind=kind), wanted)


def _text_by_key(text: str, *, keyless: bool = False) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if keyless and key and not sign:
        return "", key
    if not (key and sign and value):
        raise ValueError(text)
    return key, value


def _current_of(text: str) -> tuple[str, Any]:
    """Return BOX=N, or with an empty name the answer in a file."""
    return _key_numbers_of(text, int) if "=" in text else ("", _json_in(text))


def _json_in(text: str) -> Any:
    try:
        return json.loads(Path(text).read_bytes())
    except OSError as error:
        raise Unfit("is no file that can be read") from error


CURRENT = ValueForm("name=n|answer.json", _current_of, "BOX=N, or a file that `advisor allocate --json` wrote")
KEY_TEXT = ValueForm("name=text", _text_by_key, "NAME=TEXT")
TEXT_BY_BOX = ValueForm("name=text", partial(_text_by_key, keyless=True), "NAME=TEXT")


# -- options that several commands share

PATH = click.Path(path_type=Path)
COLUMNS_HELP = "What the table's columns are called, where not component,x,p,t or component,predictor,cores,elapsed_s."
columns = click.option(
    "--columns", type=HEADINGS, metavar="component=JOB,x=SIZE_MB,p=THREADS,t=SECONDS", help=COLUMNS_HELP
)
SERVICE = (
    click.option("--socket", type=PATH, help="Ask the service on this Unix socket [ADVISOR_SOCKET]."),
    click.option("--tcp", metavar="HOST:PORT", help="Ask the service at this TCP address [ADVISOR_TCP]."),
    click.option("--token-file", type=PATH, help="File with the service's token [ADVISOR_TOKEN_FILE]."),
    click.option(
        "--tls-ca", metavar="FILE", help="Encrypt TCP; trust this PEM file, or 'system' [ADVISOR_TLS_CA]."
    ),
    click.option(
        "--tls-certificate", metavar="FILE", help="PEM file with a certificate and key to show [ADVISOR_TLS_CERTIFICATE]."
    ),
)  # fmt: skip
TABLE_HELP = "Learn this CSV table first (columns: see --columns), then ask; - is standard input."
LEARNED = (
    *SERVICE,
    click.option("--state", type=PATH, help="Read this state or exported file, unchanged."),
    click.option("--table", help=TABLE_HELP),
    columns,
)


def _adding(*options: Callable[[Any], Any]) -> Callable[[Function], Function]:
    def add(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return add


STATE = LEARNED[len(SERVICE)]
service = _adding(*SERVICE)  # where the service is
learned = _adding(*LEARNED)  # whom to ask: a service, a state file at rest, or a table learned on the spot
asked_by_id = _adding(*SERVICE, STATE)  # who keeps a network by id: a service, or a state file at rest
# whom to teach: a state file, or a service
taught = _adding(*SERVICE, click.option("--state", type=PATH, help="Teach this state file; made where there is none."))
