"""Buffers with the interface of `zenoh.shm`; what they hold travels over the link."""

from elea.session.shm import AllocAlignment as AllocAlignment
from elea.session.shm import BlockOn as BlockOn
from elea.session.shm import Deallocate as Deallocate
from elea.session.shm import Defragment as Defragment
from elea.session.shm import GarbageCollect as GarbageCollect
from elea.session.shm import JustAlloc as JustAlloc
from elea.session.shm import MemoryLayout as MemoryLayout
from elea.session.shm import ShmProvider as ShmProvider
from elea.session.shm import ZShm as ZShm
from elea.session.shm import ZShmMut as ZShmMut
