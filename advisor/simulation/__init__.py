"""Task graph analysis: what executing a graph would take, computed and not run (paper 4)."""

from advisor.simulation.analysis import POLICIES, Execution, policy_of, simulate
from advisor.simulation.program import Program
from advisor.simulation.requests import METRICS, AnalysisRequest, answer
from advisor.simulation.system_words import contention_of_text

__all__ = [
    "METRICS", "POLICIES", "AnalysisRequest", "Execution", "Program", "answer", "contention_of_text", "policy_of", "simulate",
]  # fmt: skip
