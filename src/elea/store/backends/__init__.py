"""The volumes that Elea brings: memory, files, SQLite."""
