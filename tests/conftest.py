"""Properties here are the same on every run and are not judged by how long one example took."""

from hypothesis import settings

settings.register_profile("core", derandomize=True, deadline=None)
settings.load_profile("core")
