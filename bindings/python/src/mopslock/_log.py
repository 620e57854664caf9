"""The package's logger. Handlers, filters and what they format are the user's, and may raise anything: that costs a
line of the log, and never a thread on which leases depend."""

from __future__ import annotations

import logging
import threading
from typing import Any


def is_interrupt(error: BaseException) -> bool:
    """Whether it may be the main thread's, such as Ctrl-C, and not the fault of what was called."""
    return not isinstance(error, Exception) and threading.current_thread() is threading.main_thread()


class Log:
    """logging's ``mopslock``."""

    def __init__(self) -> None:
        self._logger = logging.getLogger("mopslock")

    def is_enabled(self, level: int) -> bool:
        """Whether anybody wants lines of this level."""
        return self._logger.isEnabledFor(level)

    def debug(self, text: str, *given: object, **more: Any) -> None:
        """As logging's."""
        self._write(logging.DEBUG, text, given, more)

    def info(self, text: str, *given: object, **more: Any) -> None:
        """As logging's."""
        self._write(logging.INFO, text, given, more)

    def warning(self, text: str, *given: object, **more: Any) -> None:
        """As logging's."""
        self._write(logging.WARNING, text, given, more)

    def error(self, text: str, *given: object, **more: Any) -> None:
        """As logging's."""
        self._write(logging.ERROR, text, given, more)

    def exception(self, text: str, *given: object) -> None:
        """As logging's."""
        self._write(logging.ERROR, text, given, {"exc_info": True})

    def _write(self, level: int, text: str, given: tuple[object, ...], more: dict[str, Any]) -> None:
        try:
            self._logger.log(level, text, *given, stacklevel=3, **more)
        except BaseException as error:
            if is_interrupt(error):
                raise


log = Log()
