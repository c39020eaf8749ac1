"""Storages: values that stay, kept by timestamp, and asked for by query."""
