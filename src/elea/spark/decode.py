"""Columns from payloads: the public names, of which most work without Spark."""

from elea.decode.columns.drift import Drift
from elea.decode.columns.plan import Decoded, Plan, decode
from elea.decode.columns.rules import Rule, decoder_for
from elea.decode.columns.schemas import plan_of_samples, read_schemas
from elea.decode.formats import DECODERS
from elea.spark.decoding import plan_of_options

__all__ = [
    "DECODERS",
    "Decoded",
    "Drift",
    "Plan",
    "Rule",
    "decode",
    "decoder_for",
    "plan_of_options",
    "plan_of_samples",
    "read_schemas",
]
