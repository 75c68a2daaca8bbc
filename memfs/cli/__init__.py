"""The command line: parsing, output, completion and one module per command group."""
