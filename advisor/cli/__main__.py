"""`python -m advisor.cli` is `advisor`."""

from advisor.cli import main

main()
