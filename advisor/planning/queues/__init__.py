"""How records wait: streams, queues, joins, order; what an allocation gives."""
