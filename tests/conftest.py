"""What every test stands on: property tests that do not depend on how fast or how lucky the machine is today."""

from hypothesis import settings

settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")
