"""What `advisor demo` runs: real components on this machine, judged through a real service."""
