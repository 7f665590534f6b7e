"""Networks as JSON, for runtimes that have no S-Net: the flat list of nodes that the wire has, too."""

from __future__ import annotations

import json
import re
from typing import Any

from advisor.domain import limits
from advisor.domain.networks import Network, network_from_nodes
from advisor.errors import InvalidValue, NetworkSyntax, TooLarge
from advisor.network.reader import check_size

_JSON = re.compile(r'\s*(?:\{|"|\[\s*(?:\{\s*)?")')


def is_json(text: str) -> bool:
    """Say whether a text is meant as JSON: no S-Net text begins as a JSON map, string or list of nodes does."""
    return _JSON.match(text) is not None


def parse_json(text: str) -> Network:
    """Return the network of a JSON list of nodes, as `network_from_nodes` has it; raises what it raises.

    Raises NetworkSyntax where it is no JSON, with line and column; InvalidValue for a key given twice; TooLarge.
    """
    check_size(text)
    try:
        return network_from_nodes(json.loads(text, object_pairs_hook=_once))
    except json.JSONDecodeError as error:
        raise NetworkSyntax(f"no JSON: {error.msg}", line=error.lineno, column=error.colno) from None
    except ValueError:
        raise InvalidValue("network", "an integer of thousands of digits", "JSON with integers of 64 bits") from None
    except RecursionError:
        bound = limits.NETWORK_DEPTH_MAX
        raise TooLarge("network depth", "more than the JSON reader takes", bound, "brackets of the text") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InvalidValue("network", twice, "a key that is given once")
    return found
