"""As `elea.decode.layout`, which has all of this now."""

from elea.decode.layout import *  # noqa: F403
