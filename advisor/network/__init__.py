"""Networks as text: S-Net (`parse`, `read`, `write`) and JSON (`parse_json`)."""

from __future__ import annotations

from advisor.domain.networks import Network
from advisor.errors import InvalidValue
from advisor.network.expansion import main_network
from advisor.network.json_text import is_json, parse_json
from advisor.network.reader import read
from advisor.network.writer import write

__all__ = ["parse", "parse_any", "parse_json", "read", "write"]


def parse(text: str, *, net: str | None = None) -> Network:
    """Return the network that an S-Net text describes.

    Raises NetworkSyntax with line, column and what was expected there; TooLarge beyond NETWORK_TEXT_BYTES_MAX,
    NETWORK_DEPTH_MAX or NETWORK_COMPONENTS_MAX; InvalidValue when `text` is no string, or `net` names no net of it.

    Parameters
    ----------
    text : str
        S-Net definitions, or a bare expression such as ``decode .. (small | large) .. encode``. Names that are
        not defined are external components.
    net : str, optional
        Which top-level net is meant; by default the last one that has an expression.

    Returns
    -------
    Network
        Nets are expanded where they are used, each use anew; nodes carry their line and column.

    Notes
    -----
    Cost O(tokens + components of the expanded network); nothing recurses. Source: the public S-Net grammar (2012).
    """
    return main_network(read(text), net)


def parse_any(text: str, *, net: str | None = None) -> Network:
    """Return the network of a text in either form: S-Net (`parse`), or JSON (`parse_json`), recognised by its first characters.

    Raises NetworkSyntax, InvalidValue, UnknownKey, TooLarge as `parse` and `parse_json`; `net` with JSON is an InvalidValue.
    """
    if not isinstance(text, str) or not is_json(text[:JSON_SIGNS]):
        return parse(text, net=net)
    if net is not None:
        raise InvalidValue("net", net, "absent: JSON holds one network")
    return parse_json(text)


JSON_SIGNS = 4_096  # of the text's beginning, looked at to tell its form
