import json
import pathlib
import sys

# Not counted again from the log: the agent may have changed it.
expected = json.loads(pathlib.Path(__file__).with_name("expected.json").read_text())
assert json.loads(pathlib.Path(sys.argv[1]).read_text()) == expected, "the report is wrong"
