"""The default of how long a collective waits for the other processes."""

from datetime import timedelta

__all__ = ["default_pg_timeout"]

default_pg_timeout = timedelta(minutes=30)
