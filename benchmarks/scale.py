"""What a system of shards needs at a size that nobody here can run: nodes, memory, network, recovery, and what breaks first.

    python benchmarks/scale.py [--components 1e7] [--producers 1e4] [--rows 1e8] [--batch 10000] [--cores 64]

A model of arithmetic alone, fed with what `benchmarks/shards.py costs` measured on two cores. It prints the tables of
docs/scale.md. Its assumptions: names are spread evenly, batches have rows of all components, a core does what a core did there.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, replace

from advisor.domain.buckets import BUCKETS
from advisor.domain.limits import ROWS_BATCH_MAX, SHARDS_MAX
from advisor.storage.store import LOG_BYTES_MAX

ROW_BYTES = 28  # of a plain row on the wire, to a shard, and in each journal at most
JOURNAL_ROW_BYTES = 19  # there at least
PIECE_BYTES = 500  # of a batch's piece beside its rows, pickled
ANSWER_BYTES = 100  # to a producer, for a batch
NAME_BYTES = 100  # of a component's name in the front's dictionaries
LEDGER_BYTES = 200  # of a producer's number
CURVE_BYTES = 600  # of a component in a plan


@dataclass(frozen=True)
class Costs:
    """Seconds of a core, and bytes, as measured.

    Attributes
    ----------
    front_batch_s, front_row_s
        At the front: for each shard's piece of a batch, and for each row.
    shard_batch_s, shard_row_s
        At a shard: for each piece that it is given, calls of four, and for each row.
    state_bytes, part_bytes
        Of a component: tables in memory; its copy when it moves, or is asked for.
    open_component_s
        To open a state, beside its journal.
    spare_s
        From a kill until a spare opens the state.
    """

    front_batch_s: float
    front_row_s: float
    shard_batch_s: float
    shard_row_s: float
    state_bytes: float
    part_bytes: float
    open_component_s: float
    spare_s: float


MEASURED = Costs(5.5e-4, 9.9e-8, 8.0e-4, 2.04e-6, 4.71e3, 4.54e3, 3.9e-5, 1.3)
BUSY = 0.6  # of a core that may be used: the rest is for peaks, moves and questions
NODE_BYTES = 256e9
NODE_BYTES_PER_S = 25e9 / 8
FOLDERS = 2  # of a shard


@dataclass(frozen=True)
class Load:
    """What comes: components, producers, rows a second in all, rows a batch; cores of a node."""

    components: float
    producers: float
    rows_per_s: float
    batch: float
    cores: int


@dataclass(frozen=True)
class Need:
    """What it takes."""

    shards: int
    fronts: int
    nodes: int
    shard_cores: float
    front_cores: float
    memory_bytes: float
    wire_bytes_per_s: float
    journal_bytes_per_s: float
    recovery_s: float
    replay_s: float
    move_s: float


def need(load: Load, costs: Costs) -> Need:
    """Return what a load takes: the fewest shards, all of which take every batch's number, that are busy for BUSY at most.

    A shard is busy for rows / shards * row_s + batches * batch_s; the second does not fall with their number, and from
    batches * batch_s = BUSY on no number is enough. So the batches of one fleet are bounded, and beyond it fleets stand side
    by side, each with components of its own, which producers must know.
    """
    batches = load.rows_per_s / load.batch
    fleets = max(1, math.ceil(batches * costs.shard_batch_s / (BUSY / 2.0)))
    while True:
        own = load.rows_per_s / fleets
        room = BUSY - own / load.batch * costs.shard_batch_s
        shards = math.ceil(own * costs.shard_row_s / room)
        front = own * costs.front_row_s + own / load.batch * costs.front_batch_s * shards
        if shards <= SHARDS_MAX and front <= BUSY:
            break
        fleets += 1
    shard_cores = fleets * (own * costs.shard_row_s + own / load.batch * costs.shard_batch_s * shards)
    components = load.components / (fleets * shards)
    memory = load.components * (costs.state_bytes + NAME_BYTES) + fleets * shards * load.producers * LEDGER_BYTES
    spread = load.rows_per_s * ROW_BYTES + fleets * shards * own / load.batch * PIECE_BYTES
    copies = load.rows_per_s * ROW_BYTES * (FOLDERS - 1)
    wire = load.rows_per_s * ROW_BYTES + batches * ANSWER_BYTES + spread + copies
    cores = (shard_cores + fleets * front) / BUSY
    nodes = max(cores / load.cores, memory / NODE_BYTES, wire / (BUSY * NODE_BYTES_PER_S))
    replay = LOG_BYTES_MAX / JOURNAL_ROW_BYTES * costs.shard_row_s
    return Need(
        shards * fleets, fleets, math.ceil(nodes), shard_cores, fleets * front, memory, wire,
        load.rows_per_s * ROW_BYTES * FOLDERS, costs.spare_s + components * costs.open_component_s, replay,
        load.components / BUCKETS * costs.part_bytes / (BUSY * NODE_BYTES_PER_S),
    )  # fmt: skip


def first_limits(load: Load, costs: Costs) -> dict[str, float]:
    """Return the rows a second at which each part of one fleet of one front is full."""
    per_row = costs.front_row_s + costs.front_batch_s / load.batch
    return {
        "a front and one shard: the shard": BUSY / (costs.shard_row_s + costs.shard_batch_s / load.batch),
        "the front's core, 16 shards": BUSY / (costs.front_row_s + 16 * costs.front_batch_s / load.batch),
        "the front's core, were pieces free": BUSY / per_row,
        "numbers at each shard": BUSY * load.batch / costs.shard_batch_s,
        f"{SHARDS_MAX} shards, were numbers free": SHARDS_MAX * BUSY / costs.shard_row_s,
        "the front's network, 25 Gbit/s": BUSY * NODE_BYTES_PER_S / (2 * ROW_BYTES),
    }


def line(load: Load, found: Need) -> str:
    return (
        f"| {load.rows_per_s:.0e} | {load.components:.0e} | {load.batch:,.0f} | {found.fronts:,} | {found.shards:,} | "
        f"{found.shard_cores:,.0f} + {found.front_cores:,.1f} | {found.nodes:,} | {found.memory_bytes / 1e9:,.1f} | "
        f"{found.wire_bytes_per_s / 1e9:,.2f} | {found.journal_bytes_per_s / 1e9:,.2f} | "
        f"{found.recovery_s:.1f} + {found.replay_s:.1f} |"
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("components", 1e7), ("producers", 1e4), ("rows", 1e8), ("batch", 1e4)):
        arguments.add_argument(f"--{name}", type=float, default=default)
    arguments.add_argument("--cores", type=int, default=64)
    given = arguments.parse_args()
    load = Load(given.components, given.producers, given.rows, given.batch, given.cores)
    print(
        "| rows/s | components | rows a batch | fronts | shards | busy cores: shards + fronts | nodes | memory, GB "
        "| network, GB/s | journals, GB/s | recovery, s |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for share in (0.01, 0.1, 1.0):
        part = replace(load, rows_per_s=share * load.rows_per_s, components=share * load.components)
        for batch in (load.batch, float(ROWS_BATCH_MAX)):
            one = replace(part, batch=batch)
            print(line(one, need(one, MEASURED)))
    print("\n| one front and its shards are full by | at rows/s |\n|---|---|")
    for name, rows in sorted(first_limits(load, MEASURED).items(), key=lambda each: each[1]):
        print(f"| {name} | {rows:,.1e} |")


if __name__ == "__main__":
    main()
