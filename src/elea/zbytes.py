"""ZBytes: a payload, as octets or text, without copying what cannot change."""

from elea.zbytes_hot import Shareable as Shareable
from elea.zbytes_hot import ZBytes as ZBytes
