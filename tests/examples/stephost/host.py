"""python3 host.py TTL DIR NAME CMD...: run CMD under the lease NAME, kept in DIR, for TTL seconds from each renewal.
A host in 60 lines, a model for other languages: mopslock-host step decides, this does the I/O and reads the clocks, as
bindings/README.md says. The exit status is CMD's, 75 if the lease was not acquired, 76 if it was lost."""
import base64, json, os, queue, secrets, signal, socket, subprocess, sys, threading, time

def mono():  # counts the time that the machine sleeps, where there is such a clock
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))

def perform(root, action, limit, inbox):  # what is not the store's word is unknown
    answer, path = {"kind": "answer", "request": action["request"], "outcome": "yes"}, os.path.join(root, action["key"])
    try:
        if action["kind"] == "get":
            with open(path, "rb") as file:
                answer["body"] = base64.b64encode(file.read(65537)).decode()
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(f"{path}.{secrets.token_hex(8)}", "wb") as file:
                file.write(base64.b64decode(action["body"]))
            if mono() >= limit:  # too late: the name may be another's by now
                raise TimeoutError
            os.replace(file.name, path)  # whole, and at once
    except OSError as error:
        answer["outcome"] = "no" if action["kind"] == "get" and isinstance(error, FileNotFoundError) else "unknown"
    inbox.put(answer)

def main(ttl, root, name, *argv):
    step = subprocess.Popen(["mopslock-host", "step"], stdin=-1, stdout=-1, text=True, start_new_session=True)
    def tell(message):
        print(json.dumps(message), file=step.stdin, flush=True)
        answer = json.loads(step.stdout.readline())
        return answer if "error" not in answer else sys.exit(f"step: {answer['text']}")
    tell({"machine": "lease", "protocol": "lastwriter", "name": name, "ttl_ns": int(float(ttl) * 1e9),
          "host": socket.gethostname(), "seed": base64.b64encode(secrets.token_bytes(16)).decode()})
    inbox, command, wake, limits, answer = queue.SimpleQueue(), None, sys.maxsize, {}, {}
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
            wake = next((a["at_ns"] for a in answer.get("actions", []) if a["kind"] == "wake"), sys.maxsize)
            for action in answer.get("actions", []):
                if action["kind"] in ("get", "put"):  # on a thread of its own, so that wakes and limits are kept
                    limits[action["request"]] = limit = mono() + action["limit_ns"]
                    threading.Thread(target=perform, args=(root, action, limit, inbox), daemon=True).start()
                elif action["kind"] == "held":
                    command = subprocess.Popen(argv, start_new_session=True)
                    threading.Thread(target=lambda: (command.wait(), inbox.put({"kind": "release"}))).start()
    finally:
        if lost := command and command.poll() is None:  # or we have failed: another may hold it by now
            os.killpg(command.pid, signal.SIGKILL)
    sys.exit(75 if not command else 76 if lost else abs(command.returncode) + 128 * (command.returncode < 0))

main(*sys.argv[1:])
