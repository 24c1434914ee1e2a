"""The producer's and the hand-worker's face: handles, leases, and what stands behind them."""
