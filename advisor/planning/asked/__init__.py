"""What a caller asks, as checked values and arrays."""
