"""The archive kept in order: metrics, embeddings, pruning, verification, restore."""
