// Holds a lease, a permit, or the right to do some work once, from this step to the end of the job. README.md shows a job.
//
// The main step starts mopslock-host in the background. Its command is this file again, the waiter, which runs for as long as
// the lease is held. The post step tells the waiter how the job went, and waits until mopslock-host has released. They share a
// directory below RUNNER_TEMP:
//
//   held    by the waiter: the fencing token
//   end     by the post step: how the job went
//   status  by mopslock-host when it ends: a line of JSON
//   result  by mopslock-host: of work that is done once, who did it
//   log     by mopslock-host: its stderr
"use strict";
const { spawn } = require("node:child_process");
const { randomUUID } = require("node:crypto");
const fs = require("node:fs");
const path = require("node:path");

const POLL_MS = 100;
const END_MS = 60_000; // mopslock-host tries for 10 s at most to release

const { env } = process;
const input = (name) => (env[`INPUT_${name.toUpperCase()}`] ?? "").trim();
const pause = () => new Promise((resolve) => setTimeout(resolve, POLL_MS));
const append = (file, name, value) => fs.appendFileSync(env[file], `${name}=${value}\n`); // a value of one line

const MEANS = {
  64: "an input is not valid",
  69: "the store is missing, refuses, or does not answer",
  75: "not acquired within the wait",
  76: "lost before the job had ended, so another job may have run at the same time",
  78: "the store, or the name's record in it, cannot serve this",
  130: "the wait was cancelled",
};

class Shared {
  constructor(dir, shown = 0) {
    this.dir = dir;
    this.shown = shown; // characters of the log
  }
  path(name) { return path.join(this.dir, name); }
  read(name) { // "" if there is no such file
    try {
      return fs.readFileSync(this.path(name), "utf8");
    } catch (error) {
      if (error.code !== "ENOENT") throw error;
      return "";
    }
  }
  write(name, text) { // whole or not at all
    fs.writeFileSync(this.path(`${name}.new`), text);
    fs.renameSync(this.path(`${name}.new`), this.path(name));
  }
  status() { // undefined until mopslock-host ends
    const text = this.read("status");
    return text.endsWith("\n") ? JSON.parse(text) : undefined;
  }
  show() { // what is new in the log
    const text = this.read("log").slice(this.shown);
    if (text !== "") say(text.trimEnd());
    this.shown += text.length;
  }
}

// say prints what others may have written, as labels of holders and results are. The runner must not obey commands in it.
function say(text) {
  const mark = randomUUID();
  process.stdout.write(`::stop-commands::${mark}\n${text}\n::${mark}::\n`);
}

// fail makes the step a failure, with an annotation.
function fail(text) {
  const escaped = `${input("name")}: ${text}`.replace(/%/g, "%25").replace(/\r/g, "%0D").replace(/\n/g, "%0A");
  process.stdout.write(`::error title=mopslock::${escaped}\n`);
  process.exitCode = 1;
}

function explain(shared, { status, reason }) {
  const last = shared.read("log").trim().split("\n").pop();
  return `${MEANS[status] ?? "mopslock-host failed"} (status ${status}${reason ? `, ${reason}` : ""}). ${last}`;
}

function kill(pid, signal) { // signal 0 asks whether the process is there
  try {
    return process.kill(pid, signal);
  } catch (error) {
    return error.code === "EPERM"; // it is, and somebody else's
  }
}

// stop ends the tenure, or the wait for it.
function stop(shared, pid, jobStatus) {
  shared.write("end", jobStatus);
  if (!shared.read("held")) kill(pid, "SIGINT");
}

function commandLine(shared) {
  const mode = input("mode"), verb = { lease: "run", permit: "permit", once: "once" }[mode];
  if (!verb) throw new Error(`mode "${mode}" is not lease, permit or once`);
  if (!input("store") && !env.MOPSLOCK_STORE) throw new Error("store is missing: where do all machines look for leases?");
  const run = `${env.GITHUB_SERVER_URL}/${env.GITHUB_REPOSITORY}/actions/runs/${env.GITHUB_RUN_ID}`;
  const flags = { "status-file": shared.path("status"), capacity: input("limit") };
  for (const name of ["store", "ttl", "wait", "protocol"]) flags[name] = input(name);
  if (run.length <= 128) flags.label = run; // so that mopslock-host status leads to this run
  const given = Object.entries(flags).flatMap(([flag, value]) => (value ? [`--${flag}=${value}`] : []));
  // The parent is the runner. In a container it cannot be seen, and is 0.
  return [verb, ...given, input("name"), "--", process.execPath, __filename, shared.dir, mode, `${process.ppid}`, run];
}

async function main() {
  const shared = new Shared(fs.mkdtempSync(path.join(env.RUNNER_TEMP, "mopslock-")));
  append("GITHUB_STATE", "dir", shared.dir);
  const files = ["result", "log"].map((name) => fs.openSync(shared.path(name), "a"));
  // Without the runner's streams, for whose end it would wait. Its environment has RUNNER_TRACKING_ID, by which the runner ends
  // what a job leaves behind.
  const child = spawn(input("command"), commandLine(shared), { detached: true, windowsHide: true, stdio: ["ignore", ...files] });
  let over;
  child.on("error", (error) => (over = `${input("command")} cannot be started (${error.code}): install mopslock-host in a step before`));
  child.on("exit", (status, signal) => (over = `mopslock-host ended by ${signal ?? `status ${status}`}`));
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => stop(shared, child.pid, "cancelled"));
  try {
    if (child.pid) append("GITHUB_STATE", "pid", child.pid);
    await held(shared, () => over);
  } catch (error) { // nobody will give back what is held
    if (child.pid) kill(child.pid, "SIGTERM");
    throw error;
  } finally {
    child.unref();
  }
}

// held waits until the job may do the work, or needs not, or mopslock-host has ended.
async function held(shared, over) {
  for (;;) {
    const ended = over(); // then all that it wrote is there
    shared.show();
    const token = shared.read("held"), status = shared.status();
    if (token) {
      append("GITHUB_OUTPUT", "held", "true");
      append("GITHUB_OUTPUT", "token", token);
      say(`${input("name")}: held, fencing token ${token}`);
    } else if (status?.status === 0) {
      append("GITHUB_OUTPUT", "held", "false");
      say(`${input("name")}: done before, by ${shared.read("result")}`);
    } else if (status) {
      fail(explain(shared, status));
    } else if (ended) {
      fail(ended);
    } else {
      await pause();
      continue;
    }
    append("GITHUB_STATE", "shown", shared.shown);
    return;
  }
}

// wait is the waiter. A lease must not outlive a killed runner. So it also ends, with nothing kept, when the runner's process is
// gone, when mopslock-host is, or when the runner's next job has emptied RUNNER_TEMP, which a container can see as well.
async function wait(dir, mode, runner, run) {
  const shared = new Shared(dir), parent = process.ppid;
  const wanted = () => fs.existsSync(dir) && process.ppid === parent && (runner === 0 || kill(runner, 0));
  if (!wanted()) return 1;
  shared.write("held", env.MOPSLOCK_TOKEN);
  for (; wanted(); await pause()) {
    const jobStatus = shared.read("end");
    if (jobStatus && mode === "once" && jobStatus !== "success") return 1; // the next job does the work
    if (jobStatus && mode === "once") fs.writeSync(1, run);
    if (jobStatus) return 0;
  }
  return 1;
}

async function post(dir, pid, shown) {
  const shared = new Shared(dir, shown), jobStatus = input("job-status") || "unknown";
  if (!pid) return; // nothing was started
  if (!shared.status()) stop(shared, pid, jobStatus);
  for (const until = Date.now() + END_MS; kill(pid, 0) && !shared.status() && Date.now() < until; ) await pause();
  shared.show();
  const status = shared.status();
  if (!shared.read("held")) return; // the main step has said why
  if (!status) fail("mopslock-host was killed, or does not end; the lease expires by itself");
  else if (status.status === 0) console.log(`${input("name")}: ended`);
  else if (status.by === "command" && input("mode") === "once") console.log(`${input("name")}: not done, since the job's status is ${jobStatus}`);
  else fail(explain(shared, status));
}

async function begin() {
  const [, , dir, mode, runner, run] = process.argv;
  if (dir) process.exitCode = await wait(dir, mode, Number(runner), run);
  else if (env.STATE_dir) await post(env.STATE_dir, Number(env.STATE_pid), Number(env.STATE_shown));
  else await main();
}
begin().catch((error) => fail(error.message));
