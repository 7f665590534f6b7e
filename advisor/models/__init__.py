"""Constant-space learners, as tables: one column block per statistic, one row (slot) per component."""
