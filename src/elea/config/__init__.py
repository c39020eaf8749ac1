"""Configuration: typed, defaulted and validated, in Eclipse Zenoh's key layout."""

from elea.config.config import Config

__all__ = ["Config"]
