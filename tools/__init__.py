"""What the Makefile runs besides the tests."""
