"""The network that a command names: a file, whose flow is used where it was learned, or the id that one is kept by."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.domain.limits import NETWORK_TEXT_BYTES_MAX
from advisor.errors import InvalidValue, UnknownNetwork

if TYPE_CHECKING:
    from advisor import Advisor
    from advisor.client import SyncClient
    from advisor.domain.networks import Network


@dataclass(frozen=True, slots=True)
class NamedNetwork:
    """A network as a command line names it. `text`: of its file, None for an id."""

    path: Path
    text: str | None

    @property
    def name(self) -> str:
        """What it is called among several: its id, or its file without folder and ending."""
        return str(self.path) if self.text is None else self.path.stem

    def known_as(self, asker: Advisor | SyncClient) -> str:
        """Return how to ask about it so that its learned flow is used: its id, or its text where nothing was learned of it.

        A file is known as its name without ending, which is what `advisor learn --from snet --network` calls it. What was
        learned under that id of a network of other keys is not of this text.

        Raises
        ------
        UnknownNetwork
            Where it is an id, and no network is kept by it.
        """
        from advisor import Advisor
        from advisor.network import parse_any

        if self.text is None:
            _checked(self.path, asker)
            return self.name
        kept = asker.components.flows.known.get(self.name) if isinstance(asker, Advisor) else None
        if isinstance(asker, Advisor) and kept is not None and kept.definition is None:
            asker.define_network(self.text, id=self.name)  # in this copy: rows named the network, and nobody defined it
        try:
            flow = asker.flow(self.name)
        except (UnknownNetwork, InvalidValue):  # nobody keeps it, or a file's name that is no name of a network
            return self.text
        network = parse_any(self.text)
        shapes = (network.choices, network.replications, network.splits, network.feedbacks)
        learned = (flow.shares, flow.depths, flow.fan_outs, flow.returns)
        same = [*map(len, shapes)] == [*map(len, learned)] and set(flow.visits) <= set(network.keys)
        return self.name if same and flow.records else self.text

    def structure(self, asker: Advisor | SyncClient) -> Network:
        """Return the network itself; a service is asked for its state, page by page, where only it has the definition.

        Raises UnknownNetwork, NetworkSyntax.
        """
        from advisor import Advisor
        from advisor.cli.source import exported
        from advisor.network import parse_any

        if self.text is not None:
            return parse_any(self.text)
        _checked(self.path, asker)
        return (asker if isinstance(asker, Advisor) else exported(asker)).network(self.name)


def named_network(path: Path) -> NamedNetwork:
    """Return the network of an argument: of a file, or, where no such file is, of an id. Raises InvalidValue, TooLarge."""
    is_id = path.name == str(path) != "-" and not path.exists()
    is_id = is_id or path.is_dir()  # logs lie in a folder that is called as the network
    return NamedNetwork(path, None if is_id else network_text(path))


def network_text(path: Path) -> str:
    """Return the text of a network's file; raises InvalidValue, TooLarge."""
    from advisor.files.lines import Lines, text_of

    return text_of(Lines(path).whole(NETWORK_TEXT_BYTES_MAX))


def _checked(path: Path, asker: Advisor | SyncClient) -> None:
    """Raise UnknownNetwork, with what to do, where nothing is kept by an id."""
    try:
        asker.flow(str(path))
    except UnknownNetwork as error:
        known = f"; known: {error.bound}" if error.bound else ""
        error.hint = f"no such file either{known}; 'advisor learn --from snet --definition' keeps a network by id"
        raise
