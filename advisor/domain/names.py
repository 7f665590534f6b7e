"""Names of components, producers and labels: 1 to 200 bytes of printable UTF-8, normalised (NFC)."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from advisor.domain.limits import NAME_BYTES_MAX
from advisor.errors import InvalidValue

NAME_BOUND = f"1 to {NAME_BYTES_MAX} bytes of printable text"
NAMES_REMEMBERED = 4096  # to look at a name takes 10 times as long as to remember it


def normalised_name(value: object) -> str | None:
    """Return the name in its one normal form (NFC), or None when it is no name."""
    return normal_form(str(value)) if isinstance(value, str) else None  # a subclass may carry more than its characters


@lru_cache(NAMES_REMEMBERED)
def normal_form(value: str) -> str | None:
    """Return a text as a name in its one normal form (NFC), or None when it is no name."""
    if value.isascii():
        return value if value.isprintable() and 0 < len(value) <= NAME_BYTES_MAX else None
    if len(value) > NAME_BYTES_MAX:
        return None
    name = unicodedata.normalize("NFC", value)
    if not name.isprintable():  # excludes control, surrogate, private and unassigned characters
        return None
    return name if 0 < len(name.encode()) <= NAME_BYTES_MAX else None


def checked_name(field: str, value: object) -> str:
    """Return the name in its normal form.

    Raises InvalidValue when it is no string, empty, longer than 200 bytes of UTF-8 or not printable.
    """
    name = normalised_name(value)
    if name is None:
        raise InvalidValue(field, value, NAME_BOUND)
    return name
