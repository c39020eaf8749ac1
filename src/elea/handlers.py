"""Handlers: how what arrives is handed to the application (`zenoh.handlers`)."""

from elea.session.batches import ArrowBatches as ArrowBatches
from elea.session.handlers import Callback as Callback
from elea.session.handlers import DefaultHandler as DefaultHandler
from elea.session.handlers import FifoChannel as FifoChannel
from elea.session.handlers import Handler as Handler
from elea.session.handlers import RingChannel as RingChannel

__all__ = ["ArrowBatches", "Callback", "DefaultHandler", "FifoChannel", "Handler", "RingChannel"]
