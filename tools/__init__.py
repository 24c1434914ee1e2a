"""Programs that the Makefile runs: the docs generator, the Lua linter, the build hook."""
