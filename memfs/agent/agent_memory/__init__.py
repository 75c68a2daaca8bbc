"""AgentMemory: working memory and long-term memory behind one object."""
