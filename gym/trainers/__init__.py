"""What trainers need of a collector: groups of rollouts, sampled, blended and paced as training wants them."""

from typing import TYPE_CHECKING

from gym.lazy import on_first_use

if TYPE_CHECKING:
    from gym.trainers.blend import BlendPart, Source
    from gym.trainers.group_options import Curriculum, GroupOptions, read_options
    from gym.trainers.groups import RolloutGroup
    from gym.trainers.sequences import TokenSequence, read_sequence, read_sequences
    from gym.trainers.stream import GroupStream, StreamStats
    from gym.trainers.sync import SyncGroupStream

__all__ = [
    "BlendPart",
    "Curriculum",
    "GroupOptions",
    "GroupStream",
    "RolloutGroup",
    "Source",
    "StreamStats",
    "SyncGroupStream",
    "TokenSequence",
    "read_options",
    "read_sequence",
    "read_sequences",
]

__getattr__ = on_first_use(__name__)
