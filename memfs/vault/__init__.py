"""The Vault class, the entry point of the core, with scopes, settings and checks."""
