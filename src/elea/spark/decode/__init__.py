"""Columns from payloads, on Arrow batches and without Spark."""

from elea.spark.decode.drift import Drift
from elea.spark.decode.plan import Decoded, Plan, decode
from elea.spark.decode.rules import DECODERS, Rule, decoder_for
from elea.spark.decode.schemas import plan_of_options, plan_of_samples, read_schemas

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
