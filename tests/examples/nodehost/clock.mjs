// The clocks that a host reads for each step.
import { readFileSync } from "node:fs";

// mono counts the time that the machine was suspended: on Linux the kernel's uptime does, in
// steps of 10 ms. Elsewhere the runtime's clock stands still meanwhile, so whatever the wall
// clock has gone ahead of it is added: a claim may end too early by that, but never too late.
let last = 0n, ahead = 0n;
export function mono() {
  let now;
  try {
    now = BigInt(Math.round(parseFloat(readFileSync("/proc/uptime", "utf8")) * 100)) * 10_000_000n;
  } catch {
    now = process.hrtime.bigint();
    const apart = wall() - now;
    if (ahead === 0n || apart > ahead) ahead = apart;
    now += ahead;
  }
  return (last = now > last ? now : last);
}
export const wall = () => BigInt(Date.now()) * 1_000_000n;
