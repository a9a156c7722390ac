"""The tools of the calendar."""

from __future__ import annotations

from typing import Any

from office.dates import read_time
from office.desk import EVENT_COLUMNS, Office
from office.matching import contains
from office.paging import page_of

_FORMAT = "format. Expected YYYY-MM-DD HH:MM:SS."
_BAD_ID = "Invalid event ID format. Expected 8-digit ID."
_CHANGEABLE = EVENT_COLUMNS[1:]


class CalendarTool:
    def __init__(self, office: Office) -> None:
        self._office = office

    def get_event_information_by_id(self, event_id: Any = None, field: Any = None) -> Any:
        if not event_id:
            return "Event ID not provided."
        if not field:
            return "Field not provided."
        if not _is_event_id(event_id):
            return _BAD_ID
        if field not in EVENT_COLUMNS:
            return f"Invalid field. Available fields are: {', '.join(EVENT_COLUMNS)}"
        event = self._office.events.find("event_id", event_id)
        return {field: event[field]} if event is not None else "Event not found."

    def search_events(
        self, query: Any = "", time_min: Any = None, time_max: Any = None, page: Any = 1, page_size: Any = 5
    ) -> Any:
        """Both bounds are on the start."""
        try:
            earliest = read_time(time_min) if time_min else None
        except ValueError:
            return f"Invalid time_min {_FORMAT}"
        try:
            latest = read_time(time_max) if time_max else None
        except ValueError:
            return f"Invalid time_max {_FORMAT}"
        matches = contains(query)
        found = [
            one for one in self._office.events.rows if matches(one["event_name"]) or matches(one["participant_email"])
        ]
        if earliest is not None:
            found = [one for one in found if read_time(one["event_start"]) >= earliest]
        if latest is not None:
            found = [one for one in found if read_time(one["event_start"]) <= latest]
        if not found:
            return "No events found."
        found.sort(key=lambda one: read_time(one["event_start"]), reverse=True)
        return page_of(found, "events", page, page_size)

    def create_event(
        self, event_name: Any = None, participant_email: Any = None, event_start: Any = None, duration: Any = None
    ) -> Any:
        if not event_name:
            return "Event name not provided."
        if not participant_email:
            return "Participant email not provided."
        if not event_start:
            return "Event start not provided."
        if not duration:
            return "Event duration not provided."
        if problem := _why_no_start(event_start) or _why_no_duration(duration):
            return problem
        events = self._office.events
        event_id = str(int(events.last_id("event_id")) + 1).zfill(8)
        event = {
            "event_id": event_id,
            "event_name": event_name,
            "participant_email": participant_email.lower(),
            "event_start": event_start,
            "duration": duration,
        }
        self._office.events = events.append(event, label=0)
        return event_id

    def delete_event(self, event_id: Any = None) -> Any:
        if not event_id:
            return "Event ID not provided."
        if not _is_event_id(event_id):
            return _BAD_ID
        if not self._office.events.has("event_id", event_id):
            return "Event not found."
        self._office.events = self._office.events.delete("event_id", event_id)
        return "Event deleted successfully."

    def update_event(self, event_id: Any = None, field: Any = None, new_value: Any = None) -> Any:
        if not event_id or not field or not new_value:
            return "Event ID, field, or new value not provided."
        if not _is_event_id(event_id):
            return _BAD_ID
        if field not in _CHANGEABLE:
            return f"Invalid field. Available fields are: {', '.join(_CHANGEABLE)}"
        problem = _why_no_start(new_value) if field == "event_start" else ""
        problem = problem or (_why_no_duration(new_value) if field == "duration" else "")
        if problem:
            return problem
        if not self._office.events.has("event_id", event_id):
            return "Event not found."
        new_value = new_value.lower() if field == "participant_email" else new_value
        self._office.events = self._office.events.update("event_id", event_id, field, new_value)
        return "Event updated successfully."


def _is_event_id(event_id: Any) -> bool:
    return isinstance(event_id, str) and len(event_id) == 8 and event_id.isdigit()


def _why_no_start(value: Any) -> str:
    try:
        read_time(value)
    except ValueError:
        return f"Invalid event_start {_FORMAT}"
    return ""


def _why_no_duration(value: Any) -> str:
    try:
        return "" if int(value) > 0 else "Duration must be a positive number of minutes."
    except ValueError:
        return "Invalid duration format. Expected a number of minutes."
