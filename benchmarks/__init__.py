"""Measurements beside raw Redis commands, everything in one run: `make bench`."""
