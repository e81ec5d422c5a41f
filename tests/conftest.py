"""Settings that hold for every test: properties are the same in every run."""

from hypothesis import settings

settings.register_profile("sotto", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("sotto")
