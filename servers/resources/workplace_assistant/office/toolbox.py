"""Tools by their flat names. A call never raises: an error in the arguments is a text for the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from office.customers import CustomerRelationshipManagerTool
from office.desk import Office
from office.diary import CalendarTool
from office.mail import CompanyDirectoryTool, EmailTool
from office.schemas import SPECS
from office.tasks import ProjectManagementTool
from office.visits import AnalyticsTool

# Their names stand in what a model reads about an argument that a tool does not have.
Toolkit = (
    CompanyDirectoryTool
    | EmailTool
    | CalendarTool
    | AnalyticsTool
    | ProjectManagementTool
    | CustomerRelationshipManagerTool
)
_KITS: Mapping[str, type[Toolkit]] = {
    "company_directory": CompanyDirectoryTool,
    "email": EmailTool,
    "calendar": CalendarTool,
    "analytics": AnalyticsTool,
    "project_management": ProjectManagementTool,
    "customer_relationship_manager": CustomerRelationshipManagerTool,
}
_CHANGES = ("send", "delete", "forward", "reply", "create", "update", "add")


def _place_of(name: str) -> tuple[type[Toolkit], str]:
    kit = next(kit for kit in _KITS if name.startswith(f"{kit}_"))
    return _KITS[kit], name.removeprefix(f"{kit}_")


PLACES = {name: _place_of(name) for name in SPECS}
CHANGING = frozenset(name for name, (_, method) in PLACES.items() if method.startswith(_CHANGES))


def run_tool(office: Office, name: str, arguments: Mapping[str, Any]) -> Any:
    try:
        kit, method = PLACES[name]
        return getattr(kit(office), method)(**arguments)
    except Exception as error:  # noqa: BLE001 (a model's arguments may break anything, and it is to read how)
        return f"Error executing tool '{name}': {error}"
