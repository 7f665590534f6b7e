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
from advisor.cli.tables import Column, Printed, dim, table
from advisor.errors import CallerError

if TYPE_CHECKING:
    from advisor.domain.flows import Flow
    from advisor.domain.networks import Network, Node

NODES_SHOWN = 1_000  # beyond, a person reads counts


@command(
    click.argument("file", type=click.Path(path_type=Path, allow_dash=True)),
    click.option("--net", help="Show this top-level net instead of the last one."),
    options.asked_by_id,
)
def network_command(file: Path, net: str | None, **given: Any) -> Output:
    """Check FILE (S-Net or JSON; - is standard input) and show its structure as a tree.

    If there is no such file, FILE is the id of a network of a state or a service; what was learned of its flow is shown, too.

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
    return Output(plain, [*_tree(network), *_learned(learned)])


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
    return {"keys": network.keys, "counts": _counts(network), "nodes": network.as_nodes(), "snet": text}


def _counts(network: Network) -> dict[str, int]:
    return Counter(node.kind for node in network.nodes)


def _tree(network: Network) -> Iterator[Printed]:
    keys = dict(zip(network.boxes, network.keys, strict=True))
    rows: list[dict[str, Any]] = []
    todo = [(len(network.nodes) - 1, 0)]
    while todo and len(rows) < NODES_SHOWN:
        index, depth = todo.pop()
        node = network.nodes[index]
        place = f"{node.line}:{node.column}" if node.line else ""
        rows.append({"node": "  " * depth + _sign(node, keys.get(index)), "place": place})
        todo += [(child, depth + 1) for child in reversed(node.children)]
    yield table([Column("node", "node"), Column("line:column", "place")], rows)
    counts = ", ".join(f"{kind} {count:,}" for kind, count in _counts(network).items())
    hidden = len(network.nodes) - len(rows)
    yield dim(f"{len(network.keys):,} components ({counts}){f'; {hidden:,} nodes more' if hidden else ''}")


def _sign(node: Node, key: str | None) -> str:
    """Return a node as one line, without its parts."""
    from advisor.network.writer import sign_of

    if key is not None:
        outs = " | ".join(f"({', '.join(variant)})" for variant in node.produces)
        if node.once:
            return f"{key} (-> {outs}) once"
        return key if node.consumes is None else f"{key} (({', '.join(node.consumes)}) -> {outs})"
    return f"{node.kind} {sign_of(node)}".rstrip()
