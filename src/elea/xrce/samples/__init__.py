"""Samples: where they are kept, when they are sent, and which keys their names are."""
