"""Readers of tables, and the replay of a table through a learner."""

from advisor.files.replay import ComponentScore, Learner, Prequential, Sample, replay
from advisor.files.row_batches import BadCell
from advisor.files.tables import TableReader

__all__ = ["BadCell", "ComponentScore", "Learner", "Prequential", "Sample", "TableReader", "replay"]
