"""One package per framework: each is the only importer of its framework, and an optional extra."""
