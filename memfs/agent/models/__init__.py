"""Language models behind one protocol: clients, functions and a scripted model for tests."""
