"""Search: collect candidates, rank them, read each hit from disk and mark snippets."""
