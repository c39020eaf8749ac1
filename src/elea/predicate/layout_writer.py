"""As `elea.decode.layout_writer`, which has all of this now."""

from elea.decode.layout_writer import *  # noqa: F403
