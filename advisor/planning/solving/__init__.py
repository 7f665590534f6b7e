"""Any curves and constraints: tables of shapes, bounds, programs, exchanges."""
