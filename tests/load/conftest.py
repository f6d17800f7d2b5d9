from tests.api.conftest import log

__all__ = ["log"]
