"""The SQLite file of a store: its lock, its schema and its rows, and what tells that it is damaged."""
