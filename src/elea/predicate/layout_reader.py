"""As `elea.decode.layout_reader`, which has all of this now."""

from elea.decode.layout_reader import *  # noqa: F403
