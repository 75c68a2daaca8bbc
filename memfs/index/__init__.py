"""The full-text index: Tantivy, its published generations and the changes not yet published."""
