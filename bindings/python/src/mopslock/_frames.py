"""Errors as users see them: only one frame of ours in the traceback."""

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
OURS = tuple(folder + os.sep for folder in (os.path.dirname(__file__), f"{LIBRARY}/asyncio"))
"""The folders whose frames an error passes before it reaches the caller."""


def brief(function: Callable[P, R]) -> Callable[P, R]:
    """Shortens the traceback of the function's errors: it begins with this frame. Frames of users' code below it stay,
    such as those of launch."""
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
    """The traceback without our own first frames. It stays whole if the error is one in mopslock itself."""
    rest = error.__traceback__
    while rest is not None and rest.tb_frame.f_code.co_filename.startswith(OURS):
        rest = rest.tb_next
    told = rest is not None or (isinstance(error, MopslockError) and not isinstance(error, EngineFailed))
    return rest if told else error.__traceback__
