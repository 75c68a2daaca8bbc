"""Search by embeddings: vectors on disk and nearest neighbours."""
