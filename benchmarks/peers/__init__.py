"""The benchmarks of `make bench-peers`: rqueue compared with other task queues."""
