"""The verb `curves`: the bundle of what changed since a version, page by page."""

from __future__ import annotations

from typing import Any

from advisor.domain.bundle import BundleRecord, pack
from advisor.engine import Advisor
from advisor.protocol.verbs import CurvesAsked
from advisor.service.turns import others_first

BUNDLE_BYTES_MAX = 4 * 2**20  # of one answer: half a message; the rest comes with the next page


async def curves(advisor: Advisor, params: CurvesAsked) -> dict[str, Any]:
    """Answer `curves`; others have their turn after each record.

    `version` is that of the curves before the first record was made: what changes meanwhile comes again. Raises
    UnknownComponent.
    """
    bundles, slots_of = advisor.bundles, advisor.components.slots.slot_of
    for name in params.components or ():
        slots_of(name)
    version = bundles.version
    slots = sorted(set(bundles.slots(params.components).tolist()))
    if params.since is not None:
        changed = set(bundles.changed(params.since))
        slots = [slot for slot in slots if slot in changed]
    if params.after is not None:
        last = slots_of(params.after)
        slots = [slot for slot in slots if slot > last]
    records: list[BundleRecord] = []
    used = 0
    for slot in slots:
        record = bundles.record(slot, params.level, params.cores_max)
        used += record.words.nbytes + len(record.name.encode())
        if records and used > BUNDLE_BYTES_MAX:
            break
        records.append(record)
        await others_first()
    more = len(slots) - len(records)
    return {
        "version": version, "bundle": pack(records, version, params.level), "more": more,
        "next": records[-1].name if more else None,
    }  # fmt: skip
