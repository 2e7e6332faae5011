"""`python -m rlcr` is the command `rlcr`."""

from rlcr.cli import main

if __name__ == "__main__":
    main()
