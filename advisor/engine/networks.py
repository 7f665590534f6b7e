"""What an advisor says of networks: their allocations, their flow, and the curves that plans rest on."""

from __future__ import annotations

import marshal
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from advisor.domain import limits
from advisor.domain.allocations import Allocation
from advisor.domain.bundle import pack
from advisor.domain.flows import Flow
from advisor.domain.networks import Network, network_from_nodes
from advisor.domain.plan_options import NetworkQuestion, ObjectiveWord, TogetherWord
from advisor.domain.shapes import plain
from advisor.domain.sharing import Together
from advisor.engine.bundles import CORES_DEFAULT, Bundles
from advisor.engine.cache import Cache
from advisor.engine.components import Components
from advisor.engine.curve_tables import CurveTables
from advisor.engine.flows import NetworkId, filled, parsed
from advisor.engine.guards import checked_cores, checked_level, taking
from advisor.errors import InvalidValue
from advisor.models.prediction import LEVEL

if TYPE_CHECKING:
    from advisor.planning import Request

QUESTIONS_CACHED = 64  # questions about networks that are read and checked
BY_VALUE = 2  # marshal's version whose bytes depend on nothing but the values


class Networks:
    """The verbs of an `Advisor` that are about networks."""

    def __init__(self, components: Components, bundles: Bundles, tables: CurveTables) -> None:
        self._components = components
        self._flows = components.flows
        self._bundles = bundles
        self._tables = tables
        self._questions = Cache["Request"](QUESTIONS_CACHED)

    @taking(NetworkQuestion)
    def allocate(
        self, network: Any, cores: int | None = None, *, objective: ObjectiveWord = "throughput", **options: Any
    ) -> Allocation:
        """Allocate whole cores to the components of a network.

        Parameters
        ----------
        network : str, int, Network or list of maps
            S-Net text, e.g. ``"read .. (small | large) .. write"``, the flat list of nodes, or the id of a network that
            `define_network` keeps: then what was learned of its flow answers where `visits` and `shares` do not say.
        cores : int
            Cores to give out; for ``fewest_cores`` an upper bound, or None for as many as it takes.
        objective : str
            ``throughput``, ``latency`` (of a lone record; with `target` ``{"throughput_per_s": x}`` the lowest at which so many
            get through), or ``fewest_cores`` with `target`.
        components : mapping, optional
            Box name to the component that it runs, where the names differ.
        load : mapping, optional
            Box name to the predictor value to plan for; absent: the observed load of its component.
        evidence : bool
            The answer carries what it rests on as `basis`.
        **options
            `target`, `visits`, `shares`, `minimum`, `maximum`, `instances_max`, `level`, `current` and more: see
            `advisor.domain.plan_options`.

        Returns
        -------
        Allocation
            Components take turns on shared cores where that is better, unless `turns` is ``"never"``: `groups` then has each
            group's cores once, and `cores` only those of components that share with nobody.

        Raises
        ------
        NetworkSyntax, MissingShares, ImpossibleTarget, TargetNotReached, UnknownComponent, NotEnoughData, InvalidValue
        TooLarge
        """
        from advisor.planning import plan_request  # noqa: PLC0415 - loaded with the first plan: rows and questions need none

        given: dict[str, Any] = {"cores": cores, "objective": objective, **options}
        components, load = given.pop("components", None), given.pop("load", None)
        if "current" in given:
            given["current"] = plain(given["current"])
        structure = self.network(network)
        if self._by_id(network):
            given = filled(given, self._flows.flow(cast("NetworkId", network)))
        request = self._request(structure, given)
        reach = limits.ALLOCATE_CORES_MAX if request.cores is None else request.cores
        level = LEVEL if request.level is None else request.level
        return plan_request(
            request,
            self._tables.curves(structure.components, components or {}, load or {}, cores_max=reach, level=level),
        )

    def _request(self, network: Network, options: Mapping[str, Any]) -> Request:
        """Return the request about a network: the last ones are kept, by the network itself and the options' values."""
        from advisor.planning import request_about, request_of  # noqa: PLC0415 - as in `allocate`

        try:
            key = id(network), marshal.dumps(cast("Any", options), BY_VALUE)
        except ValueError:  # a value that is none of Python's own plain ones
            return request_about(network, request_of(options))
        kept = self._questions.get(key)
        if kept is not None and kept.network is network:
            return kept
        return self._questions.store_value(key, request_about(network, request_of(options)))

    def allocate_together(
        self,
        networks: Sequence[Mapping[str, Any]],
        cores: int,
        *,
        objective: TogetherWord = "throughput",
        **options: Any,
    ) -> Together:  # fmt: skip
        """Allocate the cores of one machine to several networks that run at the same time.

        Parameters
        ----------
        networks : list of maps
            Each with ``network`` (as of `allocate`) and, all optional, ``name``, ``weight`` (1) and options of `allocate`
            about this network.
        cores : int
        objective : str
            ``throughput`` (in proportion to the weights, then whatever more each can) or ``latency`` (the mean by weight).
        **options
            Of the whole machine: `nodes`, `memory_bytes`, `level`, `quantile`, `work_max`.

        Raises
        ------
        NetworkSyntax, MissingShares, ImpossibleTarget, UnknownComponent, UnknownNetwork, NotEnoughData
        InvalidValue, TooLarge, UnknownKey, Unsupported
            What is about one network has a `field` that begins with ``networks[i]``.
        """
        from advisor.engine.sharing import allocate_together  # noqa: PLC0415 - as in `allocate`

        return allocate_together(self._flows, self.network, self._tables, networks, cores, objective, options)

    def define_network(
        self,
        network: str | Network | Sequence[Mapping[str, Any]],
        *,
        id: NetworkId,  # noqa: A002
        read: Network | None = None,
    ) -> dict[str, Any]:
        """Keep a network by id, so that rows and questions name it: rows by ``network=id``, `allocate`, `flow`.

        The same network under the same id changes nothing; another one takes its place, and learns its flow anew.

        Parameters
        ----------
        id : int or str
            A whole number or a name; 7 and "7" are the same.
        read : Network, optional
            What `network` reads as, where the caller has read it.

        Returns
        -------
        dict
            ``id``, ``keys``, ``components`` (box names), ``choices`` (branches of each), and how many ``replications``,
            ``splits`` and ``feedbacks``.

        Raises
        ------
        NetworkSyntax, Unsupported, InvalidValue, TooLarge
        """
        if isinstance(network, (int, np.integer)):
            raise InvalidValue("network", network, "S-Net text, a network, or its nodes")
        if read is None:
            read = parsed(network) if isinstance(network, str) else self.network(network)
        return self._flows.define(id, network if isinstance(network, str) else read.as_nodes(), read)

    def flow(self, network: NetworkId, structure: str | Network | Sequence[Mapping[str, Any]] | None = None) -> Flow:
        """Return what rows have shown of the flow of a network, by the id that they name.

        Parameters
        ----------
        structure : optional
            The network; absent: what `define_network` keeps by the id.

        Raises
        ------
        UnknownNetwork, InvalidValue
        """
        return self._flows.flow(network, None if structure is None else self.network(structure))

    def network(self, text: str | int | Network | Sequence[Mapping[str, Any]]) -> Network:
        """Return the network of a text, of a flat list of nodes or of an id; the last texts are kept parsed.

        Raises
        ------
        NetworkSyntax, Unsupported, InvalidValue, TooLarge, UnknownNetwork
        """
        if self._by_id(text):
            return self._flows.defined(cast("NetworkId", text))
        if isinstance(text, Network):
            return text
        return parsed(text) if isinstance(text, str) else network_from_nodes(text)

    def _by_id(self, network: object) -> bool:
        """Return whether a network is meant by the id of a definition; most are texts."""
        return (not isinstance(network, str) or network in self._flows.known) and self._flows.keeps(network)

    def bundle(
        self, components: Sequence[str] | None = None, *, level: float = LEVEL, cores_max: int = CORES_DEFAULT
    ) -> bytes:
        """Return the curves of components, or of all, as a flat bundle for who cannot wait (`advisor.domain.bundle`).

        Parameters
        ----------
        level : float
            Share of runs that the intervals hold.
        cores_max : int
            Cores up to which curves are tabulated; beyond they go on as they ended.

        Raises
        ------
        UnknownComponent, InvalidValue
        """
        names = None if components is None else list(dict.fromkeys(components))
        for name in names or ():
            self._components.slots.slot_of(name)
        level, cores_max = checked_level(level), checked_cores("cores_max", cores_max)
        version, slots = self._bundles.version, self._bundles.slots(names).tolist()
        return pack([self._bundles.record(slot, level, cores_max) for slot in slots], version, level)
