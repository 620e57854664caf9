"""python3 host.py TTL DIR NAME CMD...: run CMD under the lease NAME, kept in DIR, for TTL seconds from each renewal.
A host in 60 lines, a model for other languages: mopslock-host step decides, this does the I/O and reads the clocks, as
bindings/README.md says. The status is CMD's (127: no such command), 75 if the lease was not acquired, 76 if it was lost."""
import base64, json, os, pathlib, queue, secrets, select, signal, socket, subprocess, sys, threading, time
def mono(): return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))  # also counts sleep
def perform(root, action, limit, inbox):  # an outcome that the store has not told is unknown
    answer, path = {"kind": "answer", "request": action["request"], "outcome": "yes"}, pathlib.Path(root, action["key"])
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        if action["kind"] == "get":
            with path.open("rb") as file:
                answer["body"] = base64.b64encode(file.read(65537)).decode()
        else:
            action.get("overwrites") or path.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_bytes(base64.b64decode(action["body"]))
            if mono() >= limit: raise TimeoutError  # too late: the name may be another's by now
            fresh.replace(path)  # whole, and at once
    except OSError as error:
        may_be_no = action["kind"] == "get" or action.get("overwrites")  # which does not make again what was removed
        answer["outcome"] = "no" if may_be_no and isinstance(error, FileNotFoundError) else "unknown"
        if os.path.exists(fresh): fresh.unlink()
    inbox.put(answer)
def main(ttl, root, name, *argv):
    inbox, command, wake, deadline, limits, answer = queue.SimpleQueue(), None, sys.maxsize, sys.maxsize, {}, {}
    step = subprocess.Popen(["mopslock-host", "step"], stdin=-1, stdout=-1, text=True, start_new_session=True)
    def tell(message):  # waits until the deadline at most: a step that does not answer, or is gone, is the end
        print(json.dumps(message), file=step.stdin, flush=True)
        while not (ready := select.select([step.stdout], [], [], 0.1)[0]) and mono() < deadline: pass  # counts sleep
        answer = json.loads(ready and step.stdout.readline() or '{"idle": true}')
        return answer if "error" not in answer else sys.exit(f"step: {answer['text']}")
    tell({"machine": "lease", "protocol": "lastwriter", "name": name, "ttl_ns": int(float(ttl) * 1e9),
          "acquire_margin_ns": 1_000_000_000,  # longer than two requests on a bad day: without it a slow host lets two hold the name
          "host": socket.gethostname(), "seed": base64.b64encode(secrets.token_bytes(16)).decode()})
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda n, _: command.send_signal(n) if command else inbox.put({"kind": "cancel"}))
    inbox.put({"kind": "acquire", "wait_ns": -1})
    try:
        while not answer.get("idle"):
            try:  # once a second at least, because Python's own waits do not count a sleep of the machine
                event = inbox.get(timeout=max(0, min(wake, mono() + 10**9, *limits.values()) - mono()) / 1e9)
            except queue.Empty:
                late = [request for request, limit in limits.items() if mono() >= limit]
                event = {"kind": "answer", "request": late[0], "outcome": "unknown"} if late else {"kind": "woke"}
            limits.pop(event.get("request"), None)
            answer = tell({"mono": mono(), "wall": time.time_ns(), **event})
            at = {action["kind"]: action["at_ns"] for action in answer.get("actions", []) if "at_ns" in action}
            wake, deadline = at.pop("wake", sys.maxsize), min(at.values(), default=deadline)
            for action in answer.get("actions", []):
                if action["kind"] in ("get", "put"):  # on a thread of its own, so that wakes and limits are kept
                    limits[action["request"]] = limit = mono() + action["limit_ns"]
                    threading.Thread(target=perform, args=(root, action, limit, inbox), daemon=True).start()
                elif action["kind"] == "held":  # by a shell, which exits with 127 if there is no such command
                    command = subprocess.Popen(["sh", "-c", 'exec "$@"', "sh", *argv], start_new_session=True)
                    threading.Thread(target=lambda: (command.wait(), inbox.put({"kind": "release"}))).start()
    except BrokenPipeError: pass  # step is gone, and without it the lease is lost
    finally:
        step.kill()
        if lost := command and command.poll() is None: os.killpg(command.pid, signal.SIGKILL)  # another may hold it now
    sys.exit(75 if not command else 76 if lost else abs(command.returncode) + 128 * (command.returncode < 0))
main(*sys.argv[1:])
