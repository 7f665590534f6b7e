"""Readers of files: tables of runs, graphs, what runtimes write of their runs, task events."""

from advisor.files.lines import BadCell
from advisor.files.tables import TableReader

__all__ = ["BadCell", "TableReader"]
