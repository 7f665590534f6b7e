"""Networks to allocations for the service: small ones here, large ones in a worker process; every answer is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from advisor.domain.networks import Network, network_from_nodes
from advisor.engine import Advisor
from advisor.errors import InvalidValue
from advisor.planning import Request
from advisor.planning.fares import LEVEL
from advisor.planning.stability import Look, Question, reconsider
from advisor.service.answers import Answers
from advisor.service.heavy import Heavy, Spec
from advisor.service.tables import tables_of

# A text of this size is read and planned within 2 ms; larger ones go to a worker process.
INLINE_TEXT_BYTES_MAX = 1024
INLINE_NODES_MAX = 64


class Shape(NamedTuple):
    """What the service needs to know of a network: its keys and the box name of each, in text order."""

    keys: tuple[str, ...]
    components: tuple[str, ...]
