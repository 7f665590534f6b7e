"""Events in, state and answers out; the sole owner of state. No clock, no input or output."""

from advisor.engine.advisor import Advisor
from advisor.engine.engine import Engine
from advisor.models.quick import use_compiled

__all__ = ["Advisor", "Engine", "use_compiled"]
