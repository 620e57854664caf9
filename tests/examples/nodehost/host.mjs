// A host in JavaScript: the module of wasm/ in this process, which decides everything, and a
// directory as the store (directory.mjs). It is a model for other languages; bindings/README.md says
// what a host owes.
//
//   node host.mjs DIR KIND NAME [TERM=VALUE ...]
//
// begins one claim (acquire, permit, invoke, remote, look, break, ...), prints each notice as a line of
// JSON, and takes commands from lines of its input: release, cancel, leave, or ended yes|no [FILE].
// With create=false, DIR must be there.
import { mono, wall } from "./clock.mjs";
import { Directory } from "./directory.mjs";
import { encode, decode } from "./msgpack.mjs";
import { randomBytes } from "node:crypto";
import * as fs from "node:fs/promises";
import * as os from "node:os";
import * as path from "node:path";
import { createInterface } from "node:readline";

// ---- the module
export class Engine {
  // The module imports what Go's runtime asks of any host. It gets nothing by it: no arguments, no
  // environment, no files, and a clock that only counts how often it was read.
  static async load(file) {
    const engine = new Engine();
    let ticks = 0n;
    const view = () => new DataView(engine.exports.memory.buffer);
    const none = (n, size) => { view().setUint32(n, 0, true); view().setUint32(size, 0, true); return 0; };
    const wasi = new Proxy({
      clock_time_get: (id, precision, at) => { view().setBigUint64(at, (ticks += 1_000_000n), true); return 0; },
      args_sizes_get: (n, size) => none(n, size),
      environ_sizes_get: (n, size) => none(n, size),
      poll_oneoff: (subscriptions, events, n, done) => { // its only use is to sleep, which is over at once
        for (let i = 0; i < n; i++) for (let k = 0; k < 32; k++) view().setUint8(events + 32 * i + k, 0);
        view().setUint32(done, n, true);
        return 0;
      },
      proc_exit: (status) => { throw new Error(`the module ended with ${status}`); },
      fd_write: (fd, vectors, n, written) => {
        let size = 0;
        for (let i = 0; i < n; i++) { // a panic's story
          const at = view().getUint32(vectors + 8 * i, true), length = view().getUint32(vectors + 8 * i + 4, true);
          process.stderr.write(new Uint8Array(engine.exports.memory.buffer.slice(at, at + length)));
          size += length;
        }
        view().setUint32(written, size, true);
        return 0;
      },
    }, { get: (known, name) => known[name] ?? (() => 0) });
    const { instance } = await WebAssembly.instantiate(await fs.readFile(file), { wasi_snapshot_preview1: wasi });
    engine.exports = instance.exports;
    engine.exports._initialize();
    if (engine.exports.abi_version() !== 1) throw new Error("another version of the module's contract");
    return engine;
  }

  // The buffer has 8 bytes for a handle and then the message. An answer is address << 32 | length.
  #call(run, message) {
    const at = this.exports.buffer(), bytes = encode(message);
    new Uint8Array(this.exports.memory.buffer, at + 8, bytes.length).set(bytes);
    const said = BigInt.asUintN(64, run(bytes.length));
    const answer = decode(new Uint8Array(this.exports.memory.buffer, Number(said >> 32n), Number(said & 0xffffffffn)).slice());
    if (answer.error) throw new Error(`${answer.error}: ${answer.text}`);
    return answer;
  }
  make(config) {
    this.#call((n) => this.exports.new(n), config);
    this.handle = new DataView(this.exports.memory.buffer).getBigUint64(this.exports.buffer(), true);
  }
  step(input) {
    const answer = this.#call((n) => this.exports.step(this.handle, n), input);
    if ((this.steps = (this.steps ?? 0) + 1) % 1000 === 0) this.exports.gc(); // nothing else in the guest collects
    return answer;
  }
}

// ---- the host
export class Client {
  constructor(engine, store, hear) {
    Object.assign(this, { engine, store, hear, claims: new Map(), sessions: new Map(), number: 0 });
    engine.make({ // in the order of the keys
      machine: "client", stamp_unit_ns: 1, own_store: true, host: os.hostname(), pid: String(process.pid), seed: new Uint8Array(randomBytes(16)),
    });
  }

  // step gives the client an event, does what it asks for, and sets its one timer.
  step(event) {
    for (let more = true; more; event = { kind: "woke" }) {
      const { actions = [] } = this.engine.step({ mono: mono(), wall: wall(), ...event });
      more = false;
      let wake;
      for (const action of actions) {
        if (action.kind === "more") more = true;
        else if (action.kind === "wake") wake = BigInt(action.at_ns ?? 0);
        else if (action.request && action.kind !== "abandon") this.#begin(action); // an abandoned one is answered all the same
        else this.#believe(action);
      }
      this.#sleep(wake);
    }
  }
  #sleep(wake) {
    clearTimeout(this.timer);
    if (wake === undefined) return;
    const left = Number(wake - mono()) / 1e6;
    this.timer = setTimeout(() => (mono() >= wake ? this.step({ kind: "woke" }) : this.#sleep(wake)), Math.max(0, Math.min(left, 1000)));
  }
  #begin(action) { // it is answered once: by the store, or at its limit
    let answered = false;
    const answer = (event) => {
      clearTimeout(limit);
      if (!answered) { answered = true; this.step(event); }
    };
    const silent = { kind: "answer", request: action.request, outcome: "unknown", class: "unreachable" };
    const limit = setTimeout(() => answer(silent), action.limit_ns / 1e6);
    this.store.perform(action, this.result, mono() + BigInt(action.limit_ns)).then(answer);
  }

  // until is the Mono until which a claim may be relied on: the session's deadline is read first.
  until(number) {
    const claim = this.claims.get(number), session = this.sessions.get(claim?.on) ?? 0n;
    return claim ? (session > claim.at ? session : claim.at) : 0n;
  }
  #believe(action) {
    const { kind, claim, on, at_ns = 0 } = action;
    if (!claim && (kind === "held" || kind === "renewed")) this.sessions.set(on, BigInt(at_ns));
    if (!claim && (kind === "lost" || kind === "left")) this.sessions.delete(on);
    if (claim && (kind === "held" || kind === "deadline")) this.claims.set(claim, { at: BigInt(at_ns), on });
    if (claim && kind === "renewed") this.claims.get(claim).at = BigInt(at_ns);
    if (["lost", "released", "refused", "found", "absent"].includes(kind)) this.claims.delete(claim);
    this.hear(action);
  }

  begin(kind, terms, asked = {}) { // asked: wait_ns capacity width weight spare store_limit, in this order
    this.step({ kind, ...asked, claim: ++this.number, terms });
    return this.number;
  }
  command(kind, claim, fields = {}) {
    if (kind !== "ended") this.claims.delete(claim); // who gives it back relies on it no more
    this.step({ kind, ...fields, claim });
  }
}

const terms = ["protocol", "name", "ttl_ns", "holder", "role", "on_session", "owner", "epoch", "why", "now", "label"];
const asks = ["wait_ns", "capacity", "width", "weight", "spare", "store_limit"];

async function main([dir, kind, name, ...rest]) {
  const given = { name, ...Object.fromEntries(rest.map((word) => word.split("="))) };
  const value = (key) => (given[key] === "true" ? true : /^-?\d+$/.test(given[key]) && key !== "name" ? BigInt(given[key]) : given[key]);
  const pick = (keys) => Object.fromEntries(keys.map((key) => [key, value(key)]));
  const engine = await Engine.load(new URL("../../../wasm/mopslock.wasm", import.meta.url));
  let closing = false;
  const print = (key, v) => (typeof v === "bigint" ? Number(v) : v instanceof Uint8Array ? Buffer.from(v).toString() : v);
  const ends = kind === "invoke" || kind === "remote" ? ["left"] : ["refused", "lost", "released", "left", "broken", kind === "look" && "seen"];
  const client = new Client(engine, new Directory(path.resolve(dir), given.create !== "false"), (action) => {
    console.log(JSON.stringify(action, print));
    if (action.kind === "closed") process.exit(0);
    if (action.claim && ends.includes(action.kind)) close();
  });
  const close = () => { if (!closing) { closing = true; setImmediate(() => client.step({ kind: "close" })); } };
  const claim = client.begin(kind, pick(terms), pick(asks));
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, close);
  for await (const line of createInterface({ input: process.stdin })) {
    const [word, outcome, file] = line.split(" ");
    if (file) client.result = await fs.readFile(file);
    client.command(word, claim, word === "ended" ? { outcome, result: file ? true : undefined } : {});
  }
  close();
}

if (process.argv[1] === new URL(import.meta.url).pathname) await main(process.argv.slice(2));
