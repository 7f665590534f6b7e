"""Readers of tables, and the replay of a table through a learner."""

from advisor.files.replay import ComponentScore, Learner, Prequential
from advisor.files.row_batches import BadCell
from advisor.files.tables import TableReader

__all__ = ["BadCell", "ComponentScore", "Learner", "Prequential", "TableReader"]
