"""Which core counts may be given: a list of counts, or all multiples of a number within a range.

One form serves questions, components, networks, bundles and the wire, see `parse_allowed`. Values are frozen and canonical:
`least` and `most` are members, so equal sets of one form are equal values.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, lcm
from typing import Any, cast

from advisor.domain.fields import unknown_key
from advisor.domain.limits import ALLOCATE_CORES_MAX, ALLOWED_COUNTS_MAX
from advisor.domain.rows import is_whole, whole
from advisor.errors import InvalidValue, TooLarge

KEYS = ("min", "max", "multiple_of", "power_of")
FORM = f"a list of 1 to {ALLOWED_COUNTS_MAX} counts, or a map {{min, max, multiple_of}} or {{min, max, power_of}}"
COMPARED_ALL = 256  # counts compared one by one; beyond, each is the one before times 49 / 48: 2 % apart


@dataclass(frozen=True, slots=True)
class AllowedCores:
    """A set of core counts that is not empty. Make one with `parse_allowed` or `allowed_range`.

    Attributes
    ----------
    least, most : int
        The smallest and the largest member.
    multiple_of : int
        Without `listed`: the members are all its multiples from `least` to `most`.
    listed : tuple of int
        The members, ascending; empty: not this form.
    """

    least: int
    most: int
    multiple_of: int = 1
    listed: tuple[int, ...] = ()

    def __contains__(self, count: object) -> bool:
        """Return whether a count is a member."""
        if not is_whole(count) or not self.least <= int(cast("int", count)) <= self.most:
            return False
        return (
            int(cast("int", count)) in self.listed if self.listed else int(cast("int", count)) % self.multiple_of == 0
        )

    def __len__(self) -> int:
        """Return the number of members."""
        return len(self.listed) or (self.most - self.least) // self.multiple_of + 1

    def __str__(self) -> str:
        """Return the set in words."""
        if self.listed:
            return ", ".join(map(str, self.listed))
        if self.multiple_of == 1:
            return f"{self.least} to {self.most}"
        return f"multiples of {self.multiple_of} from {self.least} to {self.most}"

    @property
    def compared(self) -> tuple[int, ...]:
        """The members that a question compares, ascending: the first 256 and those 2 % apart, `least` and `most` with them."""
        return self.listed or _compared(self)

    def nearest(self, count: float) -> int:
        """Return the member nearest to a positive count by ratio; of two equally near the smaller. Cost O(members listed)."""
        if self.listed:
            at = bisect_left(self.listed, count)
            low, high = self.listed[max(at - 1, 0)], self.listed[min(at, len(self.listed) - 1)]
        else:
            low = min(max(int(count) // self.multiple_of * self.multiple_of, self.least), self.most)
            high = min(max(ceil(count / self.multiple_of) * self.multiple_of, self.least), self.most)
        return low if count * count <= low * high else high

    def between(self, least: float, most: float) -> AllowedCores | None:
        """Return the members from `least` to `most`; None where there are none."""
        if self.listed:
            return _listed(count for count in self.listed if least <= count <= most)
        return _ranged(max(self.least, ceil(least)), min(self.most, int(most)), self.multiple_of)

    def intersection(self, other: AllowedCores) -> AllowedCores | None:
        """Return the counts that both allow; None where there are none. Commutative, associative, idempotent."""
        few, many = (self, other) if self.listed else (other, self)
        if few.listed:
            return _listed(count for count in few.listed if count in many)
        ends = max(self.least, other.least), min(self.most, other.most)
        return _ranged(*ends, lcm(self.multiple_of, other.multiple_of))

    def as_wire(self) -> list[int] | dict[str, int]:
        """Return the shape on the wire, which `parse_allowed` takes."""
        if self.listed:
            return list(self.listed)
        return {"min": self.least, "max": self.most, "multiple_of": self.multiple_of}


AllowedForm = AllowedCores | Collection[int] | Mapping[str, int]  # what `parse_allowed` takes


def allowed_range(least: int, most: int) -> AllowedCores:
    """Return all counts from `least` to `most`, 1 <= least <= most."""
    return AllowedCores(least, most)


def parse_allowed(field: str, value: Any) -> AllowedCores:
    """Return the set that a caller gave: a list of counts, `{min, max, multiple_of}`, `{min, max, power_of}`, or one as it is.

    `min` is 1 and `max` 2**20 where they are not given; `power_of` counts 1 as a power; its powers are then listed.

    Raises
    ------
    InvalidValue
        Where it has no such form, a count is no whole number from 1 to 2**20, or no count is left.
    TooLarge
        For more than 256 listed counts.
    UnknownKey
        For a key that the map does not have.
    """
    if isinstance(value, AllowedCores):
        return value
    if isinstance(value, Mapping):
        return _parse_map(field, cast("Mapping[Any, Any]", value))
    items: Any = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(items, (list, tuple, set, frozenset, range)) or not items:
        raise InvalidValue(field, value, FORM)
    counts = cast("Collection[Any]", items)
    if len(counts) > ALLOWED_COUNTS_MAX:
        hint = "give {min, max, multiple_of} or {min, max, power_of}"
        raise TooLarge(f"length of {field}", len(counts), ALLOWED_COUNTS_MAX, hint)
    found = _listed(_count(f"{field}[{at}]", count) for at, count in enumerate(counts))
    return cast("AllowedCores", found)  # it has a member


def intersect_allowed(field: str, first: AllowedCores, second: AllowedCores, whose: str) -> AllowedCores:
    """Return the counts that both allow; raises InvalidValue naming `field`, `first` and, as `whose` set, `second`."""
    both = first.intersection(second)
    if both is None:
        raise InvalidValue(
            field, str(first), f"a set with a count that {whose} allows: {second}", f"add one of {second}"
        )
    return both


def allowed_in_all(component: str, cores_max: Any, allowed: Any, own: AllowedCores | None) -> AllowedCores:
    """Return the counts that a question, as `cores_max` or `allowed` or both, and a component's own set allow.

    Raises InvalidValue where neither is given and the component has no set, or no count is in all; TooLarge, UnknownKey.
    """
    field, found = "allowed", None if allowed is None else parse_allowed("allowed", allowed)
    if cores_max is not None:
        most = allowed_range(1, whole("cores_max", cores_max, 1, ALLOCATE_CORES_MAX))
        field = "cores_max" if found is None else field
        found = most if found is None else intersect_allowed(field, found, most, "cores_max")
    if found is None:
        if own is None or own == allowed_range(1, ALLOCATE_CORES_MAX):
            raise InvalidValue("cores_max", None, "given where allowed is not", "say which core counts there are")
        return own
    return found if own is None else intersect_allowed(field, found, own, f"component {component!r}")


def _parse_map(field: str, given: Mapping[Any, Any]) -> AllowedCores:
    for key in given:
        if key not in KEYS:
            raise unknown_key(field, key, KEYS, field)
    values = {key: _count(f"{field}.{key}", value) for key, value in given.items() if value is not None}
    least, most = values.get("min", 1), values.get("max", ALLOCATE_CORES_MAX)
    step, base = values.get("multiple_of", 1), values.get("power_of", 0)
    if "multiple_of" in values and base:
        raise InvalidValue(field, dict(given), FORM, "give multiple_of or power_of, not both")
    if base == 1:
        raise InvalidValue(f"{field}.power_of", 1, f"a whole number from 2 to {ALLOCATE_CORES_MAX}")
    if least > most:
        raise InvalidValue(f"{field}.min", least, f"at most {field}.max, {most}", "exchange min and max")
    found = _powers(base, least, most) if base else _ranged(least, most, step)
    if found is None:
        what = f"a power of {base}" if base else f"a multiple of {step}"
        raise InvalidValue(field, dict(given), f"a range with {what}", "lower min or raise max")
    return found


def _count(field: str, value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # tables of numbers have counts as floats
    if not is_whole(value) or not 1 <= value <= ALLOCATE_CORES_MAX:
        raise InvalidValue(field, value, f"a whole number of cores from 1 to {ALLOCATE_CORES_MAX}")
    return int(value)


def _listed(counts: Iterable[int]) -> AllowedCores | None:
    members = tuple(sorted(set(counts)))
    return AllowedCores(members[0], members[-1], listed=members) if members else None


def _ranged(least: int, most: int, step: int) -> AllowedCores | None:
    """Return the multiples within a range, its ends moved to members; None where there are none."""
    first, last = -(-max(least, 1) // step) * step, most // step * step
    return AllowedCores(first, last, step) if first <= last else None


@lru_cache(maxsize=256)
def _powers(base: int, least: int, most: int) -> AllowedCores | None:
    powers = (base**k for k in range(ALLOCATE_CORES_MAX.bit_length()))
    return _listed(power for power in powers if least <= power <= most)


@lru_cache(maxsize=256)
def _compared(allowed: AllowedCores) -> tuple[int, ...]:
    step, first = allowed.multiple_of, allowed.least // allowed.multiple_of
    last = allowed.most // step
    places = list(range(first, min(first + COMPARED_ALL, last + 1)))
    while places[-1] < last:
        places.append(min(max(places[-1] + 1, (49 * places[-1] + 24) // 48), last))
    return tuple(place * step for place in places)
