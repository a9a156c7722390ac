"""TensorBoard, by its own event files beside the output: `tensorboard --logdir FOLDER`. Needs neither torch nor TF."""

from __future__ import annotations

import html
import time
from collections.abc import Mapping, Sequence

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.text.metadata import create_summary_metadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from gym.collect.log_to.trackers import RunFacts, SampleRollout


class TensorboardTracker:
    def __init__(self, facts: RunFacts) -> None:
        """A resume writes one more file into the same folder, which TensorBoard reads as the same run."""
        folder = facts.folder / f"{facts.name}.tensorboard"
        self.key = folder.name
        self._writer = EventFileWriter(str(folder))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        found = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._add(step, Summary(value=found))

    def log_samples(self, step: int, samples: Sequence[SampleRollout]) -> None:
        texts = [_text(one).encode("utf-8", "replace") for one in samples]
        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=len(texts))])
        tensor = TensorProto(dtype=DT_STRING, string_val=texts, tensor_shape=shape)
        metadata = create_summary_metadata(display_name="samples", description="")
        self._add(step, Summary(value=[Summary.Value(tag="samples", tensor=tensor, metadata=metadata)]))

    def close(self, *, failed: bool) -> None:
        self._writer.close()

    def _add(self, step: int, summary: Summary) -> None:
        self._writer.add_event(Event(wall_time=time.time(), step=step, summary=summary))
        self._writer.flush()


def _text(sample: SampleRollout) -> str:
    """What a model said is shown as it is: TensorBoard reads Markdown, so it stands in a block of code."""
    said = html.escape(f"{sample.asked}\n---\n{sample.answered}")
    return f"task {sample.task}, repeat {sample.repeat}, reward {sample.reward:g}\n\n<pre>{said}</pre>"


def open_tracker(facts: RunFacts) -> TensorboardTracker:
    return TensorboardTracker(facts)
