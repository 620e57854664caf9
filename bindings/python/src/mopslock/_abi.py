"""mopslock.h in ctypes: structs, codes, and the functions of the host. A test compares the numbers with the header."""

from __future__ import annotations

import ctypes
from ctypes import (
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)  # fmt: skip
from enum import IntEnum
from functools import cache
from typing import Any

from . import _texts, errors
from ._library import Library, declare
from ._units import SECOND
from .status import PermitHolder, Status, instant
from .terms import Terms

TRY = -1


class Code(IntEnum):
    """enum mopslock_code."""

    OK = 0
    EINVAL = -1
    EHANDLE = -2
    ESHORT = -3
    EFORKED = -4
    ECONTRACT = -16
    EHELD = -32
    ETIMEOUT = -33
    ECANCELLED = -34
    ECLOSED = -35
    ELOST = -36
    EENDED = -37
    ECANNOT_MAINTAIN = -38
    EUNAUTHORIZED = -39
    ENOSTORE = -40
    EUNREACHABLE = -41
    ESTORE = -42
    EENGINE = -43
    EUNFIT = -44
    EVACANT = -45
    ESTALE = -46
    EUNKNOWN = -47
    ENORESULT = -48
    EFULL = -49
    ETOO_HEAVY = -50
    ECROWDED = -51
    EOUT_OF_BUCKETS = -52


REASONS = {
    0: "", 1: "taken", 2: "broken", 3: "released", 4: "unreachable", 5: "expired",
    16: "held", 17: "raced", 18: "cancelled", 19: "unusable", 20: "limit",
    21: "newer", 22: "kind", 23: "vacant",
    24: "full", 25: "too_heavy", 26: "crowded", 27: "out_of_buckets",
    32: "absent", 33: "no_expiry", 34: "never_acquired", 35: "unreadable",
    40: "failed", 41: "no_create", 42: "no_session", 43: "terms",
    48: "ttl_differs", 49: "corrupt_taken", 50: "emptied", 51: "mixed", 52: "lock_file",
}  # fmt: skip
"""enum mopslock_reason."""

STORE_CLASSES = (
    "", "other", "unreachable", "throttled", "unauthorized", "no_such_store", "read_only", "full", "unsupported",
)  # fmt: skip
"""enum mopslock_class."""

STATES = ("", "vacant", "held", "stale", "released", "broken", "corrupt")
"""enum mopslock_state."""


PROTOCOLS = ("auto", "lastwriter", "strict")
"""enum mopslock_protocol."""

MOST_GUARDED = 64512
"""MOPSLOCK_GUARDED_MAX."""


class EventKind(IntEnum):
    """enum mopslock_event_kind."""

    NONE = 0
    CALL = 1
    ENDED = 2
    WAITING = 3


class OpenOptions(Structure):
    """mopslock_open_options."""

    _fields_ = (
        ("size", c_size_t), ("engine", c_char_p), ("timeout_ns", c_int64), ("in_flight", c_int32),
        ("reserved", c_int32),
    )  # fmt: skip


class RawStatus(Structure):
    """mopslock_status."""

    _fields_ = (
        ("size", c_size_t), ("state", c_int32), ("companion", c_int32), ("ttl_ns", c_int64), ("age_ns", c_int64),
        ("left_ns", c_int64), ("acquired_ns", c_int64), ("written_ns", c_int64), ("released_ns", c_int64),
        ("holder", c_char * 513), ("host", c_char * 257), ("pid", c_char * 257),
        ("epoch", c_uint64), ("token", c_uint64), ("protocol", c_int32), ("store_clock", c_int32),
        ("companions", c_char * 513), ("label", c_char * 129), ("session", c_char * 257), ("why", c_char * 513),
        ("by", c_char * 513),
        ("capacity", c_uint32), ("width", c_uint32), ("held", c_uint64), ("limit", c_uint64), ("holders", c_uint64),
    )  # fmt: skip


class Options(Structure):
    """mopslock_options."""

    _fields_ = (
        ("size", c_size_t), ("ttl_ns", c_int64), ("margin_ns", c_int64), ("acquire_margin_ns", c_int64),
        ("fleet_expire_ns", c_int64), ("blind", c_int32), ("observed", c_int32), ("wait_ns", c_int64),
        ("timeout_ns", c_int64), ("cancel", c_uint64), ("seen", POINTER(RawStatus)),
        ("protocol", c_int32), ("session", c_int32), ("label", c_char_p),
        ("memo_failures", c_int32), ("without_lease", c_int32),
        ("capacity", c_uint32), ("width", c_uint32), ("weight", c_uint32), ("spare", c_uint32),
    )  # fmt: skip


class BreakOptions(Structure):
    """mopslock_break_options."""

    _fields_ = (
        ("size", c_size_t), ("why", c_char_p), ("now", c_int32), ("protocol", c_int32), ("timeout_ns", c_int64),
        ("seen", POINTER(RawStatus)), ("holder", c_char_p),
    )  # fmt: skip


class RawSlot(Structure):
    """mopslock_slot."""

    _fields_ = (
        ("size", c_size_t), ("number", c_uint64), ("token", c_uint64), ("written", c_uint64), ("stamp_ns", c_int64),
        ("holder", c_char * 513), ("nonce", c_char * 65),
    )  # fmt: skip


class RawResult(Structure):
    """mopslock_result."""

    _fields_ = (("size", c_size_t), ("failed", c_int32), ("own", c_int32), ("key", c_char * 641))


class Event(Structure):
    """mopslock_event."""

    _fields_ = (
        ("size", c_size_t), ("kind", c_int32), ("code", c_int32), ("reason", c_int32), ("store_class", c_int32),
        ("call", c_uint64), ("member", c_uint64), ("left_ns", c_int64), ("seen", POINTER(RawStatus)),
        ("text", c_char * 1024), ("held", c_uint64),
    )  # fmt: skip


class RawHolder(Structure):
    """mopslock_permit_holder."""

    _fields_ = (
        ("size", c_size_t), ("weight", c_uint64), ("stale", c_int32), ("reserved", c_int32), ("id", c_char * 513),
        ("session", c_char * 257), ("host", c_char * 257), ("pid", c_char * 257), ("label", c_char * 129),
    )  # fmt: skip


VISIT_HOLDER = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(RawHolder))
"""mopslock_visit_holder."""

VISIT = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, POINTER(RawStatus), c_int)
"""mopslock_visit."""


class Api:
    """The host's functions of one loaded library. Those that can wait release the GIL; the others keep it."""

    def __init__(self, library: Library) -> None:
        waits, quick = library.lets_go, library.keeps_gil
        out = c_void_p
        self.open: Any = declare(waits.mopslock_open, c_char_p, POINTER(OpenOptions), out)
        self.close: Any = declare(waits.mopslock_close, c_uint64, c_int64)
        self.next: Any = declare(waits.mopslock_next, c_uint64, c_int64, out)
        self.check: Any = declare(waits.mopslock_check, c_uint64)
        self.inspect: Any = declare(waits.mopslock_inspect, c_uint64, c_char_p, c_int64, out)
        h, s, n = c_uint64, c_char_p, c_size_t
        self.break_lease: Any = declare(waits.mopslock_break, c_uint64, c_char_p, out)
        self.guarded_read: Any = declare(waits.mopslock_guarded_read, h, s, c_int64, out, n, out, out)
        self.guarded_raise: Any = declare(waits.mopslock_guarded_raise, h, s, h, s, c_int64, out, n, out, out)
        self.guarded_write: Any = declare(waits.mopslock_guarded_write, h, s, h, s, s, n, c_int64, out)
        self.guarded_update: Any = declare(waits.mopslock_guarded_update, h, s, h, s, s, n, s, n, c_int64, out)
        self.create_once: Any = declare(waits.mopslock_create_once, h, s, h, s, s, n, c_int64, out, out)
        self.read_once: Any = declare(waits.mopslock_read_once, h, s, c_int64, out, n, out, out)
        self.token: Any = declare(quick.mopslock_fencing_token, c_uint64, out)
        self.epoch: Any = declare(quick.mopslock_epoch, c_uint64, out)
        self.protocol: Any = declare(quick.mopslock_protocol, c_uint64, out)
        self.session: Any = declare(quick.mopslock_session, c_uint64, c_char_p, c_size_t, out)
        self.list: Any = declare(waits.mopslock_list, c_uint64, c_char_p, c_int64, VISIT, out)
        self.begin_acquire: Any = declare(quick.mopslock_begin_acquire, c_uint64, c_char_p, out, out)
        self.begin_accompany: Any = declare(quick.mopslock_begin_accompany, c_uint64, c_char_p, out, out)
        self.begin_release: Any = declare(quick.mopslock_begin_release, c_uint64, c_int64, out)
        self.begin_leave: Any = declare(quick.mopslock_begin_leave, c_uint64, c_int64, out)
        self.invoke: Any = declare(quick.mopslock_invoke, c_uint64, c_char_p, out, out)
        self.remote: Any = declare(quick.mopslock_remote, c_uint64, c_char_p, c_char_p, out, out)
        self.begin_work: Any = declare(quick.mopslock_begin_work, c_uint64, out)
        self.ended: Any = declare(waits.mopslock_ended, c_uint64, c_int, c_char_p, c_size_t, c_char_p)
        self.result: Any = declare(quick.mopslock_invocation_result, c_uint64, out)
        self.result_open: Any = declare(waits.mopslock_result_open, c_uint64, c_int64, out, out)
        self.result_read: Any = declare(waits.mopslock_result_read, c_uint64, c_int64, out, c_size_t, out)
        self.result_close: Any = declare(quick.mopslock_result_close, c_uint64)
        self.begin_invocation_close: Any = declare(quick.mopslock_begin_invocation_close, c_uint64, c_int64, out)
        self.begin_permit: Any = declare(quick.mopslock_begin_permit, h, s, out, out)
        self.permit_total: Any = declare(quick.mopslock_permit_total, h, out)
        self.set_limit: Any = declare(waits.mopslock_set_limit, h, s, h, c_int64)
        self.inspect_holders: Any = declare(waits.mopslock_inspect_holders, h, s, c_int64, out, VISIT_HOLDER, out)
        self.cancel_new: Any = declare(quick.mopslock_cancel_new, out)
        self.cancel: Any = declare(quick.mopslock_cancel, c_uint64)
        self.cancel_free: Any = declare(quick.mopslock_cancel_free, c_uint64)
        self.left: Any = declare(quick.mopslock_left, c_uint64, out)
        self.holder: Any = declare(quick.mopslock_holder, c_uint64, c_char_p, c_size_t, out)
        self.lease_text: Any = declare(quick.mopslock_lease_text, c_uint64, c_char_p, c_size_t, out)
        self.last_reason: Any = declare(quick.mopslock_last_reason)
        self.last_class: Any = declare(quick.mopslock_last_class)
        self.last_error: Any = declare(quick.mopslock_last_error, c_char_p, c_size_t)

    def open_store(self, url: str, timeout_ns: int) -> int:
        """A host's handle."""
        handle = c_uint64()
        options = OpenOptions(size=ctypes.sizeof(OpenOptions), timeout_ns=timeout_ns)
        code = self.open(_texts.encode("store", url), ctypes.byref(options), ctypes.byref(handle))
        if code != Code.OK:
            raise self.error(code, "")
        return handle.value

    def options(self, terms: Terms) -> Options:
        """Terms as the library takes them."""
        fields = terms.config()
        ttl_ns = fields["ttl_ns"] if terms.ttl is not None else 0
        return Options(
            size=ctypes.sizeof(Options),
            ttl_ns=ttl_ns,
            margin_ns=fields.get("margin_ns", 0),
            acquire_margin_ns=terms.acquire_margin_ns(),
            fleet_expire_ns=terms.fleet_expire_ns(),
            blind=terms.renewal == "blind",
            observed=terms.expiry == "observed",
            protocol=PROTOCOLS.index(terms.protocol),
            session=terms.session,
            label=_texts.encode("label", terms.label),
        )

    def new_cancel(self) -> int:
        """A handle that ends calls under way."""
        handle = c_uint64()
        code = self.cancel_new(ctypes.byref(handle))
        if code != Code.OK:
            raise self.error(code, "")
        return handle.value

    def left_of(self, handle: int) -> int:
        """Nanoseconds that a handle may be relied on; 0 when it is gone."""
        left = c_int64()
        return left.value if self.left(handle, ctypes.byref(left)) == Code.OK else 0

    def number_of(self, function: Any, handle: int) -> int | None:
        """A number of a handle's; None when it is gone."""
        found = c_uint64()
        return found.value if function(handle, ctypes.byref(found)) == Code.OK else None

    def text_of(self, function: Any, handle: int) -> str:
        """A text of a handle's, by the function that writes it."""
        size = 1024
        while True:
            buffer, length = ctypes.create_string_buffer(size), c_size_t()
            code = function(handle, buffer, size, ctypes.byref(length))
            if code == Code.OK:
                return buffer.value.decode()
            if code != Code.ESHORT:
                raise self.error(code, "")
            size = length.value

    def raw_status(self) -> RawStatus:
        """Memory for a status."""
        return RawStatus(size=ctypes.sizeof(RawStatus))

    def event(self) -> tuple[Event, RawStatus]:
        """Memory for an event, and for its status."""
        seen = self.raw_status()
        return Event(size=ctypes.sizeof(Event), seen=ctypes.pointer(seen)), seen

    def status_of(self, name: str, raw: RawStatus, holders: tuple[PermitHolder, ...] = ()) -> Status:
        """A status that outlives the library's."""
        return Status(
            name=name,
            state=STATES[raw.state],
            holder=raw.holder.decode(),
            host=raw.host.decode(),
            pid=raw.pid.decode(),
            companion=bool(raw.companion),
            ttl=max(0, raw.ttl_ns) / SECOND,
            age=raw.age_ns / SECOND,
            left=raw.left_ns / SECOND,
            acquired=instant(raw.acquired_ns),
            written=instant(raw.written_ns),
            released=instant(raw.released_ns),
            protocol=PROTOCOLS[raw.protocol] if raw.protocol else "",
            epoch=raw.epoch,
            token=raw.token,
            companions=tuple(raw.companions.decode().split(",")) if raw.companions else (),
            label=raw.label.decode(),
            session=raw.session.decode(),
            why=raw.why.decode(),
            by=raw.by.decode(),
            clock="store" if raw.store_clock else "local",
            capacity=raw.capacity,
            width=raw.width,
            permits=raw.held,
            limit=raw.limit,
            holders=holders,
        )

    @staticmethod
    def holder_of(raw: RawHolder) -> PermitHolder:
        """A permit's holder that outlives the library's."""
        return PermitHolder(
            raw.id.decode(), raw.session.decode(), raw.weight, raw.host.decode(), raw.pid.decode(), raw.label.decode(),
            stale=bool(raw.stale),
        )  # fmt: skip

    def error(self, code: int, name: str) -> errors.MopslockError:
        """The error of this thread's latest call."""
        buffer = ctypes.create_string_buffer(1024)
        self.last_error(buffer, len(buffer))
        return make_error(code, self.last_reason(), buffer.value.decode(), name, None, store_class=self.last_class())

    def error_of(self, event: Event, name: str) -> errors.MopslockError:
        """The error of an event."""
        seen = None
        if event.seen and event.seen.contents.state:
            seen = self.status_of(name, event.seen.contents)
        return make_error(event.code, event.reason, event.text.decode(), name, seen, store_class=event.store_class)


@cache
def api(library: Library) -> Api:
    """The functions of a library, looked up once."""
    return Api(library)


def make_error(
    code: int, reason: int, text: str, name: str, seen: Status | None, *, store_class: int = 0
) -> errors.MopslockError:
    """The class for a code, with the library's own text."""
    why = REASONS.get(reason, "")
    match code:
        case Code.EINVAL:
            return errors.BadArgument(text)
        case Code.EHELD:
            return errors.Held(text, reason=why, seen=seen)
        case Code.ETIMEOUT:
            return errors.WaitOver(text, reason=why or "limit", seen=seen)
        case Code.ECANCELLED:
            return errors.Cancelled(text, reason=why)
        case Code.ELOST:
            return errors.LOST.get(why, errors.LeaseLost)(text, reason=why, seen=seen)
        case Code.EENDED:
            return _texts.ended(name)
        case Code.ECLOSED | Code.EHANDLE:
            return _texts.closed()
        case Code.ENORESULT:
            return errors.NoResult(text, reason=why or "none", seen=seen)
        case Code.ECANNOT_MAINTAIN:
            return errors.NothingToJoin(text, reason=why)
        case Code.EUNAUTHORIZED:
            return errors.Unauthorized(text, reason=why, seen=seen)
        case Code.ENOSTORE:
            return errors.NoSuchStore(text, reason=why, seen=seen)
        case Code.EUNREACHABLE:
            return errors.Unreachable(text, reason=why, seen=seen)
        case Code.ESTORE:
            return errors.error_class(STORE_CLASSES[store_class])(text, reason=why, seen=seen)
        case Code.EUNFIT:
            return errors.Incompatible(text, reason=why, seen=seen)
        case Code.EFULL:
            return errors.Full(text, reason=why, seen=seen, held=seen.permits if seen else 0)
        case Code.ETOO_HEAVY:
            return errors.WeightExceedsLimit(text)
        case Code.ECROWDED:
            return errors.RecordFull(text, reason=why, seen=seen)
        case Code.EOUT_OF_BUCKETS:
            return errors.OutOfBuckets(text)
        case Code.EVACANT:
            return errors.Vacant(text, reason=why, seen=seen)
        case Code.ESTALE:
            return errors.Stale(text)
        case Code.EUNKNOWN:
            return errors.Unsettled(text)
        case Code.EFORKED:
            return _texts.forked(name)
    return errors.EngineFailed(text or f"mopslock: code {code}")
