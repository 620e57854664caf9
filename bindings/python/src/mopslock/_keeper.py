"""A keeper in Python, for stores that a child can make anew: run as a file, and not imported.

It begins with as few modules as it can, since the first acquire waits for it. The package's own ``__init__`` is only
run if the module of a store asks the package for a name.
"""

from __future__ import annotations

import os
import signal
import sys


def bare_package(folder: str) -> None:
    """Makes the package without running its ``__init__``, which imports all of it."""
    from types import ModuleType  # noqa: PLC0415

    package = ModuleType("mopslock")
    package.__path__ = [folder]
    package.__file__ = os.path.join(folder, "__init__.py")

    def whole(name: str) -> object:
        if name.startswith("__") or os.path.exists(os.path.join(folder, name + ".py")) or name in ("_own", "mops"):
            raise AttributeError(name)  # a module of it, which the import finds
        del package.__dict__["__getattr__"]
        with open(os.path.join(folder, "__init__.py"), encoding="utf-8") as file:
            exec(compile(file.read(), file.name, "exec"), package.__dict__)
        return getattr(package, name)

    package.__dict__["__getattr__"] = whole
    sys.modules["mopslock"] = package


if __name__ == "__main__":
    if os.fork():  # the parent reaps the process that it started, and has no child
        os._exit(0)
    os.setsid()
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):  # a terminal's, for a whole group
        signal.signal(ignored, signal.SIG_IGN)
    sys.path[:] = sys.argv[3].split(os.pathsep)  # the parent's: site would take a while, and may differ
    bare_package(os.path.dirname(os.path.abspath(__file__)))
    from mopslock._own.serving import serve

    serve(int(sys.argv[1]), int(sys.argv[2]))
