"""Sandboxes as pods of a Kubernetes cluster, made through its API by the broker's own service account."""
