// How the programs of this folder talk with the test that runs them: JSON, a
// line a record or a step. Bytes are base64, null ones null.

const bytes = (text) => (text === null ? null : Buffer.from(text, "base64"));
const text = (b) => (b === null || b === undefined ? null : Buffer.from(b).toString("base64"));

const put = (v) => process.stdout.write(JSON.stringify(v) + "\n");

// step tells the test what was seen.
export const step = (name, got) => put({ step: name, got: got === undefined ? null : got });

// main carries out the command line:
//   write ADDR PREFIX CODEC…   records from standard input to topic PREFIX+CODEC, each codec
//   read ADDR COUNT TOPIC…     the records of the topics to standard output
//   suite ADDR                 the scenario
export async function main(client) {
  const [verb, addr, ...rest] = process.argv.slice(2);
  try {
    switch (verb) {
      case "write": {
        const records = await input();
        for (const codec of rest.slice(1)) await client.write(addr, rest[0] + codec, codec, records);
        break;
      }
      case "read":
        for (const [topic, records] of Object.entries(await client.read(addr, rest.slice(1), Number(rest[0])))) {
          for (const r of records) {
            put({
              topic,
              key: text(r.key),
              value: text(r.value),
              time: r.time,
              headers: r.headers.map(([name, value]) => ({ name, value: text(value) })),
            });
          }
        }
        break;
      case "suite":
        await client.suite(addr, rest);
        break;
      default:
        throw new Error(`no verb ${verb}`);
    }
    process.stdout.write("", () => process.exit(0)); // what is written before it is out by then
  } catch (e) {
    console.error(e);
    process.exit(1);
  }
}

// input reads records: {key, value, time, headers: [[name, value]]}.
async function input() {
  const chunks = [];
  for await (const c of process.stdin) chunks.push(c);
  return Buffer.concat(chunks)
    .toString()
    .split("\n")
    .filter((l) => l !== "")
    .map((l) => JSON.parse(l))
    .map((r) => ({
      key: bytes(r.key),
      value: bytes(r.value),
      time: r.time,
      headers: (r.headers ?? []).map((h) => [h.name, bytes(h.value)]),
    }));
}

// base is the time of the first numbered record: it is past no retention.
export const base = Math.floor(Date.now() / 1000) * 1000 - 2 * 3600 * 1000;

// numbered is a record of a number: a second apart, its header says it too.
export const numbered = (i) => ({
  key: Buffer.from(`${i}`),
  value: Buffer.from(`value ${i}`),
  time: base + i * 1000,
  headers: [["n", Buffer.from(`${i}`)]],
});

export const numberedFrom = (first, count) => Array.from({ length: count }, (_, i) => numbered(first + i));

// inOrder counts records up to the first that is not the numbered one.
export function inOrder(got) {
  const same = (a, b) => a !== null && Buffer.compare(Buffer.from(a), b) === 0;
  for (const [i, r] of got.entries()) {
    const w = numbered(i);
    const header = r.headers.length === 1 && r.headers[0][0] === "n" && same(r.headers[0][1], w.key);
    if (!same(r.key, w.key) || !same(r.value, w.value) || r.time !== w.time || !header) return i;
  }
  return got.length;
}

// until waits for a condition that another process brings about.
export async function until(what, condition, limit = 30000) {
  for (const end = Date.now() + limit; ; ) {
    const got = await condition();
    if (got) return got;
    if (Date.now() > end) throw new Error(`not within ${limit} ms: ${what}`);
    await new Promise((r) => setTimeout(r, 20));
  }
}
