"""The queue in memory: the reference model of one shard, for tests."""
