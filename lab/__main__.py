"""`python -m lab` is the same as `lab`."""

from lab.cli import main

main()
