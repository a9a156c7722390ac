"""One module a command: parse, load, plan, call, print."""
