from hypothesis import settings

from tests.fuzz.budget import LONG

settings.register_profile(LONG)
