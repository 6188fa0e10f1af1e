"""Policy documents: their schema, how they are read, and the built-in version."""
