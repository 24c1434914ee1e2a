"""The metrics: their catalogue, the counters of a process, and the Prometheus format."""
