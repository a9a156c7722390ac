"""The tools over the website's visits. Days are compared as text."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from office.desk import Office
from office.table import Row

VALUES = (
    *("total_visits", "session_duration_seconds", "user_engaged"),
    *("visits_direct", "visits_referral", "visits_search_engine", "visits_social_media"),
)
PLOTS = ("bar", "line", "scatter", "histogram")


class AnalyticsTool:
    def __init__(self, office: Office) -> None:
        self._office = office

    def get_visitor_information_by_id(self, visitor_id: Any = None) -> Any:
        if not visitor_id:
            return "Visitor ID not provided."
        return [one for one in self._office.seed.visits if one["visitor_id"] == visitor_id] or "Visitor not found."

    def create_plot(
        self, time_min: Any = None, time_max: Any = None, value_to_plot: Any = None, plot_type: Any = None
    ) -> Any:
        """What is kept of a plot is the path of its file."""
        if not time_min:
            return "Start date not provided."
        if not time_max:
            return "End date not provided."
        if value_to_plot not in VALUES:
            return f"Value to plot must be one of {', '.join(map(repr, VALUES))}"
        if plot_type not in PLOTS:
            return "Plot type must be one of 'bar', 'line', 'scatter', or 'histogram'"
        path = f"plots/{time_min}_{time_max}_{value_to_plot}_{plot_type}.png"
        self._office.plots = self._office.plots.append({"file_path": path})
        return path

    def total_visits_count(self, time_min: Any = None, time_max: Any = None) -> Any:
        return {day: len(visits) for day, visits in self._by_day(time_min, time_max).items()}

    def engaged_users_count(self, time_min: Any = None, time_max: Any = None) -> Any:
        by_day = self._by_day(time_min, time_max)
        return {day: sum(one["user_engaged"] for one in visits) for day, visits in by_day.items()}

    def traffic_source_count(self, time_min: Any = None, time_max: Any = None, traffic_source: Any = None) -> Any:
        by_day = self._by_day(time_min, time_max)
        if not traffic_source:
            return {day: len(visits) for day, visits in by_day.items()}
        return {day: sum(one["traffic_source"] == traffic_source for one in visits) for day, visits in by_day.items()}

    def get_average_session_duration(self, time_min: Any = None, time_max: Any = None) -> Any:
        by_day = self._by_day(time_min, time_max)
        return {
            day: sum(float(one["session_duration_seconds"]) for one in visits) / len(visits)
            for day, visits in by_day.items()
        }

    def _by_day(self, time_min: Any, time_max: Any) -> dict[str, list[Row]]:
        days: dict[str, list[Row]] = defaultdict(list)
        for one in self._office.seed.visits:
            day = one["date_of_visit"]
            if (not time_min or day >= time_min) and (not time_max or day <= time_max):
                days[day].append(one)
        return dict(sorted(days.items()))
