"""Events in, state and answers out; the sole owner of state. No clock, no input or output.

Names are handed out lazily: an `Advisor` needs no profiles of runs, which an `Engine` keeps as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor import handing_out

if TYPE_CHECKING:
    from advisor.engine.advisor import Advisor
    from advisor.engine.engine import Engine

__all__ = ["Advisor", "Engine"]

__getattr__ = handing_out(
    __name__,
    {"Advisor": "advisor.engine.advisor", "Engine": "advisor.engine.engine"},
)
