"""Task graph analysis: what executing a graph would take, computed and not run (paper 4)."""

from advisor.simulation.analysis import POLICIES, Execution, policy_of, simulate, sweep, use_compiled
from advisor.simulation.program import Program

__all__ = ["POLICIES", "Execution", "Program", "policy_of", "simulate", "sweep", "use_compiled"]
