"""Maintenance of the archive: metrics, embeddings, pruning, verification, restore."""
