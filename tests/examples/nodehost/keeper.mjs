// A keeper in JavaScript, for a program that writes no host: `mopslock-host keep` makes the requests and renews, in a
// process of its own that no busy event loop holds up. bindings/README.md has the messages.
//
//   node keeper.mjs URL NAME [TTL_NS [WAIT_NS]]
//
// holds a lease until its input ends, and prints a line of JSON when it holds it and when that is over.
import { mono } from "./clock.mjs";
import { encode, valuesOf } from "./msgpack.mjs";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

export class Keeper {
  ears = new Map(); // what hears a message: by the number of its claim or call, or without one by its kind
  number = 0; // the last one
  static async open(url) {
    const keeper = new Keeper();
    keeper.child = spawn("mopslock-host", ["keep", "--parent", process.pid], { stdio: ["pipe", "pipe", "inherit"] });
    keeper.child.stdin.on("error", () => {}); // it has ended, which its stdout tells
    await once(keeper.child, "spawn");
    keeper.#listen();
    if ((await keeper.#next("ready")).messages !== 1) throw new Error("the keeper has other messages");
    await keeper.#ask({ kind: "open", url });
    // Deadlines are of the keeper's clock, which counts a suspend, as mono does and process.hrtime does not. Mono is read
    // before the keeper's clock, and has steps of 10 ms: a claim may then end a little too early, and never too late.
    const before = mono(), { mono_ns } = await keeper.#ask({ kind: "ping" });
    keeper.now = () => mono() - before + BigInt(mono_ns) + 10_000_000n;
    return keeper;
  }
  async #listen() {
    for await (const [, said] of valuesOf(this.child.stdout)) {
      if (said.kind === "failed") break; // with all claims
      const hear = this.ears.get(said.claim ?? said.call ?? said.kind);
      if (hear) hear(said);
      else if (said.kind === "fault") console.error(said.text); // of what no number could be read
    }
    this.over = true; // nobody renews
    for (const hear of this.ears.values()) hear({ kind: "fault", text: "the keeper has ended" });
  }
  #say(message) { // keys in the order of the page's tables
    if (this.over) throw new Error("the keeper has ended");
    this.child.stdin.write(new Uint8Array(encode([1, message])));
  }
  #next(key) {
    return new Promise((resolve, reject) => this.ears.set(key, (said) => {
      this.ears.delete(key);
      said.kind === "fault" ? reject(new Error(said.text)) : resolve(said);
    }));
  }
  #ask(message) {
    this.#say({ ...message, call: ++this.number });
    return this.#next(this.number);
  }

  // hold runs work(lease) while it holds a name. lease.signal is aborted at a loss; lease.check() throws after it, also
  // if work has let no message be read meanwhile. hold rejects if there was a loss, or no lease.
  async hold(name, work, { ttl_ns, wait_ns = -1 } = {}) {
    const claim = ++this.number, loss = new AbortController(), { signal } = loss;
    const lose = (why) => loss.abort(new Error(`${name}: ${why}`));
    let until, timer, over; // until is all: the claim is on no session
    const look = () => { // each second, since a timer stands still in a suspend
      clearTimeout(timer);
      if (this.now() >= until) lose("expired");
      else if (!signal.aborted) timer = setTimeout(look, Math.min(Number(until - this.now()) / 1e6, 1000));
    };
    const end = new Promise((resolve) => (over = resolve)), held = new Promise((acquired) => {
      this.ears.set(claim, ({ kind, at_ns, token, reason, text }) => {
        if (["held", "renewed", "deadline"].includes(kind)) { until = BigInt(at_ns); look(); }
        if (kind === "held") acquired({ token, signal, check() { look(); signal.throwIfAborted(); } });
        if (["refused", "lost", "released", "not_begun", "fault"].includes(kind)) { lose(reason ?? text ?? kind); over(); }
      });
    });
    try {
      this.#say({ mono: 0, wall: 0, kind: "acquire", wait_ns: wait_ns || undefined, claim, terms: { protocol: "strict", name, ttl_ns } });
      const lease = await Promise.race([held, end.then(() => signal.throwIfAborted())]), result = await work(lease);
      lease.check();
      return result;
    } finally {
      const lost = signal.aborted;
      lose("released"); // before it is: what work has left running must not rely on it
      clearTimeout(timer);
      if (!this.over) this.#say({ mono: 0, wall: 0, kind: "release", claim });
      if (!lost) await end;
      this.ears.delete(claim);
    }
  }
  async close() { // releases all that is held
    this.#say({ mono: 0, wall: 0, kind: "close" });
    await this.#next("closed");
    this.child.stdin.end();
  }
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const [url, name, ...limits] = process.argv.slice(2), [ttl_ns, wait_ns] = limits.map(Number);
  const print = (said) => console.log(JSON.stringify(said));
  const keeper = await Keeper.open(url);
  await keeper.hold(name, async ({ token, signal }) => {
    print({ kind: "held", claim: 1, token, keeper: keeper.child.pid });
    for await (const line of createInterface({ input: process.stdin, signal })) console.error(line);
  }, { ttl_ns, wait_ns }).then(() => print({ kind: "released", claim: 1 }), (error) => print({ kind: "lost", claim: 1, reason: error.message }));
  await keeper.close();
}
