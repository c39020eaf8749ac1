"""The verbs of a session as coroutines and asynchronous iterators, on the caller's event loop."""

from elea.session.aio import AsyncLiveliness as AsyncLiveliness
from elea.session.aio import AsyncPublisher as AsyncPublisher
from elea.session.aio import AsyncQuerier as AsyncQuerier
from elea.session.aio import AsyncSession as AsyncSession
from elea.session.aio import open as open
from elea.session.aio_entities import AsyncReceiver as AsyncReceiver
from elea.session.aio_entities import AsyncSpool as AsyncSpool
from elea.session.aio_entities import AsyncToken as AsyncToken
from elea.session.aio_handlers import AsyncHandler as AsyncHandler
from elea.session.aio_handlers import AsyncReplies as AsyncReplies
