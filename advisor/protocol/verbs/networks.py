"""The verbs about networks: their cores, their flow, and advice about them."""

# No postponed annotations here: `verb` reads them.
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from advisor.domain import limits
from advisor.domain.advice import CHANCE, GAIN_LEAST, HORIZON_S, Advice
from advisor.domain.fields import record
from advisor.errors import InvalidValue
from advisor.protocol.declaring import Question, verb
from advisor.protocol.verbs.keys import *


def _watchable(params: Any) -> None:
    """A new watch names a network; one that stands takes what the runtime has, and no new question."""
    if (params.network is None) == (params.watch is None):
        raise InvalidValue("network", params.network, "given (a new watch), or watch (one that stands), and not both")
    if params.evidence:
        raise InvalidValue("evidence", True, "false: a watch is asked again as rows come", "ask allocate")
    if params.watch is not None and params != Watch(watch=params.watch, current=params.current):
        raise InvalidValue("watch", params.watch, "alone, or with current", "unwatch it, and watch anew")


def _one_form(params: Any) -> None:
    if (params.text is None) == (params.nodes is None):
        raise InvalidValue("text", params.text, "given, or nodes, and not both")


@dataclass(frozen=True, slots=True, kw_only=True)
class OfMachine(Question, MachineOptions):
    """What is asked of a machine, whatever runs on it."""

    fresh: Fresh = False


@verb("allocate", "read")
class Allocate(OfMachine, PlanOptions):
    """Return cores for each component of a network: S-Net text, a network, its list of nodes, or its id.

    network: S-Net text, or a flat list: `{kind, name, once}` for a `box`, `{kind, children}` for a `series`,
        `{kind, children, ordered}` for a `choice`; `children` are indices of earlier nodes, the last node is the root. Or the
        id of a network that `define_network` keeps, an integer or its name: a text that is such an id is one. Then what was
        learned of its flow stands where `visits` and `shares` do not say
    cores: cores to hand out; for `fewest_cores` at most so many, or nil
    objective: what is to be best; `fewest_cores` reaches `target`
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
    scale: what if: by key a factor on its time, 0.5 is twice as fast
    turns: whether components may share cores in turns: wherever the plan gains, only with fewer cores than components, or
        not at all
    current: an allocation in use: an answer, or by key cores or `{cores, instances}`. It is answered, by what is known now,
        unless a new one gains 5 % or it breaks the request
    """

    network: NetworkGiven
    cores: Count | None = None
    _: KW_ONLY
    evidence: Evidence = False


_OF_ONE: Mapping[str, Any] = {key: Allocate.verb.keys[key] for key in ("network", *OF_NETWORK)} | OF_SHARE
if TYPE_CHECKING:
    Networks = Sequence[Mapping[str, Any]]
else:
    Networks = Annotated[list[record(**_OF_ONE)], Meta(max_length=limits.NETWORKS_TOGETHER_MAX)]


@verb("allocate_together", "read")
class AllocateTogether(OfMachine):
    """Return what each of several networks gets of one machine's cores.

    Each of `networks` is a map with ``network`` (as of `allocate`) and, all optional, ``name`` and ``weight``, and
    what `allocate` takes about one network.

    networks: a map for each, as below
    objective: `throughput` or `latency`, as of `allocate`
    level: as of `allocate`
    """

    networks: Networks
    cores: Cores
    _: KW_ONLY
    objective: TogetherWord = "throughput"


@verb("watch", "read", rule=_watchable)
class Watch(Allocate):
    """Watch a network: `allocate` asked again as rows come. A change that pays is pushed.

    A change pays when it gains at least `gain_min` with probability `chance`, and is repaid within `horizon_s` after its cost.
    An allocation that is answered without `current`, or advised, counts as the current one, until `current` states another.
    After a cut the client begins the watch again. `on_change` takes each `Advice` as it comes, beside the iteration; it must
    return soon.

    network: the network, of a new watch
    watch: the number of a watch that stands; only `current` may come with it
    current: what the runtime has now: an answer, or by key cores or `{cores, instances}`
    change_cost_s: seconds that the network stands still for a change, or by key where its allocation changes
    horizon_s: a change must be repaid within so long
    gain_min: gains below are not worth a change, as with `current` of `allocate`
    chance: the probability that a change gains anything, over all looks together
    """

    network: NetworkGiven | None = None  # pyright: ignore[reportIncompatibleVariableOverride]
    _: KW_ONLY
    watch: WatchNumber | None = None
    change_cost_s: Annotated[
        Seconds | Mapping[str, Seconds], Meta(description="seconds, or a map of seconds by key")
    ] = 0.0
    horizon_s: Seconds = HORIZON_S
    gain_min: Share = GAIN_LEAST
    chance: Annotated[float, Meta(ge=0.5, le=0.9999)] = CHANCE
    on_change: Callable[[Advice], None] | None = None


@verb("unwatch", "read")
class Unwatch(Question):
    """End a watch."""

    watch: WatchNumber

    def components_asked(self) -> Sequence[str]:
        """Return none."""
        return ()


@verb("define_network", "teach", rule=_one_form)
class DefineNetwork(Question):
    """Keep a network by id, as text or as nodes.

    id: an integer from 0 to 2^53, or a name
    text: S-Net; give it or `nodes`
    nodes: a flat list, as of `allocate`
    """

    id: StoredId
    text: Annotated[str, within_bytes(limits.NETWORK_TEXT_BYTES_MAX)] | None = None
    nodes: NodesGiven | None = None


@verb("flow", "read")
class FlowAsked(Question):
    """Return what rows have shown of the flow of records through a network that is kept by id.

    network: its id
    """

    network: StoredId
