"""The package's logger. Handlers, filters and what they format are the user's, and may raise anything: that costs a
line of the log, and never a thread on which leases depend."""

from __future__ import annotations

import logging
import threading
from functools import partialmethod
from typing import Any


def is_interrupt(error: BaseException) -> bool:
    """Whether it may be the main thread's, such as Ctrl-C, and not the fault of what was called."""
    return not isinstance(error, Exception) and threading.current_thread() is threading.main_thread()


class Log:
    """logging's ``mopslock``, with the methods of a logger that are used here."""

    def __init__(self) -> None:
        self._logger = logging.getLogger("mopslock")
        self.is_enabled = self._logger.isEnabledFor

    def _write(self, level: int, text: str, *given: object, **more: Any) -> None:
        try:
            self._logger.log(level, text, *given, stacklevel=2, **more)
        except BaseException as error:
            if is_interrupt(error):
                raise

    debug = partialmethod(_write, logging.DEBUG)
    info = partialmethod(_write, logging.INFO)
    warning = partialmethod(_write, logging.WARNING)
    error = partialmethod(_write, logging.ERROR)
    exception = partialmethod(_write, logging.ERROR, exc_info=True)


log = Log()
