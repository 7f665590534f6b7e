"""Records as S-Net programs read them, in XML: the values of their tags and fields, a record at a time.

Monitor logs tell the bytes of a record, not its tags. A box whose time grows with a tag has its predictor in the program's
input. The k-th record that enters the network is the k-th of the input, and each later record is traced back to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from advisor.errors import InvalidValue, nearest
from advisor.files.lines import Lines, number_of

_PROLOG = re.compile(rb"^\s*<\?xml[^>]*\?>")
_LABEL = re.compile(r"<(\w+)>|(\w+)")
DATA = "data"  # the type of a record that enters; others steer the runtime


class RecordLabel(NamedTuple):
    """Where boxes have their predictor from: a tag, or a field."""

    kind: str  # "tag" or "field"
    label: str

    @property
    def text(self) -> str:
        """As it is written: <n> for a tag."""
        return f"<{self.label}>" if self.kind == "tag" else self.label


def source_of(text: str) -> RecordLabel:
    """Return the source that ``<n>`` (a tag) or ``a`` (a field) names; raises InvalidValue."""
    found = _LABEL.fullmatch(text)
    if found is None:
        raise InvalidValue("predictor", text, "a tag like <n>, or the name of a field")
    return RecordLabel("tag", found[1]) if found[1] else RecordLabel("field", found[2])


def values_of(path: Path, sources: Sequence[RecordLabel]) -> dict[RecordLabel, list[float]]:
    """Return for each source its value in each record that enters, in order; a field that is no number counts its letters.

    NaN where a record does not have it. Raises InvalidValue where the file cannot be read, or no record has it; TooLarge.
    """
    text = _PROLOG.sub(b"", Lines(path).whole())
    try:
        root = ElementTree.fromstring(b"<records>" + text + b"</records>")  # noqa: S314 - expat bounds expansions
    except ElementTree.ParseError as error:
        raise InvalidValue("input", str(path), f"records in XML ({error})") from error
    found: dict[RecordLabel, list[float]] = {source: [] for source in sources}
    labels: set[str] = set()
    for record in root:
        if record.get("type") != DATA:
            continue
        texts = {
            RecordLabel(part.tag.rpartition("}")[2], part.get("label", "")): "".join(part.itertext()).strip()
            for part in record
        }
        labels.update(each.text for each in texts)
        for source, values in found.items():
            given = texts.get(source)
            number = float("nan") if given is None else number_of(given)
            letters = float("nan") if given is None else float(len(given))
            values.append(letters if source.kind == "field" and number != number else number)  # noqa: PLR0124 - NaN
    for source, values in found.items():
        if all(value != value for value in values):  # noqa: PLR0124 - NaN
            raise InvalidValue(
                "predictor", source.text, "a tag or field of the records in the input", nearest(source.text, labels)
            )
    return found
