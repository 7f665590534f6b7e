"""Frozen values and their validation: what may enter the models, and what answers look like."""
