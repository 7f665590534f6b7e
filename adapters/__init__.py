"""Adapters: one room a runtime, from the runtime's own hooks to calls of the client."""
