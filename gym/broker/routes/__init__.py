"""What the broker answers over HTTP: sandboxes, commands, files, builds, terminals."""
