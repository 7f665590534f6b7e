"""What `advisor demo` runs: real components on this machine, and paper 1's setting, both through a real service."""
