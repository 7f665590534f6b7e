"""Own cores by closed forms and prices, or turns where cores are fewer than components."""
