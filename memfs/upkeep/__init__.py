"""Looking after a vault: forgetting, redaction, encryption, the graph of links, evaluation, audit."""
