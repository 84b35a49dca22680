/** A cut inside one large object: the same sender goes on after the bytes that came, and nobody else does. */
import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { copyBundle, type CopyOptions, type End } from "../../../../../server/cli/repository/copy-bundle.js";
import type { BundleManifest } from "../../../../../server/interface/api/models/bundle-schemas.js";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { connectOperations } from "../../../../../server/interface/http/client.js";
import { readHttpToken } from "../../../../../server/interface/http/token.js";
import { openLocalOperations } from "../../../../../server/operations/local-operations.js";
import { encodeHeader, entriesEnd } from "../../../../../server/operations/hub/bundle-entry.js";
import { asyncIterableOf } from "../../../../../shared/tensor/async-iterable.js";
import { safetensorsChunks } from "../../../../../shared/tensor/safetensors-writer.js";
import { sourceOfTensor, type Hash } from "../../../../../shared/tensor/tensor.js";
import { collectBytes } from "../../../../helpers/agent-fixtures.js";
import { seededNumbers } from "../../../../helpers/manual-clock.js";
import { noiseBytes } from "../../../../helpers/noise-bytes.js";
import { pollUntil } from "../../../../helpers/poll-until.js";
import { startTestServer, testFleet, type TestServer } from "../../../../helpers/test-server.js";
import { imports } from "../../interface/http/http-requests.js";

const fleet = "local";
const seed = Number(process.env["STEMMA_TEST_SEED"] ?? 17);
const tensorBytes = 3 * 1024 * 1024;
const mebibyte = 1024 * 1024;
/** Small objects that are sent again, and headers. */
const slack = 64 * 1024;

describe(`a cut inside one object (seed ${seed})`, () => {
  const random = seededNumbers(seed);
  let folder: string;
  let server: TestServer;
  let admin: ServerOperations;
  const tokens: Record<string, string> = {};
  const opened: ServerOperations[] = [];
  const connect = (token: string): ServerOperations => {
    const operations = connectOperations({ url: server.handle.httpUrl, token });
    opened.push(operations);
    return operations;
  };
  const local = async (name: string): Promise<End> => {
    const operations = await openLocalOperations({ home: join(folder, name) });
    opened.push(operations);
    return { operations, fleet };
  };
  const as = async (name: string): Promise<End> => {
    const token = (tokens[name] ??= (await admin.addToken({ name, role: "publisher" })).token);
    return { operations: connect(token), fleet: testFleet };
  };
  /** Noise is stored raw; where half of the bytes are zero, `applyStorage` codes them. */
  const importInto = async ({ operations }: End, name: string, isCoded = false): Promise<Hash> => {
    const bytes = noiseBytes(isCoded ? 2 * tensorBytes : tensorBytes, name.length);
    if (isCoded) for (let at = 0; at < bytes.length; at += 4) bytes.set([0, 0, bytes[at] ?? 0, 0x3f], at);
    const tensor = { dtype: "F32", shape: [bytes.length / 4], bytes } as const;
    const file = await collectBytes(safetensorsChunks([{ name: "b", source: sourceOfTensor(tensor) }]));
    const report = await operations.import(imports(Buffer.from(file)), { fleet, name });
    // No budget: by the rates that some machines measure, coding would exceed one.
    if (isCoded) await operations.applyStorage({ fleet, ratio: null, scheme: "independent" });
    return report.summary?.versionId ?? assert.fail("nothing was saved");
  };
  /** Bytes of all objects of a model as they are sent. */
  const wholeOf = async ({ operations, fleet: of }: End, id: Hash): Promise<number> =>
    (await collectBytes(await operations.bundleObjects({ fleet: of, models: [id] }))).length;
  const options = (model: string): CopyOptions => ({
    asked: { models: [model] },
    statement: { list: true },
    signal: new AbortController().signal,
    onBytes: () => undefined,
  });
  const partsOf = async (home: string, of: string): Promise<readonly string[]> => {
    const parts = join(home, "fleets", of, "deposits");
    return (await readdir(parts).catch(() => [])).map((name) => join(parts, name));
  };
  /** Cuts what goes to `to` after so many bytes, once they are all in a file there. */
  const cutting = (to: End, home: string, bytes: number): End => ({
    ...to,
    operations: {
      ...to.operations,
      depositObjects: (input, entries) => {
        const cut = async function* (): AsyncGenerator<Uint8Array> {
          let left = bytes;
          for await (const chunk of entries) {
            yield chunk.subarray(0, left);
            left -= Math.min(left, chunk.length);
            if (left === 0) break;
          }
          await pollUntil("the bytes in a file", async () => {
            const sizes = await Promise.all(
              (await partsOf(home, to.fleet)).map(async (path) => (await stat(path)).size),
            );
            return Math.max(0, ...sizes) > bytes - slack;
          });
          throw new Error("cut");
        };
        return to.operations.depositObjects(input, cut());
      },
    },
  });

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-hub-cut-"));
    server = await startTestServer({ isHub: true, maxUnfinishedBytes: 4.5 * mebibyte });
    admin = connect((await readHttpToken(server.home)) ?? "");
  });
  after(async () => {
    await Promise.all(opened.map((each) => each.close()));
    await server.remove();
    await rm(folder, { recursive: true, force: true });
  });

  for (const form of ["raw", "coded"])
    it(`is gone on with, both ways, also after a restart: ${form}`, async () => {
      const source = await local(`source-${form}`);
      const id = await importInto(source, form, form === "coded");
      const target = await local(`target-${form}`);
      const sent = async (from: End, to: End, home: string): Promise<void> => {
        const whole = await wholeOf(from, id);
        assert.equal(whole < tensorBytes, form === "coded", String(whole));
        const at = Math.floor(mebibyte / 2 + (random() * whole) / 2);
        await assert.rejects(copyBundle(from, cutting(to, home, at), options(form)));
        const [part = ""] = await partsOf(home, to.fleet);
        const there = (await stat(part)).size;
        if (to !== target) {
          await server.restart();
          admin = connect((await readHttpToken(server.home)) ?? "");
          to = await as("ann");
        }
        const again = await copyBundle(from, to, options(form));
        assert.ok(again.bytes < whole - there + slack, `${again.bytes} of ${whole} after ${there}`);
        assert.deepEqual(await partsOf(home, to.fleet), []);
      };
      await sent(source, await as("ann"), server.home);
      await admin.verify({ fleet: testFleet, model: id });
      await sent(await as("ann"), target, join(folder, `target-${form}`));
      await target.operations.verify({ fleet, model: id });
      assert.deepEqual((await target.operations.check({ fleet })).problems, []);
    });

  it("gives the part to its sender alone, bounds what is not finished, and begins again where the part is damaged", async () => {
    const source = await local("bounded");
    await importInto(source, "bounded");
    const [ann, ben] = [await as("ann"), await as("ben")];
    await assert.rejects(copyBundle(source, cutting(ann, server.home, 2 * mebibyte), options("bounded")));
    const manifest = await source.operations.describeBundle({ fleet, models: ["bounded"] });
    const begin = (
      { operations }: End,
      changed: BundleManifest = manifest,
    ): ReturnType<ServerOperations["beginDeposit"]> =>
      operations.beginDeposit({ fleet: testFleet, manifest: changed });
    assert.equal((await begin(ben)).begun, undefined);
    const { begun, deposit } = await begin(ann);
    assert.ok((begun?.offset ?? 0) > mebibyte);
    // The part and another of the same size are more than is allowed.
    await assert.rejects(copyBundle(source, ben, options("bounded")), { code: "QUOTA_EXCEEDED" });
    const { id = "" as Hash, bytes = 0 } = begun ?? {};
    const tensor = { dtype: "F32", shape: [bytes / 4] } as const;
    const lie = (offset: number): AsyncIterable<Uint8Array> =>
      asyncIterableOf([
        encodeHeader({ id, kind: "tensor", bytes, offset, tensor }),
        new Uint8Array(bytes - offset),
        entriesEnd,
      ]);
    const send = (offset: number): Promise<unknown> =>
      ann.operations.depositObjects({ fleet: testFleet, deposit }, lie(offset));
    await assert.rejects(send(bytes - 1), { code: "BUNDLE_INVALID" });
    const [part = ""] = await partsOf(server.home, testFleet);
    const damaged = await readFile(part);
    damaged[damaged.length - 5] = (damaged[damaged.length - 5] ?? 0) ^ 1;
    await writeFile(part, damaged);
    // Each as a command of its own: what is refused early ends its connection.
    const annAgain = await as("ann");
    await assert.rejects(copyBundle(source, annAgain, options("bounded")), { code: "OBJECT_HASH_MISMATCH" });
    const copied = await copyBundle(source, await as("ann"), options("bounded"));
    assert.ok(copied.bytes > tensorBytes);
    await copyBundle(source, await as("ben"), options("bounded"));
  });
});
