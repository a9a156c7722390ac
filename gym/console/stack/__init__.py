"""The Stack page: servers, their traffic and use, what is held back, sandboxes, logs, who calls whom."""
