/**
 * Names that steer a terminal, leave a folder, look like others, or are very long: each is refused with a typed error,
 * or it names exactly what was given it; no file is made outside the home, and what is printed shows what is in them.
 */
import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import { runStemmaHere } from "../../../helpers/run-stemma-here.js";
import {
  startTestServer,
  tensorBytes,
  testFleet as fleet,
  type TestServer,
} from "../../../helpers/test-server.js";
import { fileOf, imports } from "../interface/http/http-requests.js";

/** By what is wrong with them. */
const hostile: Readonly<Record<string, string>> = {
  "leaves its folder": "../../evil",
  "leaves it in the middle": "a/../../../evil",
  "is the folder above": "..",
  "is an absolute path": "/tmp/evil",
  "clears the screen": "a\u001b[2Jb",
  "has a C1 control character": "a\u009b31mb",
  "has lines": "a\nb",
  "ends at a NUL": "a\0b",
  "is turned around": "abc\u202egnp",
  "differs by nothing that is seen": "so\u200bh",
  "has a byte order mark": "so\ufeffh",
  "has a letter of another script": "s\u043eh",
  "is not in composed form": "e\u0301",
  "is half of a character": "a\ud800",
  "is a member of every object": "__proto__",
  "is an option": "--help",
  "runs a program": "$(id)",
  "is empty": "",
  "is long": "x".repeat(5000),
};
const names = Object.entries(hostile);
/** What steers a terminal, is not seen, or turns text around. */
const unseen = /(?!\n)\p{Cc}|\p{Cf}|\p{Cs}|\p{Default_Ignorable_Code_Point}/u;
const refusals: readonly string[] = ["NAME_INVALID", "HTTP_REQUEST_INVALID", "USAGE", "TOPIC_INVALID"];

describe("hostile names", () => {
  let folder: string;
  let server: TestServer;
  let file: Buffer;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-names-"));
    server = await startTestServer({ home: join(folder, "home"), tls: "own", deviceTokens: true });
    await writeFile(
      join(folder, "home", "table.csv"),
      ["a,y", ...Array.from({ length: 40 }, (_, row) => `${row},${row % 3}`)].join("\n"),
    );
    file = await fileOf({ w: Uint8Array.of(1, 2, 3) });
    await server.handle.operations.import(imports(file), { fleet, name: "soh" });
    await server.enroll("van", ["line"]);
  });
  after(async () => {
    await server.remove();
    await rm(folder, { recursive: true, force: true });
  });

  /** True if it was done; refused otherwise, by a code of names. */
  async function isTaken(what: string, act: () => Promise<unknown>): Promise<boolean> {
    try {
      await act();
      return true;
    } catch (error) {
      assert.ok(isStemmaError(error) && refusals.includes(error.code), `${what}: ${String(error)}`);
      return false;
    }
  }
  const run = async (...args: readonly string[]) => {
    const ran = await runStemmaHere([...args, "--fleet", fleet], { home: server.home });
    for (const text of [ran.stdout, ran.stderr]) assert.doesNotMatch(text, unseen);
    return ran;
  };

  it("of models and tags are refused, or are those of the very model, and shown for what they are", async () => {
    const { operations } = server.handle;
    const taken: string[] = [];
    for (const [why, name] of names) {
      if (!(await isTaken(why, () => operations.import(imports(file), { fleet, name })))) continue;
      taken.push(name);
      assert.deepEqual(await tensorBytes(operations, `${name}:1`), { w: Buffer.of(1, 2, 3) }, why);
      const [listed] = await operations.models({ fleet, name });
      assert.equal(listed?.name, name);
    }
    assert.ok(taken.includes(hostile["differs by nothing that is seen"] as string));
    for (const [why, tag] of names)
      if (await isTaken(why, () => operations.tag({ fleet, model: "soh:1", tag })))
        assert.equal((await operations.model({ fleet, model: `soh:${tag}` })).name, "soh", why);
    assert.equal((await operations.model({ fleet, model: "soh" })).name, "soh", "nothing took its place");
    const { stdout } = await run("model", "list");
    assert.match(stdout, /^so\\u\{200b\}h:1 /m);
    for (const name of taken) await run("model", "show", "--", `${name}:1`);
    for (const [, name] of names) await run("model", "show", "--", `${name}?`);
  });

  it("of devices, lines, fleets, rollouts, data and batches are refused, or make no file anywhere", async () => {
    const { operations } = server.handle;
    const valid = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;
    for (const [why, name] of names) {
      const identified: Readonly<Record<string, () => Promise<unknown>>> = {
        device: () => operations.enroll({ fleet, device: name, lines: ["line"] }),
        line: () => operations.enroll({ fleet, device: "van", lines: [name], force: true }),
        fleet: () => operations.import(imports(file), { fleet: name, name: "m", force: true }),
        batch: () =>
          operations.createBatch({ fleet, batch: name, count: 1, validMs: 60_001, lines: ["line"] }),
      };
      for (const [kind, act] of Object.entries(identified))
        assert.equal(await isTaken(`${kind} ${why}`, act), valid.test(name), `${kind} ${why}`);
      const location = join(folder, "home", "table.csv");
      const rollout = { fleet, name, model: "soh", line: "line", select: "all", policy: { wait: true } };
      const named = await isTaken(`data ${why}`, () =>
        operations.addDataset({ fleet, name, kind: "csv", location }),
      );
      if (named) assert.equal((await operations.showDataset({ fleet, name })).name, name);
      if (await isTaken(`rollout ${why}`, () => operations.createRollout(rollout)))
        assert.equal((await operations.rollout({ fleet, rollout: name })).name, name);
    }
    assert.deepEqual(await readdir(folder), ["home"]);
  });

  it("of tensors and of files are kept to the byte, and shown for what they are", async () => {
    const tensors = names.filter(([, name]) => !/\p{Cs}/u.test(name));
    const model = await fileOf(Object.fromEntries(tensors.map(([, name], at) => [name, Uint8Array.of(at)])));
    const path = join(folder, "home", "w\u001b[2J\u202e\n.safetensors");
    await writeFile(path, model);
    assert.equal((await run("model", "import", path, "--name", "tensors")).status, 0);
    await run("model", "show", "tensors");
    const back = join(folder, "home", "back\u009b.safetensors");
    assert.equal((await run("model", "recover", "tensors", "--file", back)).status, 0);
    assert.deepEqual(await readFile(back), model);
    const missing = await run("model", "import", join(folder, "no\u001b[2J\u202ehere"), "--name", "m");
    assert.notEqual(missing.status, 0);
    assert.match(missing.stderr, /\\u\{1b\}/);
  });
});
