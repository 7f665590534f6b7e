"""`python -m advisor` is `advisor`."""

from advisor.cli import main

if __name__ == "__main__":  # a worker process of the service reads this file again, under another name
    main()
