"""Settings of all tests: wall-clock time is never what a test asserts."""

from hypothesis import settings

settings.register_profile("evokernel", deadline=None)
settings.load_profile("evokernel")
