"""`advisor learn`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli import options
from advisor.cli.known_networks import network_text
from advisor.cli.learning_sinks import COMMIT_ROWS, Sink, taught
from advisor.cli.options import Output, command
from advisor.cli.source import progress, tell_refused
from advisor.cli.tables import several
from advisor.errors import InvalidValue, Unauthorized, UnknownComponent
from advisor.protocol.verbs import DefineNetwork, SetAllowed

if TYPE_CHECKING:
    from advisor.files.run_files import Row, RunFile

TAUGHT_ROWS = COMMIT_ROWS // 4  # read at a time
FILES_TOGETHER = 400  # by one connection, which may speak for a thousand producers: two a file


# What `--from` names, and the reader of each format of files; logs of S-Net are a directory, and have a reader of their own.
SNET = "snet"
OF_SNET = {"rows": "of boxes learned", "learned_before": "learned before", "unmapped": "of tasks in no map"}
OF_FILES = {"runs": "learned", "failed": "failed, counted", "learned_before": "learned before", "bad": "bad"}
READERS = {
    "nextflow": "advisor.files.nextflow",
    "snakemake": "advisor.files.snakemake",
    "sacct": "advisor.files.slurm",
    "wfformat": "advisor.files.workflows",
}


@command(
    click.argument("sources", nargs=-1, required=True, type=options.PATH),
    click.option("--from", "kind", type=click.Choice([SNET, *READERS]), required=True, help="Who wrote the files."),
    click.option("--network", help="snet: the network that the rows name; absent: the directory's name."),
    click.option("--definition", type=options.PATH, help="snet: its text, to be kept under that name."),
    click.option("--input", "input_", type=options.PATH, help="snet: the records that the program read, in XML."),
    click.option("--predictor", "predictors", type=options.TEXT_BY_BOX, multiple=True, metavar="[BOX=]<TAG>",
                 help="snet: a tag <n>, or a field, of the --input: the predictor of a box, or of all; repeatable. "
                 "Absent: bytes."),
    click.option("--ended", is_flag=True,
                 help="snet: the run is over, though its logs do not say so: what waits is learned as it is."),
    options.taught,
)  # fmt: skip
def learn_command(sources: tuple[Path, ...], kind: str, **given: Any) -> Output:
    """Learn the runs in SOURCES. Each run counts once, however often its file is read, also while the file grows.

    \b
    snet       a directory of monitor logs and maps, written with the flag -m A of S-Net's stream runtime
    nextflow   traces (-with-trace)
    snakemake  benchmark files (--benchmark-extended)
    sacct      output of sacct -P --format=JobID,JobName,State,AllocCPUS,ElapsedRaw,MaxRSS,End
    wfformat   executions in WfCommons' WfFormat

    Failed runs are counted, not learned; bad rows are reported and left out. A file is known by its format and its first rows.
    """
    of_snet = {name: given.pop(name) for name in ("network", "definition", "input_", "predictors", "ended")}
    if kind != SNET:
        if any(of_snet.values()):
            raise click.UsageError("--network, --definition, --input, --predictor and --ended are of --from snet")
        return _learn_files(sources, kind, given)
    source, *more = sources
    if more:
        raise click.UsageError("give one directory of S-Net's logs")
    return _learn_snet(source, given, **of_snet)


def _learn_files(paths: Sequence[Path], kind: str, given: Mapping[str, Any]) -> Output:
    """Teach files, one after another; what is learned of one stays where another is bad."""
    from advisor.files.run_files import RunFile

    files = [RunFile(path, kind, import_module(READERS[kind]).runs) for path in paths]
    result: list[dict[str, Any]] = []
    with progress() as bar:
        task = bar.add_task("learning", total=sum(file.lines.total for file in files))
        done = 0  # bytes of the files before

        def moved(file: RunFile) -> None:
            bar.update(task, completed=done + file.lines.read)

        for start in range(0, len(files), FILES_TOGETHER):
            with taught(given) as sink:
                for file in files[start : start + FILES_TOGETHER]:
                    result.append(learn_file(file, sink, moved))
                    done += file.lines.total
    return Output({"files": result}, (_words_of(each, each["file"], **OF_FILES) for each in result))


def learn_file(file: RunFile, sink: Sink, moved: Callable[[RunFile], None]) -> dict[str, Any]:
    """Teach one file; return what is reported about it."""
    counts, refused, _ = _taught_once(file.read(), sink, lambda: moved(file))
    tell_refused(file)
    return {
        "file": file.name, "runs": counts["rows"] - counts["failed"], "failed": counts["failed"],
        "learned_before": counts["before"], "bad": file.refused, "refused": dict(refused), "passed": dict(file.passed),
    }  # fmt: skip


def _taught_once(
    rows: Iterator[Row], sink: Sink, moved: Callable[[], None]
) -> tuple[Counter[str], Counter[str], set[str]]:
    """Teach the rows that were not taught before; return counts, those refused by code, and the components of new ones."""
    counts, refused, components = Counter[str](), Counter[str](), set[str]()
    while batch := list(islice(rows, TAUGHT_ROWS)):
        known = sink.known_rows({row.producer for row in batch})
        new = [row for row in batch if row.sequence > known[row.producer]]
        components |= {row.component for row in new}
        refused.update(sink.teach(new))
        counts["before"] += len(batch) - len(new)
        counts["rows"] += len(new)
        counts["failed"] += sum(row.more.get("ok") is False for row in new)
        moved()
    refused.update(sink.rest())
    return counts, refused, components


def _learn_snet(
    source: Path, given: Mapping[str, Any], *,
    network: str | None, definition: Path | None, input_: Path | None, predictors: Sequence[tuple[str, str]], ended: bool,
) -> Output:  # fmt: skip
    """Teach the logs of a run of S-Net's stream runtime.

    Each run of a box becomes a row with its predictor, the record that entered, and the replica of its split: times,
    shares and depths are learned. The predictor is the size of its record, or a tag or field of the record that entered.
    """
    from advisor.files.snet_runs import run_in

    name = network or source.resolve().name
    run, total = run_in(source, name, _predictors(input_, predictors))
    with taught(given) as sink, progress() as bar:
        if definition is not None:
            sink.ask([DefineNetwork(id=name, text=network_text(definition))])
        task = bar.add_task("learning", total=total)
        rows = run.rows(ended=ended)
        counts, refused, boxes = _taught_once(rows, sink, lambda: bar.update(task, completed=run.bytes_read))
        not_held = list(_allow_one_core(boxes, sink))
    if not counts["rows"] and not counts["before"] and not run.grows:
        raise InvalidValue(
            "source", str(source), "logs that tell of runs of boxes", "run the program with the flag -m A"
        )
    result: dict[str, Any] = {
        "network": name, "rows": counts["rows"], "refused": dict(refused), "learned_before": counts["before"],
        "unmapped": run.unmapped, "ended": ended or not run.grows,
    }  # fmt: skip
    goes_on = "" if result["ended"] else ", the run goes on: what it has begun is learned later"
    return Output(result, [_words_of(result, name, **OF_SNET) + goes_on, *not_held])


def _allow_one_core(boxes: set[str], sink: Sink) -> Iterator[str]:
    """Let boxes that nobody gave core counts and that ran on one core only allow one; yield what a service refuses."""
    for name in sorted(boxes):
        try:
            (known,) = sink.advisor.status(components=[name])["components"]
            if "allowed" not in known and known.get("cores_range") == [1.0, 1.0]:
                sink.ask([SetAllowed(name, [1])])
        except (UnknownComponent, Unauthorized) as error:  # its rows were all refused; or the token may not
            yield f"{name}: not held to one core: {error}. 'advisor set-allowed {name} 1' does it"


def _predictors(path: Path | None, given: Sequence[tuple[str, str]]) -> dict[str, list[float]]:
    """Return by box the predictor of each record that the program read; "" stands for all others."""
    from advisor.files.snet_input import source_of, values_of

    if (path is None) != (not given):
        raise click.UsageError("--input and --predictor go together")
    sources = {box: source_of(text) for box, text in given}
    values = values_of(path, list(set(sources.values()))) if path is not None else {}
    return {box: values[source] for box, source in sources.items()}


def _words_of(found: Mapping[str, Any], name: str, **words: str) -> str:
    """Return how many runs were learned of a file, by the first key, then what else there was of, and what was refused."""
    (first, learned_of), *others = words.items()
    parts = [
        f"{several(found[first], 'run')} {learned_of}",
        *(f"{found[key]} {of}" for key, of in others if found[key]),
    ]
    refused: Mapping[str, int] = found["refused"]
    if refused:
        parts.append(f"{sum(refused.values())} refused ({', '.join(sorted(refused))})")
    parts += [f"{count} {why}" for why, count in sorted(found.get("passed", {}).items())]
    return f"{name}: {', '.join(parts)}"
