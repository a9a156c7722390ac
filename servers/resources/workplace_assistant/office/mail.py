"""The tools of the mailbox and of the company's directory."""

from __future__ import annotations

from typing import Any

from office.dates import read_time
from office.desk import NOW, Office
from office.matching import contains
from office.paging import page_of
from office.table import Row

_INVALID = "Invalid recipient email address."
_SENT = "Email sent successfully."


class CompanyDirectoryTool:
    def __init__(self, office: Office) -> None:
        self._office = office

    def find_email_address(self, name: Any = "") -> Any:
        if name == "":
            return "Name not provided."
        matches = contains(name.lower())
        return [address for address in self._office.seed.addresses if matches(address)]


class EmailTool:
    def __init__(self, office: Office) -> None:
        self._office = office

    def get_email_information_by_id(self, email_id: Any = None, field: Any = None) -> Any:
        if not email_id:
            return "Email ID not provided."
        if not field:
            return "Field not provided."
        email = self._office.emails.find("email_id", email_id)
        if email is None:
            return "Email not found."
        if field not in email:
            return f"Field '{field}' not found. Available fields: {', '.join(email)}"
        return {field: email[field]}

    def search_emails(
        self, query: Any = "", date_min: Any = None, date_max: Any = None, page: Any = 1, page_size: Any = 5
    ) -> Any:
        try:
            return self._search(query, date_min, date_max, page, page_size)
        except Exception as error:  # noqa: BLE001 (whatever the arguments break is for the model to read)
            return f"Error searching emails: {error}"

    def send_email(self, recipient: Any = None, subject: Any = None, body: Any = None) -> Any:
        if not recipient or not subject or not body:
            return "Recipient, subject, or body not provided."
        if not _is_address(recipient):
            return _INVALID
        try:
            emails = self._office.emails
            email = {
                "email_id": str(int(emails.last_id("email_id")) + 1) if len(emails) else "1",  # without zeros in front
                "inbox/outbox": "outbox",
                "sender/recipient": recipient.lower(),
                "subject": subject,
                "sent_datetime": NOW,
                "body": body,
            }
        except Exception as error:  # noqa: BLE001 (as above)
            return f"Error sending email: {error}"
        self._office.emails = emails.append(email)
        return _SENT

    def delete_email(self, email_id: Any = None) -> Any:
        if not email_id:
            return "Email ID not provided."
        if not self._office.emails.has("email_id", email_id):
            return "Email not found."
        self._office.emails = self._office.emails.delete("email_id", email_id)
        return "Email deleted successfully."

    def forward_email(self, email_id: Any = None, recipient: Any = None) -> Any:
        if not email_id or not recipient:
            return "Email ID or recipient not provided."
        if not _is_address(recipient):
            return _INVALID
        email = self._office.emails.find("email_id", email_id)
        if email is None:
            return "Email not found."
        return self._pass_on(recipient, f"FW: {email['subject']}", email["body"], "Email forwarded successfully.")

    def reply_email(self, email_id: Any = None, body: Any = None) -> Any:
        if not email_id or not body:
            return "Email ID or body not provided."
        email = self._office.emails.find("email_id", email_id)
        if email is None:
            return "Email not found."
        return self._pass_on(email["sender/recipient"], f"RE: {email['subject']}", body, "Email replied successfully.")

    def _pass_on(self, recipient: Any, subject: str, body: Any, done: str) -> Any:
        reply = self.send_email(recipient, subject, body)
        return reply if "Error" in reply or "Invalid" in reply else done

    def _search(self, query: Any, date_min: Any, date_max: Any, page: Any, page_size: Any) -> Any:
        words = query.lower().split()
        found = [email for email in self._office.emails.rows if _holds(email, words)]
        found.sort(key=lambda email: read_time(email["sent_datetime"]), reverse=True)
        if date_min:
            found = [one for one in found if read_time(one["sent_datetime"]).date() >= read_time(date_min).date()]
        if date_max:
            found = [one for one in found if read_time(one["sent_datetime"]).date() <= read_time(date_max).date()]
        reply = page_of(found, "emails", page, page_size)
        return reply if found else "No emails found."


def _is_address(recipient: Any) -> bool:
    return "@" in recipient and "." in recipient


def _holds(email: Row, words: list[str]) -> bool:
    if not words:
        return True
    text = f"{email['subject']} {email['body']} {email['sender/recipient']}".lower()
    return all(word in text for word in words)
