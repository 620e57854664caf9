// The messages: msgpack as core/codec.go wants it. Keys stand in the order of the tables of
// bindings/README.md, integers take the fewest bytes, zero values are left out. Text is a string,
// bytes are a Uint8Array, and an integer beyond 2^53 is a BigInt in both directions.

const utf8 = new TextEncoder(), text = new TextDecoder();

export function encode(value, out = []) {
  if (typeof value === "boolean") out.push(value ? 0xc3 : 0xc2);
  else if (typeof value === "number" || typeof value === "bigint") integer(BigInt(value), out);
  else if (typeof value === "string") { const b = utf8.encode(value); head(b.length, [0xa0, 32, 0xd9, 0xda, 0xdb], out); for (const c of b) out.push(c); }
  else if (value instanceof Uint8Array) { head(value.length, [0, 0, 0xc4, 0xc5, 0xc6], out); for (const c of value) out.push(c); }
  else if (Array.isArray(value)) { head(value.length, [0x90, 16, 0, 0xdc, 0xdd], out); for (const v of value) encode(v, out); }
  else {
    const keys = Object.keys(value).filter((key) => value[key] !== undefined);
    head(keys.length, [0x80, 16, 0, 0xde, 0xdf], out);
    for (const key of keys) { encode(key, out); encode(value[key], out); }
  }
  return out;
}

function head(n, [fixed, below, one, two, four], out) {
  if (n < below) out.push(fixed | n);
  else if (n < 256 && one) out.push(one, n);
  else if (n < 65536) out.push(two, n >> 8, n & 255);
  else out.push(four, n >>> 24, (n >> 16) & 255, (n >> 8) & 255, n & 255);
}

function integer(n, out) {
  if (n >= -32n && n < 128n) { out.push(Number(n & 255n)); return; }
  const [code, bytes] = n >= 0n
    ? n < 256n ? [0xcc, 1] : n < 65536n ? [0xcd, 2] : n < 1n << 32n ? [0xce, 4] : [0xcf, 8]
    : n >= -128n ? [0xd0, 1] : n >= -32768n ? [0xd1, 2] : n >= -(1n << 31n) ? [0xd2, 4] : [0xd3, 8];
  out.push(code);
  for (let i = bytes - 1; i >= 0; i--) out.push(Number((n >> BigInt(8 * i)) & 255n));
}

// valuesOf reads values that stand back to back in a stream, whose chunks may end anywhere.
export async function* valuesOf(chunks) {
  let rest = Buffer.alloc(0);
  for await (const chunk of chunks) {
    rest = Buffer.concat([rest, chunk]);
    for (let end, value; rest.length > 0; rest = rest.subarray(end)) {
      try { value = decode(rest, (at) => (end = at)); } catch (error) { if (error === tooShort) break; throw error; }
      yield value;
    }
  }
}
const tooShort = new Error("the message ends too early");

// decode returns the first value, and tells ends where it ends.
export function decode(b, ends = () => {}) {
  let at = 0;
  const number = (n) => take(n).reduce((v, c) => (v << 8n) | BigInt(c), 0n);
  const small = (v) => (v >= Number.MIN_SAFE_INTEGER && v <= Number.MAX_SAFE_INTEGER ? Number(v) : v);
  const take = (n) => { if (at + Number(n) > b.length) throw tooShort; return b.slice(at, (at += Number(n))); };
  const list = (n) => Array.from({ length: Number(n) }, value);
  const map = (n) => { const m = {}; for (; n > 0; n--) { const key = value(); m[key] = value(); } return m; };
  function value() {
    const [c] = take(1);
    if (c < 0x80) return c;
    if (c < 0x90) return map(c & 15);
    if (c < 0xa0) return list(c & 15);
    if (c < 0xc0) return text.decode(take(c & 31));
    if (c >= 0xe0) return c - 256;
    switch (c) {
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xc4: case 0xc5: case 0xc6: return take(number(1 << (c - 0xc4)));
      case 0xcc: case 0xcd: case 0xce: case 0xcf: return small(number(1 << (c - 0xcc)));
      case 0xd0: case 0xd1: case 0xd2: case 0xd3: { const n = 1 << (c - 0xd0); return small(BigInt.asIntN(8 * n, number(n))); }
      case 0xd9: case 0xda: case 0xdb: return text.decode(take(number(1 << (c - 0xd9))));
      case 0xdc: case 0xdd: return list(number(2 << (c - 0xdc)));
      case 0xde: case 0xdf: return map(number(2 << (c - 0xde)));
    }
    throw new Error(`no message: byte ${c} at ${at - 1}`);
  }
  const first = value();
  ends(at);
  return first;
}
