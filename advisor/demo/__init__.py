"""What `advisor demo` runs: real components on this machine, and what following the advice brought."""
