"""The network that a command names: a file, whose flow is used where it was learned, or the id that one is kept by."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from advisor.errors import InvalidValue, UnknownNetwork

if TYPE_CHECKING:
    from advisor import Advisor
    from advisor.client import SyncClient
    from advisor.domain.networks import Network


def is_id(path: Path) -> bool:
    """Return whether an argument can only be an id: no such file, and a name without folder."""
    return path.name == str(path) != "-" and not path.exists()


def known_as(path: Path, text: str | None, asker: Advisor | SyncClient) -> str:
    """Return how to ask about a network so that its learned flow is used: its id; the text where nothing was learned of it.

    A file is known as its name without ending, which is what `advisor learn --from snet --network` calls it. What was learned
    under that id of a network of other keys is not of this text.

    Raises
    ------
    UnknownNetwork
        Where the argument is an id, and no network is kept by it.
    """
    from advisor import Advisor
    from advisor.network import parse_any

    if text is None:
        asker.flow(str(path))
        return str(path)
    kept = asker.components.flows.kept.get(path.stem) if isinstance(asker, Advisor) else None
    if isinstance(asker, Advisor) and kept is not None and kept.definition is None:
        asker.define_network(text, id=path.stem)  # in this copy: rows named the network, and nobody defined it
    try:
        flow = asker.flow(path.stem)
    except UnknownNetwork:
        return text
    network = parse_any(text)
    shapes = (network.choices, network.replications, network.splits, network.feedbacks)
    learned = (flow.shares, flow.depths, flow.fan_outs, flow.returns)
    same = [*map(len, shapes)] == [*map(len, learned)] and set(flow.visits) <= set(network.keys)
    return path.stem if same and flow.records else text


def structure_of(path: Path, text: str | None, asker: Advisor | SyncClient) -> Network:
    """Return the network itself; raises InvalidValue where only a service has its definition."""
    from advisor import Advisor
    from advisor.network import parse_any

    if text is not None:
        return parse_any(text)
    if isinstance(asker, Advisor):
        return asker.network(str(path))
    raise InvalidValue(
        "network", str(path), "a file of S-Net text, for --as with a service", "a service keeps the id only"
    )
