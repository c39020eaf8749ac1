"""Advanced publishers and subscribers, and the serialization format (`zenoh.ext`)."""

from elea.errors import ZDeserializeError as ZDeserializeError
from elea.session.advanced import declare_advanced_publisher as declare_advanced_publisher
from elea.session.advanced import declare_advanced_subscriber as declare_advanced_subscriber
from elea.session.advanced_config import CacheConfig as CacheConfig
from elea.session.advanced_config import HistoryConfig as HistoryConfig
from elea.session.advanced_config import MissDetectionConfig as MissDetectionConfig
from elea.session.advanced_config import RecoveryConfig as RecoveryConfig
from elea.session.advanced_config import RepliesConfig as RepliesConfig
from elea.session.advanced_publisher import AdvancedPublisher as AdvancedPublisher
from elea.session.advanced_subscriber import AdvancedSubscriber as AdvancedSubscriber
from elea.session.advanced_subscriber import Miss as Miss
from elea.session.advanced_subscriber import SampleMissListener as SampleMissListener
from elea.session.serialize import Float32 as Float32
from elea.session.serialize import Float64 as Float64
from elea.session.serialize import Int8 as Int8
from elea.session.serialize import Int16 as Int16
from elea.session.serialize import Int32 as Int32
from elea.session.serialize import Int64 as Int64
from elea.session.serialize import Int128 as Int128
from elea.session.serialize import UInt8 as UInt8
from elea.session.serialize import UInt16 as UInt16
from elea.session.serialize import UInt32 as UInt32
from elea.session.serialize import UInt64 as UInt64
from elea.session.serialize import UInt128 as UInt128
from elea.session.serialize import z_deserialize as z_deserialize
from elea.session.serialize import z_serialize as z_serialize
