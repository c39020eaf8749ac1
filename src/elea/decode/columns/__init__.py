"""Columns from payloads, on Arrow batches and without Spark."""
