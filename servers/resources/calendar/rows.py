"""What a row holds, and what its reply says beside the reward."""

from pydantic import PrivateAttr, model_validator
from schedule import Wanted, read_wanted

from gym.server import VerifyRequest
from gym.wire.rows import Tolerant


class ExpectedEvent(Tolerant):
    duration: float
    min_time: str
    max_time: str
    constraint: str | None = None
    _wanted: Wanted = PrivateAttr()

    @model_validator(mode="after")
    def _times_can_be_read(self) -> "ExpectedEvent":
        wanted = self._wanted = read_wanted(self.duration, self.min_time, self.max_time, self.constraint)
        begins = wanted.earliest if wanted.starts is None else wanted.starts
        if begins < wanted.earliest or begins + wanted.duration > wanted.latest:
            raise ValueError("nothing of this duration fits between these times and keeps to the constraint")
        return self


class CalendarTask(VerifyRequest):
    exp_cal_state: dict[str, ExpectedEvent]
