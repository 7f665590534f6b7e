"""Networks that share a machine, and what can be wrong with one of them or with all together."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from advisor.domain import limits
from advisor.domain.curves import TabulatedCurves
from advisor.domain.networks import Network
from advisor.errors import CallerError, InvalidValue, TooLarge
from advisor.planning.by_key import within
from advisor.planning.demand import demand_of
from advisor.planning.requests import Request, request_about

WEIGHT_MIN, WEIGHT_MAX = 1e-9, 1e9  # wider than any two networks differ, far from what a double loses


@dataclass(frozen=True, slots=True)
class Share:
    """A network that shares the machine."""

    network: Network
    curves: TabulatedCurves
    request: Request  # its routing and limits; its objective and cores are those of the whole machine
    weight: float = 1.0  # how its throughput (or latency) counts against others
    name: str = ""  # what answers and errors call it; empty: its place, from 1

    def key_of(self, key: str) -> str:
        """Return what its key is called among those of all."""
        return f"{self.name}:{key}"

    def own(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is its own of values by the keys of all."""
        return {key: values[self.key_of(key)] for key in self.network.keys}


@contextmanager
def about(place: int, name: str) -> Generator[None]:
    """Let an error of the caller's tell which network it is about."""
    try:
        yield
    except CallerError as error:
        error.message = f"network {name}: {error.message}"
        error.field = f"networks[{place}]" + (f".{error.field}" if error.field else "")
        raise


def checked_shares(shares: Sequence[Share]) -> tuple[list[Share], int]:
    """Return the networks with a name each, and the fewest cores of all, after what can be wrong with one alone.

    Raises InvalidValue, TooLarge.
    """
    found, least = list[Share](), 0
    for place, share in enumerate(shares):
        name = share.name or str(place + 1)
        weight = share.weight
        with about(place, name):
            if any(name == other.name for other in found):
                raise InvalidValue("name", name, "no other network's", "give each network a name of its own")
            within("weight", weight, WEIGHT_MIN, WEIGHT_MAX)
            if share.request.arrival_per_s is not None and weight != 1.0:
                raise InvalidValue("weight", weight, "absent where arrival_per_s is given", "arrivals are the weights")
            least += demand_of(request_about(share.network, share.request), share.curves).least
        found.append(replace(share, name=name))
    keys = sum(len(share.network.keys) for share in shares)
    if keys > limits.NETWORK_COMPONENTS_MAX:
        raise TooLarge("network components", keys, limits.NETWORK_COMPONENTS_MAX)
    return found, least
