"""One module a framework, each the only importer of it, each an optional extra."""
