// A directory as the store: the object KEY is the file DIR/KEY.
import { mono } from "./clock.mjs";
import { randomBytes } from "node:crypto";
import * as fs from "node:fs/promises";
import * as path from "node:path";

const orAbsent = (promise) => promise.catch((error) => { if (error.code !== "ENOENT" && error.code !== "ENOTDIR") throw error; });
const classes = { EACCES: "unauthorized", EPERM: "unauthorized", EROFS: "read_only", ENOSPC: "full", EDQUOT: "full" };
const failure = (kind, text) => Object.assign(new Error(text), { class: kind });

// Root is the directory itself. It is made when the store is opened, and never again. Every answer is
// believed only if its path still leads to it: the same device and inode, or after a remount the same
// nonce in _mopslock/store.json. Otherwise a holder's beats would go on below the mount point of a
// share that is away, while another process takes the name on the share.
class Root {
  constructor(dir, mayMake) {
    Object.assign(this, { dir, mayMake });
    this.enter().catch(() => {}); // the first request tries again
  }
  async enter() { // finds the directory or makes it, once
    if (!this.known) await (this.finding ??= this.#find().finally(() => { this.finding = undefined; }));
  }
  async #find() {
    let about = await orAbsent(fs.stat(this.dir, { bigint: true }));
    if (!about && !this.mayMake) {
      throw failure("no_such_store", `there is no directory ${this.dir}, and create=false says to make none: mount it or make it`);
    }
    if (!about) {
      await fs.mkdir(this.dir, { recursive: true });
      about = await fs.stat(this.dir, { bigint: true });
    }
    if (!about.isDirectory()) throw failure("no_such_store", `${this.dir} is no directory`);
    this.known = { about, nonce: await this.#nonce() };
  }
  async check() { // throws if another directory is at the path, or none
    const was = this.known, learnt = was.nonce ?? (await this.#nonce()); // before the look at whose it is
    const about = await orAbsent(fs.stat(this.dir, { bigint: true }));
    const same = about?.isDirectory() && about.dev === was.about.dev && about.ino === was.about.ino;
    // The inode of a directory that was removed may be used again: then the nonce decides.
    if (same && (!was.nonce || about.mtimeNs === was.about.mtimeNs)) return void (was.nonce ??= learnt);
    if (!about || !was.nonce || was.nonce !== (await this.#nonce())) throw failure("unreachable", `the store's directory was removed, moved or unmounted, or another is in its place (${this.dir}): mount it or move it back`);
    this.known = { about, nonce: was.nonce };
  }
  async #nonce() {
    const text = await orAbsent(fs.readFile(path.join(this.dir, "_mopslock", "store.json"), "utf8"));
    try { return JSON.parse(text).nonce; } catch { return undefined; } // none yet
  }
}

export class Directory {
  constructor(dir, mayMake = true) { this.root = new Root(dir, mayMake); }
  file(key) { return path.join(this.root.dir, ...key.split("/")); }

  // perform begins a request and answers it, once, as an event. A write that is late must not apply.
  async perform(action, result, until) {
    const answer = { kind: "answer", request: action.request, outcome: "yes" };
    try {
      await this.root.enter();
      await this.root.check(); // a mount that is away, and back when the verb has ended, is an empty store
      try {
        if (!(await this[action.kind](action, answer, result, until))) answer.outcome = "no";
      } finally { await this.root.check(); }
    } catch (error) {
      if (error.class && error.message !== this.told) console.error(this.told = error.message);
      return { kind: "answer", request: action.request, outcome: "unknown", class: error.class ?? classes[error.code] ?? "other" };
    }
    this.told = undefined;
    return answer; // whose keys stand in their order: each verb sets them so
  }
  async get({ key }, answer) {
    const file = await orAbsent(fs.open(this.file(key)));
    if (!file) return false;
    try {
      answer.stamp_ns = (await file.stat({ bigint: true })).mtimeNs; // before the body, as the keys stand
      const { buffer, bytesRead } = await file.read(Buffer.alloc(65537), 0, 65537, 0);
      if (bytesRead > 0) answer.body = new Uint8Array(buffer.subarray(0, bytesRead));
    } finally { await file.close(); }
    return true;
  }
  async exists({ key }) { return (await orAbsent(fs.stat(this.file(key))))?.isFile() ?? false; }
  put({ key, body, overwrites }, _, result, until) { return this.#write(key, body, until, fs.rename, overwrites); }
  create({ key, body }, _, result, until) { return this.#write(key, body, until, fs.link); }
  put_result({ key }, _, result, until) { return this.#write(key, result, until, fs.rename); }
  create_result({ key }, _, result, until) { return this.#write(key, result, until, fs.link); }
  async #write(key, body, until, apply, overwrites) { // whole and at once: link(2) makes it only if there is none
    const to = this.file(key), temp = path.join(path.dirname(to), `.mopslock-tmp-${randomBytes(8).toString("hex")}`);
    if (!overwrites) await this.#makeAbove(key);
    else if (!(await orAbsent(fs.stat(path.dirname(to))))) return false;
    try {
      await fs.writeFile(temp, body ?? "", { flush: true });
      await this.root.check();
      if (mono() >= until) throw new Error("too late: the name may be another's by now");
      return await apply(temp, to).then(() => true, (error) => { if (error.code !== "EEXIST") throw error; });
    } finally { await fs.rm(temp, { force: true }); }
  }
  async #makeAbove(key) { // the directories between the root and the file
    let dir = this.root.dir;
    for (const segment of key.split("/").slice(0, -1)) {
      dir = path.join(dir, segment);
      await fs.mkdir(dir).catch((error) => { if (error.code !== "EEXIST") throw error; });
    }
  }
  async delete({ key }) {
    await this.root.check();
    await fs.rm(this.file(key), { force: true });
    for (let dir = path.dirname(this.file(key)); dir.length > this.root.dir.length; dir = path.dirname(dir)) {
      try { await fs.rmdir(dir); } catch { break; } // not empty
    }
    return true;
  }
  async list({ key: prefix, after = "", count }, answer) {
    const top = prefix.slice(0, prefix.lastIndexOf("/") + 1), page = [], most = Math.min(count, 256);
    let more = false;
    const names = (await orAbsent(fs.readdir(this.file(top), { recursive: true }))) ?? [];
    const keys = names.map((name) => top + name).filter((key) => key.startsWith(prefix) && key > after && !key.includes("/.mopslock-tmp-"));
    for (const key of keys.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))) {
      const found = await orAbsent(fs.stat(this.file(key), { bigint: true }));
      if (!found?.isFile()) continue; // a directory, or removed meanwhile
      if (page.length === most) { more = true; break; }
      page.push([key, found.mtimeNs]);
    }
    if (page.length > 0) answer.entries = page;
    if (more) answer.more = true;
    return true;
  }
}
