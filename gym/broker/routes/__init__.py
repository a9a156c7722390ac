"""The broker's HTTP routes: sandboxes, commands, files, builds, terminals."""
