// The rule of the root: node directory_test.mjs DIR. It ends with another status than 0 if that does not hold.
import { Directory } from "./directory.mjs";
import assert from "node:assert/strict";
import * as fs from "node:fs/promises";
import * as path from "node:path";

const dir = process.argv[2], aside = `${path.dirname(dir)} aside`;
const never = 1n << 62n, body = new Uint8Array([50]);
const putting = { kind: "put", key: "n/k", body };
const requests = [
  { kind: "get", key: "n/k" }, { kind: "exists", key: "n/none" }, { kind: "list", key: "", count: 9 },
  putting, { ...putting, overwrites: true }, { kind: "put_result", key: "m/k" },
  { kind: "create", key: "n/k", body }, { kind: "create_result", key: "n/k" }, { kind: "delete", key: "m/k" },
];
const said = [];
console.error = (text) => said.push(text);

async function outcomes(store) {
  const found = [];
  for (const request of requests) {
    const answer = await store.perform(request, body, never);
    found.push(answer.class ?? answer.outcome);
    assert.equal("entries" in answer || "body" in answer, answer.outcome === "yes" && (request.kind === "get" || request.kind === "list"));
  }
  return found;
}
const all = (word) => requests.map(() => word);
const fine = ["yes", "no", "yes", "yes", "yes", "yes", "no", "no", "yes"];

// What is at the path instead of the directory.
const instead = {
  "nothing": async () => {},
  "another": () => fs.mkdir(dir),
  "a copy without a record": async () => {
    for (const name of ["n", "m"]) await fs.mkdir(path.join(dir, name), { recursive: true }).then(() => fs.writeFile(path.join(dir, name, "k"), "1"));
  },
  "a file": () => fs.writeFile(dir, ""),
  "another's record": () => remount("other"),
};
async function remount(nonce) {
  await fs.cp(aside, dir, { recursive: true });
  await fs.mkdir(path.join(dir, "_mopslock"), { recursive: true });
  await fs.writeFile(path.join(dir, "_mopslock/store.json"), JSON.stringify({ v: 1, nonce }));
}

for (const nonce of ["", "first"]) {
  for (const [name, put] of Object.entries(instead)) {
    const store = new Directory(dir);
    await store.perform(putting, body, never);
    if (nonce) await store.perform({ kind: "create", key: "_mopslock/store.json", body: Buffer.from(JSON.stringify({ v: 1, nonce })) }, body, never);
    assert.deepEqual(await outcomes(store), fine, name);

    said.length = 0;
    await fs.rename(dir, aside);
    await put();
    const before = await fs.readdir(dir, { recursive: true }).catch(() => "none");
    assert.deepEqual(await outcomes(store), all("unreachable"), name);
    assert.deepEqual(await fs.readdir(dir, { recursive: true }).catch(() => "none"), before, name);
    assert.equal(said.length, 1);
    assert.match(said[0], /removed, moved or unmounted.*mount it or move it back/);

    await fs.rm(dir, { recursive: true, force: true });
    if (nonce) await remount(nonce); // another inode
    else await fs.rename(aside, dir);
    assert.deepEqual(await outcomes(store), fine, `${name}, and back`);

    await fs.rm(path.join(dir, "n"), { recursive: true });
    assert.equal((await store.perform({ ...putting, overwrites: true }, body, never)).outcome, "no"); // it overwrites, and makes no directory
    await fs.rm(dir, { recursive: true });
    await fs.rm(aside, { recursive: true, force: true });
  }
}

// The directory goes after a write has looked at it: nothing is applied in the other place.
const store = new Directory(dir);
await store.perform(putting, body, never);
const check = store.root.check;
let looks = 0;
store.root.check = async function () {
  await check.call(this);
  if (++looks === 1) await fs.rename(dir, aside).then(() => fs.mkdir(path.join(dir, "n"), { recursive: true }));
};
assert.equal((await store.perform({ kind: "create", key: "n/k", body }, body, never)).class, "unreachable");
assert.deepEqual(await fs.readdir(path.join(dir, "n")), []);

// It comes back in a verb that began in the other place: what that found is no answer.
store.root.check = check;
store.exists = async () => {
  await fs.rm(dir, { recursive: true });
  await fs.rename(aside, dir);
  return false;
};
assert.equal((await store.perform({ kind: "exists", key: "n/k" }, body, never)).class, "unreachable");
