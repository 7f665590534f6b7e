"""`advisor network`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli import options
from advisor.cli.known_networks import named_network
from advisor.cli.options import Output, command
from advisor.cli.source import asked
from advisor.cli.tables import Printed, dim, several
from advisor.errors import CallerError

if TYPE_CHECKING:
    from advisor.domain.flows import Flow
    from advisor.domain.networks import Network


@command(
    click.argument("file", type=click.Path(path_type=Path, allow_dash=True)),
    click.option("--net", help="Show this top-level net instead of the last one."),
    options.asked_by_id,
)
def network_command(file: Path, net: str | None, **given: Any) -> Output:
    """Check FILE (S-Net or JSON; - is standard input) and print it as S-Net text.

    If there is no such file, FILE is the id of a network of a state or a service; what was learned of its flow is shown, too.
    With --json the nodes have their lines and columns.

    The exit status is 0 when FILE reads, else 2; the error has line and column.
    """
    from advisor.network import parse_any

    named, learned = named_network(file), None
    if named.text is None:
        try:
            with asked(given) as asker:
                network, learned = named.structure(asker), asker.flow(named.name)
        except click.UsageError as error:
            words = f"there is no file {file}; where it is the id of a network, {error.message}"
            raise click.UsageError(words, error.ctx) from error
    else:
        network = parse_any(named.text, net=net)
    plain = _plain(network) | ({} if learned is None else {"flow": learned.as_dict()})
    return Output(plain, [*_described(network, plain), *_learned(learned)])


def _learned(flow: Flow | None) -> Iterator[str]:
    """Say what rows have shown of a flow, as the options of `advisor allocate` state it."""
    if flow is not None:
        parts = (
            ("shares", flow.shares),
            ("depths", flow.depths),
            ("fan-outs", flow.fan_outs),
            ("returns", flow.returns),
        )
        said = "".join(f"; {name} {' '.join(map(_number, numbers))}" for name, numbers in parts if numbers)
        yield f"learned from {flow.records:,} records{said}"


def _number(value: Any) -> str:
    if value is None:
        return "?"
    numbers: list[float] = [value] if isinstance(value, float) else [*value]
    return ",".join(f"{each:.3g}" for each in numbers)


def _plain(network: Network) -> dict[str, Any]:
    from advisor.network import write

    try:
        text = write(network)
    except CallerError:
        text = None  # S-Net has no join, and no such names
    counts = Counter(node.kind for node in network.nodes)
    return {"keys": network.keys, "counts": counts, "nodes": network.as_nodes(), "snet": text}


def _described(network: Network, plain: dict[str, Any]) -> Iterator[Printed]:
    yield plain["snet"].rstrip() if plain["snet"] else "no S-Net text says it: --json has its nodes"
    counts = ", ".join(f"{kind} {count:,}" for kind, count in plain["counts"].items())
    yield dim(f"{several(len(network.keys), 'component')} ({counts})")
