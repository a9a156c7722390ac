"""The tools of the project board."""

from __future__ import annotations

import re
from typing import Any

from office.desk import Office
from office.matching import contains

LISTS = ("Backlog", "In Progress", "In Review", "Completed")
BOARDS = ("Back end", "Front end", "Design")
_BAD_LIST = f"List not valid. Please choose from: {', '.join(map(repr, LISTS))}."
_BAD_BOARD = f"Board not valid. Please choose from: {', '.join(map(repr, BOARDS))}."
_BAD_ASSIGNEE = "Assignee email not valid. Please choose from the list of team members."
_ADDRESS = re.compile(r"[\w.%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}\n?", re.ASCII)


class ProjectManagementTool:
    def __init__(self, office: Office) -> None:
        self._office = office

    def get_task_information_by_id(self, task_id: Any = None, field: Any = None) -> Any:
        if not task_id:
            return "Task ID not provided."
        if not field:
            return "Field not provided."
        task = self._office.tasks.find("task_id", task_id)
        if task is None:
            return "Task not found."
        return {field: task[field]} if field in task else "Field not found."

    def search_tasks(
        self,
        task_name: Any = None,
        assigned_to_email: Any = None,
        list_name: Any = None,
        due_date: Any = None,
        board: Any = None,
    ) -> Any:
        """The assignee is compared whole, everything else by what it contains."""
        if not any([task_name, assigned_to_email, list_name, due_date, board]):
            return "No search parameters provided."
        found = list(self._office.tasks.rows)
        if assigned_to_email:
            if not _ADDRESS.fullmatch(assigned_to_email):
                return "Invalid email format for assigned_to_email."
            found = [one for one in found if _lowered(one["assigned_to_email"]) == assigned_to_email.lower()]
        wanted = {"task_name": task_name, "list_name": list_name, "due_date": due_date, "board": board}
        for column, pattern in wanted.items():
            if pattern:
                matches = contains(pattern)
                found = [one for one in found if matches(one[column])]
        return found

    def create_task(
        self,
        task_name: Any = None,
        assigned_to_email: Any = None,
        list_name: Any = None,
        due_date: Any = None,
        board: Any = None,
    ) -> Any:
        if not all([task_name, assigned_to_email, list_name, due_date, board]):
            return "Missing task details."
        assignee = assigned_to_email.lower()
        if not self._is_assignee(assignee):
            return _BAD_ASSIGNEE
        if list_name not in LISTS:
            return _BAD_LIST
        if board not in BOARDS:
            return _BAD_BOARD
        tasks = self._office.tasks
        task_id = str(int(tasks.last_id("task_id")) + 1).zfill(8)
        task = {
            "task_id": task_id,
            "task_name": task_name,
            "assigned_to_email": assignee,
            "list_name": list_name,
            "due_date": due_date,
            "board": board,
        }
        self._office.tasks = tasks.append(task)
        return task_id

    def delete_task(self, task_id: Any = None) -> Any:
        if not task_id:
            return "Task ID not provided."
        if not self._office.tasks.has("task_id", task_id):
            return "Task not found."
        self._office.tasks = self._office.tasks.delete("task_id", task_id)
        return "Task deleted successfully."

    def update_task(self, task_id: Any = None, field: Any = None, new_value: Any = None) -> Any:
        if not task_id or not field or not new_value:
            return "Task ID, field, or new value not provided."
        if field == "assigned_to_email":
            new_value = new_value.lower()
        if field == "board" and new_value not in BOARDS:
            return _BAD_BOARD
        if field == "list_name" and new_value not in LISTS:
            return _BAD_LIST
        if field == "assigned_to_email" and not self._is_assignee(new_value):
            return _BAD_ASSIGNEE
        tasks = self._office.tasks
        if not tasks.has("task_id", task_id):
            return "Task not found."
        if field not in tasks.columns:
            return "Field not valid."
        self._office.tasks = tasks.update("task_id", task_id, field, new_value)
        return "Task updated successfully."

    def _is_assignee(self, address: str) -> bool:
        """True when a task is assigned to this address."""
        return any(_lowered(one["assigned_to_email"]) == address for one in self._office.tasks.rows)


def _lowered(cell: Any) -> Any:
    return cell.lower() if isinstance(cell, str) else None
