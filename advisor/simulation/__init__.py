"""Task graph analysis: what executing a graph would take, computed and not run (paper 4)."""

from advisor.simulation.analysis import POLICIES, Execution, policy_of, simulate
from advisor.simulation.program import Program
from advisor.simulation.requests import METRICS, Analyses, answer
from advisor.simulation.system_words import contention_of_text

__all__ = [
    "METRICS", "POLICIES", "Analyses", "Execution", "Program", "answer", "contention_of_text", "policy_of", "simulate",
]  # fmt: skip
