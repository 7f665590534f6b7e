"""The verbs about networks: their cores, their flow, and advice about them."""

# No postponed annotations here: `verb` reads them.
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Annotated, Any

from advisor.domain import limits
from advisor.domain.advice import Advice
from advisor.domain.allowed_cores import AllowedCores
from advisor.domain.told import ObjectiveWord, TurnsWord
from advisor.errors import InvalidValue
from advisor.protocol import fields as f
from advisor.protocol.declaring import Key, Question, verb
from advisor.protocol.verbs.keys import *


def _watchable(params: Any) -> None:
    """A new watch names a network, or several; one that stands takes what the runtime has, and no new question."""
    if [params.network, params.networks, params.watch].count(None) != 2:
        raise InvalidValue(
            "network" if params.watch is None else "watch", None if params.watch is None else params.watch,
            "one of network or networks (a new watch) and watch (one that stands)",
        )  # fmt: skip
    if params.networks is not None:
        for name in (_OF_ONE.keys() | {"turns"}) & params.verb.keys.keys():
            if getattr(params, name) != getattr(Watch(), name):
                raise InvalidValue(name, getattr(params, name), "absent beside networks", "say it of each network")
    if params.watch is not None and params != Watch(watch=params.watch, current=params.current):
        raise InvalidValue("watch", params.watch, "alone, or with current", "unwatch it, and watch anew")


def _one_form(params: Any) -> None:
    if (params.text is None) == (params.nodes is None):
        raise InvalidValue("text", params.text, "given, or nodes, and not both")


@verb("allocate", "read")
class Allocate(Question):
    """Return cores for each component of a network: S-Net text, a network, its list of nodes, or its id.

    network: S-Net text, or a flat list: `{kind, name, once}` for a `box`, `{kind, children}` for a `series`,
        `{kind, children, ordered}` for a `choice`; `children` are indices of earlier nodes, the last node is the root. Or the
        id of a network that `define_network` keeps, an integer or its name: a text that is such an id is one. Then what was
        learned of its flow stands where `visits` and `shares` do not say
    cores: cores to hand out; for `fewest_cores` at most so many, or nil
    objective: what is to be best; `fewest_cores` reaches `target`, `pareto` is the front,
        `cost` weighs by `weights`
    target: with `fewest_cores`: `{throughput_per_s}` or `{latency_s}`; with `latency`, optional: the
        `{throughput_per_s}` that must remain
    visits: runs of a component per record that enters; overrides `shares`
    shares: one a choice, in text order: the share of each branch, in proportion
    minimum: least cores of one instance
    maximum: most cores of one instance
    instances_max: instances that a component may have
    load: by box: the predictor to plan for, instead of its observed load
    components: by box: the component that it runs, where the names differ
    level: plan for the time that each component's expectation exceeds with probability 1 − `level` at most; nil:
        throughputs are promised with a probability of 0.975 a component, all else is expected
    depths: a replication each, in text order: the mean number of replicas that a record passes, or the shares that pass
        0, 1, 2, …
    fan_outs: a split each: the number of its replicas, or their shares
    returns: a feedback each: the probability to return
    allowed: counts of cores that an instance may have, for all or by key: a list, `{min, max, multiple_of}` or
        `{min, max, power_of}`; what a component itself allows holds, too
    pinned: by key: its cores, or `{cores, instances}`
    arrival_per_s: records that enter per second: latency then has queueing
    arrival_variation: squared coefficient of variation between them
    weights: of objective `cost`: `core_s`, `latency_s`, `record`
    scale: what if: by key a factor on its time, 0.5 is twice as fast
    turns: whether components may take turns on shared cores: wherever that does better, only where cores are fewer than
        components, or not at all
    """

    network: Annotated[NetworkGiven, Key(NETWORK)]
    cores: Annotated[int, Key(CORES)] | None = None
    _: KW_ONLY
    objective: Annotated[ObjectiveWord, Key(f.one_of(*OBJECTIVES))] = "throughput"
    target: Annotated[Mapping[str, float], Key(f.record_of(throughput_per_s=f.number, latency_s=f.number))] | None = (
        None
    )
    visits: Annotated[Mapping[str, float], Key(f.map_of(f.number))] | None = None
    shares: Annotated[Sequence[Sequence[float]], Key(f.list_of(f.numbers, limits.NETWORK_COMPONENTS_MAX))] | None = None
    minimum: Annotated[Mapping[str, int], Key(CORES_BY_KEY)] | None = None
    maximum: Annotated[Mapping[str, int], Key(CORES_BY_KEY)] | None = None
    instances_max: Annotated[
        int | Mapping[str, int],
        Key(
            f.either(
                "an integer, or a map of integers by component",
                int=f.integer(1, limits.INSTANCES_MAX),
                dict=f.map_of(f.integer(1, limits.INSTANCES_MAX)),
            )
        ),
    ] = 1
    load: Annotated[Mapping[str, float], Key(f.map_of(f.number))] | None = None
    components: Annotated[Mapping[str, str], Key(f.map_of(f.name))] | None = None
    level: Annotated[float, Key(LEVEL)] | None = None
    depths: Annotated[Sequence[Any], Key(PER_PLACE)] | None = None
    fan_outs: Annotated[Sequence[Any], Key(PER_PLACE)] | None = None
    returns: (
        Annotated[Sequence[float | None], Key(f.list_of(f.or_nil(f.number), limits.NETWORK_COMPONENTS_MAX))] | None
    ) = None
    allowed: Annotated[AllowedCores | Sequence[int] | Mapping[str, Any], Key(allowed_by_key, "", sets_sent)] | None = (
        None
    )
    pinned: Annotated[Mapping[str, Any], Key(BY_KEY)] | None = None
    nodes: Nodes | None = None
    memory_bytes: MemoryBytes | None = None
    arrival_per_s: Annotated[Number, Key(f.number)] | None = None
    arrival_variation: Annotated[Number, Key(f.number)] | None = None
    quantile: Quantile | None = None
    weights: Annotated[Mapping[str, float], Key(f.map_of(f.number))] | None = None
    scale: Annotated[Mapping[str, float], Key(f.map_of(f.number))] | None = None
    work_max: WorkMax | None = None
    turns: Annotated[TurnsWord, Key(f.one_of(*TURNS))] | None = None
    deadline_s: Deadline | None = None
    fresh: Fresh = False


_OF_MACHINE = (
    "cores",
    "level",
    "nodes",
    "memory_bytes",
    "quantile",
    "weights",
    "work_max",
    "deadline_s",
    "fresh",
)  # of all networks together
_OF_ONE: Mapping[str, f.Check] = {
    name: f.or_nil(key.check) for name, key in Allocate.verb.keys.items()
    if name not in (*_OF_MACHINE, "objective", "turns")
} | {
    "name": f.or_nil(f.name), "weight": f.or_nil(f.number),
    "priority": f.or_nil(f.integer(-PRIORITY_MAX, PRIORITY_MAX)),
}  # fmt: skip


@verb("allocate_together", "read")
class AllocateTogether(Question):
    """Return what each of several networks gets of one machine's cores.

    Each of `networks` is a map with ``network`` (as of `allocate`) and, all optional, ``name``, ``weight`` and ``priority``,
    and what `allocate` takes about one network.

    networks: a map for each, as below
    level: as of `allocate`
    weights: of objective `cost`, of all networks together
    """

    networks: Annotated[
        Sequence[Mapping[str, Any]], Key(f.list_of(f.record_of(**_OF_ONE), limits.NETWORKS_TOGETHER_MAX))
    ]
    cores: Cores
    _: KW_ONLY
    objective: Annotated[ObjectiveWord, Key(f.one_of(*OBJECTIVES))] = "throughput"
    level: Annotated[float, Key(LEVEL)] | None = None
    nodes: Nodes | None = None
    memory_bytes: MemoryBytes | None = None
    quantile: Quantile | None = None
    weights: Annotated[Mapping[str, float], Key(f.map_of(f.number))] | None = None
    work_max: WorkMax | None = None
    deadline_s: Deadline | None = None
    fresh: Fresh = False


@verb("watch", "read", rule=_watchable, grows=True)
class Watch(Allocate):
    """Watch a network, or several on one machine: `allocate` asked again as rows come. A change that pays is pushed.

    A change pays when it gains at least `gain_min` with probability `chance`, and is repaid within `horizon_s` after its cost.
    An allocation that is answered without `current`, or advised, counts as the current one, until `current` states another.
    After a cut the client begins the watch again. `on_change` takes each `Advice` as it comes, beside the iteration; it must
    return soon.

    network: the network, of a new watch
    networks: several, as of `allocate_together`; keys are then ``name:key``, and what is of one network stands in its map
    watch: the number of a watch that stands; only `current` may come with it
    current: by key: cores, or `{cores, instances}`, that the runtime has now
    change_cost_s: seconds that the network stands still for a change, or by key where its allocation changes
    horizon_s: a change must be repaid within so long
    gain_min: gains below are not worth a change
    chance: the probability that a change gains anything, over all looks together; 0.99 by default
    """

    network: Annotated[NetworkGiven, Key(NETWORK)] | None = None  # pyright: ignore[reportIncompatibleVariableOverride]
    _: KW_ONLY
    networks: (
        Annotated[Sequence[Mapping[str, Any]], Key(f.list_of(f.record_of(**_OF_ONE), limits.NETWORKS_TOGETHER_MAX))]
        | None
    ) = None
    watch: WatchNumber | None = None
    current: Annotated[Mapping[str, Any], Key(BY_KEY)] | None = None
    change_cost_s: (
        Annotated[
            Number | Mapping[str, float],
            Key(f.either("seconds, or a map of seconds by key", int=SECONDS, float=SECONDS, dict=f.map_of(SECONDS))),
        ]
        | None
    ) = None
    horizon_s: Annotated[Number, Key(SECONDS)] | None = None
    gain_min: Annotated[Number, Key(f.within(0.0, 1.0))] | None = None
    chance: Annotated[Number, Key(f.within(0.5, 0.9999))] | None = None
    on_change: Callable[[Advice], None] | None = None


@verb("unwatch", "read")
class Unwatch(Question):
    """End a watch."""

    watch: WatchNumber


@verb("define_network", "teach", rule=_one_form, grows=True)
class DefineNetwork(Question):
    """Keep a network by id, as text or as nodes.

    id: an integer from 0 to 2^53, or a name
    text: S-Net; give it or `nodes`
    nodes: a flat list, as of `allocate`
    """

    id: NetworkId | None = None
    text: Annotated[str, Key(f.text(limits.NETWORK_TEXT_BYTES_MAX))] | None = None
    nodes: Annotated[Sequence[Mapping[str, Any]] | Described, Key(NODES)] | None = None


@verb("flow", "read")
class FlowAsked(Question):
    """Return what rows have shown of the flow of records through a network that is kept by id.

    network: its id
    """

    network: NetworkId
