"""rqueue beside other task queues on the same machine, in the same run: `make bench-peers`."""
