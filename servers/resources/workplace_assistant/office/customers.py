"""The tools of the customer list."""

from __future__ import annotations

from typing import Any

from office.desk import Office
from office.matching import contains
from office.paging import page_of
from office.table import Row

STATUSES = ("Qualified", "Won", "Lost", "Lead", "Proposal")
PRODUCTS = ("Software", "Hardware", "Services", "Consulting", "Training")
_FIELDS = (
    *("customer_name", "assigned_to_email", "customer_email", "customer_phone", "last_contact_date"),
    *("product_interest", "status", "notes", "follow_up_by"),
)


def _choices(names: tuple[str, ...]) -> str:
    return f"Please choose from: {', '.join(map(repr, names))}"


class CustomerRelationshipManagerTool:
    def __init__(self, office: Office) -> None:
        self._office = office

    def search_customers(
        self,
        customer_name: Any = None,
        customer_email: Any = None,
        product_interest: Any = None,
        status: Any = None,
        assigned_to_email: Any = None,
        last_contact_date_min: Any = None,
        last_contact_date_max: Any = None,
        follow_up_by_min: Any = None,
        follow_up_by_max: Any = None,
        page: Any = 1,
        page_size: Any = 5,
    ) -> Any:
        """Dates are compared as text: a bare day as upper bound leaves out that day, whose cells go on with a time."""
        texts = {
            "customer_name": customer_name,
            "customer_email": customer_email,
            "product_interest": product_interest,
            "status": status,
            "assigned_to_email": assigned_to_email,
        }
        bounds = {
            "last_contact_date": (last_contact_date_min, last_contact_date_max),
            "follow_up_by": (follow_up_by_min, follow_up_by_max),
        }
        if not any(texts.values()) and not any(one for pair in bounds.values() for one in pair):
            return "No search parameters provided. Please provide at least one parameter."
        found = list(self._office.customers.rows)
        for column, pattern in texts.items():
            if pattern:
                matches = contains(pattern)
                found = [one for one in found if matches(one[column])]
        for column, (lowest, highest) in bounds.items():
            found = [one for one in found if _within(one, column, lowest, highest)]
        reply = page_of(found, "customers", page, page_size)
        return reply if found else "No customers found."

    def update_customer(self, customer_id: Any = None, field: Any = None, new_value: Any = None) -> Any:
        if not customer_id or not field or not new_value:
            return "Customer ID, field, or new value not provided."
        if field == "status" and new_value not in STATUSES:
            return f"Status not valid. {_choices(STATUSES)}"
        if field == "product_interest" and new_value not in PRODUCTS:
            return f"Product interest not valid. {_choices(PRODUCTS)}"
        if field in ("customer_email", "assigned_to_email"):
            new_value = new_value.lower()
        customers = self._office.customers
        if not customers.has("customer_id", customer_id):
            return "Customer not found."
        if field not in customers.columns:
            return f"Field not valid. {_choices(_FIELDS)}"
        self._office.customers = customers.update("customer_id", customer_id, field, new_value)
        return "Customer updated successfully."

    def add_customer(
        self,
        customer_name: Any = None,
        assigned_to_email: Any = None,
        status: Any = None,
        customer_email: Any = None,
        customer_phone: Any = None,
        last_contact_date: Any = None,
        product_interest: Any = None,
        notes: Any = "",
        follow_up_by: Any = None,
    ) -> Any:
        """Status and product are taken as they come: only an update looks at them."""
        if not all([customer_name, assigned_to_email, status]):
            return "Please provide all required fields: customer_name, assigned_to_email, status."
        customers = self._office.customers
        customer_id = str(int(customers.last_id("customer_id")) + 1).zfill(8)
        given = {
            "customer_id": customer_id,
            "customer_name": customer_name,
            "customer_email": customer_email.lower() if customer_email else customer_email,
            "customer_phone": customer_phone,
            "last_contact_date": last_contact_date,
            "product_interest": product_interest,
            "status": status,
            "assigned_to_email": assigned_to_email.lower(),
            "notes": notes,
            "follow_up_by": follow_up_by,
        }
        self._office.customers = customers.append({column: given.get(column) for column in customers.columns})
        return customer_id

    def delete_customer(self, customer_id: Any = None) -> Any:
        if not customer_id:
            return "Customer ID not provided."
        if not self._office.customers.has("customer_id", customer_id):
            return "Customer not found."
        self._office.customers = self._office.customers.delete("customer_id", customer_id)
        return "Customer deleted successfully."


def _within(row: Row, column: str, lowest: Any, highest: Any) -> bool:
    cell = row[column]
    if lowest and (cell is None or not cell >= lowest):
        return False
    return not (highest and (cell is None or not cell <= highest))
