"""The service that alone may make sandboxes: HTTP in front, a provider behind, leases so that nothing stays."""
