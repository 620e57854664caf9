"""Errors as users see them: their traceback has one frame of ours."""

from __future__ import annotations

import functools
import inspect as inspection
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, cast

from .errors import EngineFailed, MopslockError

P = ParamSpec("P")
R = TypeVar("R")

LIBRARY = os.path.dirname(os.__file__)
OURS = tuple(
    folder + os.sep for folder in (os.path.dirname(__file__), f"{LIBRARY}/concurrent/futures", f"{LIBRARY}/asyncio")
)
"""Where errors come through before they are the caller's."""


def brief(function: Callable[P, R]) -> Callable[P, R]:
    """What the function raises begins with this frame. Frames of users' code below it stay, such as those of launch."""
    if inspection.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            try:
                return await function(*args, **kwargs)
            except Exception as error:
                raise error.with_traceback(_rest(error))  # noqa: B904 - the same error

        return cast("Callable[P, R]", awaited)

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            raise error.with_traceback(_rest(error))  # noqa: B904 - the same error

    return called


def _rest(error: Exception) -> TracebackType | None:
    """The traceback without its first frames that are ours, unless it is all that tells of an error in mopslock."""
    rest = error.__traceback__
    while rest is not None and rest.tb_frame.f_code.co_filename.startswith(OURS):
        rest = rest.tb_next
    told = rest is not None or (isinstance(error, MopslockError) and not isinstance(error, EngineFailed))
    return rest if told else error.__traceback__
