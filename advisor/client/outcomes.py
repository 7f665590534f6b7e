"""What became of the rows that a client was given."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

REFUSALS_RETAINED = 8  # refused rows kept with their reasons, the latest


@dataclass(slots=True)
class Stats:
    """What became of the rows, and of the connection. Always offered = acknowledged + rejected + dropped + held.

    Attributes
    ----------
    rows_offered : int
        Rows given to the client.
    rows_acknowledged : int
        Rows in batches that the service has made durable: accepted + refused, where its replies arrived.
    rows_accepted, rows_refused : int
        Of the acknowledged rows, by the service's receipts; a receipt lost with its connection is in neither.
    rows_rejected : int
        Rows in batches that the service refused as a whole, for ever (`last_error` says why).
    rows_dropped : int
        Rows dropped because the buffer was full.
    rows_lost, batches_lost : int
        Acknowledged, and then lost by the service with its state. Rows are exact for the last batches, at least so
        many beyond.
    refused_by_code, last_refused :
        Why rows were refused: counts, and the latest with code and value.
    """

    rows_offered: int = 0
    rows_acknowledged: int = 0
    rows_accepted: int = 0
    rows_refused: int = 0
    rows_rejected: int = 0
    rows_dropped: int = 0
    rows_lost: int = 0
    batches_acknowledged: int = 0
    batches_resent: int = 0
    batches_lost: int = 0
    connections: int = 0
    refused_by_code: Counter[str] = field(default_factory=Counter[str])
    last_refused: deque[tuple[str, Any]] = field(
        default_factory=lambda: deque[tuple[str, Any]](maxlen=REFUSALS_RETAINED)
    )
    last_error: str = ""

    @property
    def rows_held(self) -> int:
        """Rows not yet acknowledged."""
        return self.rows_offered - self.rows_acknowledged - self.rows_rejected - self.rows_dropped
