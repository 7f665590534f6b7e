"""Replicas of splits: exact runs of those of least hash, which are all of them where there are no more; in constant space."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from advisor.domain.vectors import Ints, Words

REPLICAS_MAX = 64  # kept apart exactly; of more, a sample by hash
SPLIT_KEYS_MAX = 64  # keys of a network whose replicas are kept apart
FAN_OUT_MAX = 1_024  # replicas that a fan-out lists


def mixed(values: Words, salt: int) -> Words:
    """Return 64 well mixed bits of each value (n,): splitmix64 (Steele, Lea, Flood 2014). Cost O(n)."""
    z = (values ^ np.uint64(salt)) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class Replicas:
    """Runs of the replicas of each key, by the key's number."""

    def __init__(self) -> None:
        self.runs: dict[int, dict[int, int]] = {}  # key -> replica -> runs

    def count_replicas(self, key: Ints, replica: Words, runs: Ints) -> None:
        """Count runs of replicas (n,), in order of coming. Cost O(n log n)."""
        some, first, inverse = np.unique(
            np.stack([key.astype(np.uint64), replica]), axis=1, return_index=True, return_inverse=True
        )
        total = np.zeros(some.shape[1], np.int64)
        np.add.at(total, inverse.reshape(-1), runs)
        for pair in np.argsort(first).tolist():
            self._add(int(some[0, pair]), int(some[1, pair]), int(total[pair]))

    def _add(self, key: int, replica: int, runs: int) -> None:
        """Add runs of a replica; beyond `REPLICAS_MAX` the one of greatest hash goes, for ever."""
        if key not in self.runs and len(self.runs) >= SPLIT_KEYS_MAX:
            return
        known = self.runs.setdefault(key, {})
        known[replica] = known.get(replica, 0) + runs
        if len(known) > REPLICAS_MAX:
            values = list(known)
            hashes = mixed(np.array(values, np.uint64), 0)
            del known[values[int(hashes.argmax())]]

    def halve(self) -> None:
        """Forget half of all runs."""
        for known in self.runs.values():
            for replica in known:
                known[replica] >>= 1

    def merge(self, other: Replicas, numbers: Ints) -> None:
        """Add another's, whose key i is number `numbers[i]` here, and left out below 0."""
        for key, known in other.runs.items():
            if numbers[key] >= 0:
                for replica, n in known.items():
                    self._add(int(numbers[key]), replica, n)

    def shares(self, keys: Sequence[int], everything: int) -> list[float] | None:
        """Return the share of records of each replica of some keys, heaviest first; None where none ran.

        `everything`: runs of these keys that named a replica, those that are no longer distinguished included.
        """
        runs: dict[int, int] = {}
        for key in keys:
            for replica, n in self.runs.get(key, {}).items():
                runs[replica] = runs.get(replica, 0) + n
        known: list[float] = sorted((float(n) for n in runs.values() if n > 0), reverse=True)
        if not known or not everything:
            return None
        if len(runs) >= REPLICAS_MAX:  # those kept stand for all of them
            hashes = np.sort(mixed(np.array(list(runs), np.uint64), 0))
            replicas = max(len(known), round((REPLICAS_MAX - 1) * 2.0**64 / float(hashes[REPLICAS_MAX - 1])))
            rest = max(everything - sum(known), 0)
            more = min(replicas - len(known), FAN_OUT_MAX - len(known))
            known = sorted(known + ([rest / more] * more if more > 0 else []), reverse=True)
        whole = sum(known)
        return [n / whole for n in known]
