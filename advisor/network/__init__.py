"""S-Net text to networks: `parse`."""

from __future__ import annotations

from advisor.domain.networks import Network
from advisor.network.expansion import main_network
from advisor.network.reader import read

__all__ = ["parse"]


def parse(text: str, *, net: str | None = None) -> Network:
    """Return the network that an S-Net text describes.

    Parameters
    ----------
    text : str
        S-Net definitions, or a bare expression such as ``decode .. (small | large) .. encode``. Names that are not
        defined are external components.
    net : str, optional
        Which top-level net is meant; by default the last one that has an expression.

    Returns
    -------
    Network
        Nets are expanded where they are used, each use anew; nodes carry their line and column.

    Raises
    ------
    NetworkSyntax
        With line, column and what was expected there.
    Unsupported
        When the text uses an operator that is not planned yet, naming it with line and column.
    TooLarge
        Beyond NETWORK_TEXT_BYTES_MAX, NETWORK_DEPTH_MAX or NETWORK_COMPONENTS_MAX.
    InvalidValue
        When `text` is no string, or `net` names no net of it.

    Notes
    -----
    Cost O(tokens + components of the expanded network); nothing recurses. Source: the public S-Net grammar (2012).
    """
    return main_network(read(text), net)
