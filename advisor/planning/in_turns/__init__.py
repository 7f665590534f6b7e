"""Plans in which components take turns on shared cores: which of them share, what that reaches, and why."""
