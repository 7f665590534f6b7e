"""The networks that an engine knows: those defined by id, those that rows name, and what was learned of their flow."""

from __future__ import annotations

import json
import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np

from advisor.domain.flows import Flow
from advisor.domain.json_bytes import read_json
from advisor.domain.limits import DEFINITION_BYTES_MAX, NETWORK_ID_MAX, NETWORKS_MAX, NETWORKS_NAMED_MAX
from advisor.domain.names import checked_name
from advisor.domain.networks import Network, network_from_nodes
from advisor.domain.observations import Bools, Columns
from advisor.domain.vectors import NONE_NAMED
from advisor.engine.kinds import RecordKind
from advisor.errors import InvalidValue, TooLarge, UnknownNetwork
from advisor.models.flow import FlowCounts
from advisor.models.flow_structure import FlowStructure, flow_of

ROUTES = ("shares", "depths", "fan_outs", "returns")  # of a flow and of a request alike: lists, an entry a node
STEERING = ("shares", "depths", "returns")  # say how often boxes are visited; a fan-out does not
# A row refused for these has no component, no network, or no number of runs; all others tell where a record was.
UNREADABLE = (
    "invalid_row", "unknown_key", "invalid_name", "invalid_network", "invalid_count", "invalid_entered", "invalid_ok",
    "invalid_running", "invalid_killed",
)  # fmt: skip

TEXTS_CACHED = 64  # network texts kept parsed
Definition = str | list[dict[str, Any]]
NetworkId = int | str


@dataclass(slots=True)
class StoredNetwork:
    """One network: its counts, and its definition where it has one."""

    counts: FlowCounts
    definition: Definition | None = None  # its text, or its nodes
    read: Network | None = None
    answer: tuple[int, Flow] | None = None  # at so many rows

    @property
    def network(self) -> Network:
        """The network of the definition; read again after a restart."""
        if self.read is None:
            definition = cast("Definition", self.definition)
            self.read = parsed(definition) if isinstance(definition, str) else network_from_nodes(definition)
        return self.read


@lru_cache(TEXTS_CACHED)
def parsed(text: str) -> Network:
    """Return the network of an S-Net text, the last ones read once; raises as `advisor.network.parse`.

    The reader, a fifth of the time to import an advisor, is loaded with the first text: a stream of rows needs none.
    """
    from advisor.network import parse  # noqa: PLC0415

    return parse(text)


class Flows(RecordKind[str, StoredNetwork]):
    """Networks by name: an id as text. Bounded; the order of their coming does not matter."""

    name, merges = "networks", {"definition": "ours", "counts": "exact"}
    records_max = NETWORKS_MAX

    def __init__(self, totals: Counter[str]) -> None:
        super().__init__()
        self.totals = totals

    # -- definitions ------------------------------------------------------------------------------------------------------

    def define(self, network_id: NetworkId, definition: Definition, network: Network) -> dict[str, Any]:
        """Keep a network by id; the same again changes nothing, another one takes the place of what the id stood for.

        Raises InvalidValue, TooLarge.
        """
        name = name_of(network_id)
        found = self.known.get(name)
        if found is None or found.definition != definition:
            self._make_room(name, definition)
            if found is None or found.definition is not None:
                found = self.known[name] = StoredNetwork(FlowCounts())  # of another structure nothing can be kept
            found.definition, found.read, found.answer = definition, network, None
        return {
            "id": network_id, "keys": list(network.keys), "components": list(dict.fromkeys(network.components)),
            "choices": [len(network.nodes[node].children) for node in network.choices],
            "replications": len(network.replications), "splits": len(network.splits), "feedbacks": len(network.feedbacks),
        }  # fmt: skip

    def _make_room(self, name: str, definition: Definition) -> None:
        others = {other: kept for other, kept in self.known.items() if other != name}
        held = sum(_size(kept.definition) for kept in others.values() if kept.definition is not None)
        if held + _size(definition) > DEFINITION_BYTES_MAX:
            raise TooLarge("definitions", held + _size(definition), DEFINITION_BYTES_MAX, "define other networks anew")
        if name in self.known or len(self.known) < NETWORKS_MAX:
            return
        # What rows name gives way to what is defined: the one with the fewest rows.
        undefined = [(kept.counts.n["rows"], other) for other, kept in others.items() if kept.definition is None]
        if not undefined:
            raise TooLarge("networks", len(self.known) + 1, NETWORKS_MAX, "define another one anew, under its id")
        _, least = min(undefined)
        self.remove_record(least)
        self.totals["networks_dropped"] += 1

    def defined(self, network_id: NetworkId) -> Network:
        """Return the network of an id; raises UnknownNetwork, InvalidValue."""
        found = self.known.get(name_of(network_id))
        if found is None or found.definition is None:
            known = [name for name, kept in self.known.items() if kept.definition is not None]
            raise UnknownNetwork(network_id, known)
        return found.network

    def definition(self, network_id: NetworkId) -> Definition:
        """Return the text or the nodes that an id was defined by; raises as `defined`."""
        self.defined(network_id)
        return cast("Definition", self.known[name_of(network_id)].definition)

    def keeps(self, network: object) -> bool:
        """Return whether a network is meant by the id of a definition: any number is, and a text that is one."""
        if isinstance(network, str):
            found = self.known.get(network)
            return found is not None and found.definition is not None
        return isinstance(network, (int, np.integer)) and not isinstance(network, bool)

    def flow(self, network_id: NetworkId, network: Network | None = None) -> Flow:
        """Return what was learned of a network's flow, by its definition or by `network`.

        Raises UnknownNetwork, InvalidValue.
        """
        kept = self.known.get(name_of(network_id))
        if network is not None:
            counts = FlowCounts() if kept is None else kept.counts
            return flow_of(FlowStructure(network), counts)
        network = self.defined(network_id)
        kept = self.known[name_of(network_id)]
        if kept.answer is None or kept.answer[0] != kept.counts.n["rows"]:
            kept.answer = kept.counts.n["rows"], flow_of(FlowStructure(network), kept.counts)
        return kept.answer[1]

    # -- rows -------------------------------------------------------------------------------------------------------------

    def count_flow_rows(self, columns: Columns, bad: Mapping[str, Bools]) -> None:
        """Count the rows that name a network: learned ones, failed ones, and those refused for what they measured."""
        if columns.network is None:
            return
        there = columns.network != NONE_NAMED
        for code in UNREADABLE:
            if code in bad:
                there &= ~bad[code]
        if columns.running is not None:
            there &= ~columns.running  # it comes again when it has ended
        rows = np.flatnonzero(there)
        if not len(rows):
            return
        networks = columns.network[rows]
        seen, first = np.unique(networks, return_index=True)
        room: int | None = None  # for names that nobody defined
        for at in np.argsort(first).tolist():
            number = int(seen[at])
            name = columns.networks[number]
            kept = self.known.get(name)
            if kept is None:
                room = self._room() if room is None else room
                if room > 0:
                    kept = self.known[name] = StoredNetwork(FlowCounts())
                    room -= 1
            part = rows if len(seen) == 1 else rows[networks == number]
            if kept is None:
                self.totals["network_rows_dropped"] += len(part)
                continue
            kept.counts.count_rows(columns if len(part) == len(columns) else columns.select_rows(part))

    def _room(self) -> int:
        """Return how many networks more rows may name."""
        undefined = sum(kept.definition is None for kept in self.known.values())
        return min(NETWORKS_MAX - len(self.known), NETWORKS_NAMED_MAX - undefined)

    # -- merge and state --------------------------------------------------------------------------------------------------

    def leave_out(self, record: StoredNetwork) -> None:
        """Count a network for which there is no room."""
        del record
        self.totals["networks_dropped"] += 1

    def merged_record(self, key: str, mine: StoredNetwork, theirs: StoredNetwork) -> StoredNetwork:
        """Return the counts of both; where each has a definition of its own, ours stays, and its counts with it."""
        if mine.definition is not None and theirs.definition not in (None, mine.definition):
            self.totals["networks_dropped"] += 1
            return mine
        both = self.copy_record(key, mine)
        both.definition = mine.definition or theirs.definition
        both.counts.merge(theirs.counts)
        return both

    def encode_record(self, record: StoredNetwork) -> bytes:
        """Return a network's definition and counts as bytes."""
        state = {"definition": record.definition, "counts": record.counts.plain()}
        return json.dumps(state, ensure_ascii=False, separators=(",", ":")).encode()

    def decode_record(self, key: str, data: bytes) -> StoredNetwork:
        """Return a network of its bytes."""
        state = read_json(data)
        return StoredNetwork(FlowCounts.of_plain(state["counts"]), state["definition"])


def name_of(network_id: object) -> str:
    """Return an id as text: 7 and "7" are the same; raises InvalidValue."""
    if isinstance(network_id, (int, np.integer)) and not isinstance(network_id, bool):
        number = operator.index(cast("int", network_id))
        if not 0 <= number <= NETWORK_ID_MAX:
            raise InvalidValue("id", number, f"a whole number from 0 to {NETWORK_ID_MAX}, or a name")
        return str(number)
    return checked_name("id", network_id)


def _size(definition: Any) -> int:
    return len(json.dumps(definition))


def filled(options: Mapping[str, Any], flow: Flow) -> dict[str, Any]:
    """Return a request's options with what `flow` knows in the place of what they do not say, number by number.

    Learned visits are left out where the options say how records travel: "what if the shares were others" must not be
    answered by the visits of the old ones.
    """
    found = dict(options)
    for field in ROUTES:
        learned: Sequence[Any] = getattr(flow, field)
        given: object = options.get(field)
        if given is None:
            if any(part is not None for part in learned):
                found[field] = list(learned)
        elif isinstance(given, (list, tuple)) and len(said := cast("Sequence[Any]", given)) == len(learned):
            found[field] = [below if own is None else own for own, below in zip(said, learned, strict=True)]
    if all(options.get(field) is None for field in STEERING):
        found["visits"] = {**flow.visits, **cast("Mapping[str, float]", options.get("visits") or {})} or None
    return found
