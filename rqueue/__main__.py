"""Makes `python -m rqueue` the same as the command `rqueue`."""

from rqueue.cli.main import main

if __name__ == "__main__":
    main()
