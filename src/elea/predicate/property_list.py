"""As `elea.decode.property_list`, which has all of this now."""

from elea.decode.property_list import *  # noqa: F403
