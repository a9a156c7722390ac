"""The Environments pages: what there is of each environment, and a person as the policy of one of its rows."""
