/** Models are published from one home to a server's fleet and pulled into another: same ids, same bytes, or nothing. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { connectOperations } from "../../../../../server/interface/http/client.js";
import { readHttpToken } from "../../../../../server/interface/http/token.js";
import type { BundleManifest } from "../../../../../server/interface/api/models/bundle-schemas.js";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import {
  copyBundle,
  finish,
  type CopyOptions,
  type End,
} from "../../../../../server/cli/repository/copy-bundle.js";
import { cardText } from "../../../../../server/cli/documents/card-text.js";
import { modelCard } from "../../../../../server/cli/documents/model-card.js";
import { readBundle, writeBundle } from "../../../../../server/cli/repository/bundle-file.js";
import { encodeHeader, entriesEnd } from "../../../../../server/operations/hub/bundle-entry.js";
import { openLocalOperations } from "../../../../../server/operations/local-operations.js";
import { defined } from "../../../../../shared/defined.js";
import { isStemmaError } from "../../../../../shared/errors.js";
import { asyncIterableOf } from "../../../../../shared/tensor/async-iterable.js";
import { objectId } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { collectBytes } from "../../../../helpers/agent-fixtures.js";
import { seededNumbers } from "../../../../helpers/manual-clock.js";
import { startTestServer, tensorBytes, testFleet, type TestServer } from "../../../../helpers/test-server.js";
import { fileOf } from "../../interface/http/http-requests.js";

const fleet = "local";
const seed = Number(process.env["STEMMA_TEST_SEED"] ?? 11);
const weights = (seed: number): Uint8Array => Uint8Array.from({ length: 4096 }, (_, i) => (i * seed) % 251);

describe("a hub", () => {
  let folder: string;
  let server: TestServer;
  let admin: ServerOperations;
  const opened: ServerOperations[] = [];

  const local = async (name: string): Promise<End> => {
    const operations = await openLocalOperations({ home: join(folder, name) });
    opened.push(operations);
    return { operations, fleet };
  };
  const as = async (name: string, role: "viewer" | "publisher" = "publisher"): Promise<End> => {
    const { token } = await admin.addToken({ name, role });
    const operations = connectOperations({ url: server.handle.httpUrl, token });
    opened.push(operations);
    return { operations, fleet: testFleet };
  };
  const importInto = async ({ operations }: End, name: string, base?: string): Promise<Hash> => {
    const bytes = await fileOf({
      a: weights(name.length),
      b: weights(base === undefined ? 3 : 5),
    });
    const report = await operations.import(
      { byteLength: bytes.length, chunks: asyncIterableOf([bytes]) },
      { fleet, name, ...(base === undefined ? {} : { base }), metadata: { note: name } },
    );
    return report.summary?.versionId ?? assert.fail("nothing was saved");
  };
  const options = (model: string, more: Partial<CopyOptions> = {}): CopyOptions => ({
    asked: { models: [model] },
    statement: { list: true, license: "Apache-2.0", task: "regression" },
    signal: new AbortController().signal,
    onBytes: () => undefined,
    ...more,
  });

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-hub-"));
    server = await startTestServer({ isHub: true });
    const token = await readHttpToken(server.home);
    admin = connectOperations({ url: server.handle.httpUrl, token });
  });
  after(async () => {
    await Promise.all([admin, ...opened].map((each) => each.close()));
    await server.remove();
    await rm(folder, { recursive: true, force: true });
  });

  it("gives models with their parents the same ids and bytes elsewhere, and nothing twice", async () => {
    const source = await local("source");
    const base = await importInto(source, "net");
    const child = await importInto(source, "child", "net");
    await source.operations.tag({ fleet, model: "net", tag: "first" });
    const hub = await as("ann");
    const first = await copyBundle(source, hub, options("child"));
    assert.deepEqual(
      first.report.recorded.map(({ versionId }) => versionId),
      [base, child],
    );
    const again = await copyBundle(source, hub, options("child"));
    assert.deepEqual([again.report.recorded, again.report.alreadyHere, again.objects], [[], 2, 0]);
    const { models } = await hub.operations.searchHub({ fleet: testFleet, text: "REGRESS" });
    assert.deepEqual(
      models.map(({ versionId, license }) => [versionId, license]),
      [[child, "Apache-2.0"]],
    );
    assert.equal((await hub.operations.searchHub({ fleet: testFleet, task: "other" })).total, 0);
    const query = 'select m where m.name = "child"';
    assert.equal((await hub.operations.searchHub({ fleet: testFleet, query })).total, 1);

    const target = await local("target");
    const reader = await as("victor", "viewer");
    await copyBundle(reader, target, options("child", { statement: {} }));
    assert.deepEqual(
      await tensorBytes(target.operations, child, fleet),
      await tensorBytes(source.operations, child, fleet),
    );
    assert.deepEqual((await target.operations.model({ fleet, model: "net:first" })).versionId, base);
    assert.deepEqual((await target.operations.check({ fleet })).problems, []);
    assert.equal((await target.operations.models({ fleet })).length, 2);
  });

  it("takes a file elsewhere, and refuses it wherever it was cut or changed", async () => {
    const source = await local("file-source");
    const id = await importInto(source, "filed");
    const path = join(folder, "filed.bundle");
    const { signal } = new AbortController();
    const more = { signal, onBytes: () => undefined, force: true };
    await writeBundle(source, path, { ...more, asked: { models: ["filed"] } });
    const { readFile, writeFile } = await import("node:fs/promises");
    const whole = await readFile(path);
    const target = await local("file-target");
    const random = seededNumbers(seed);
    for (let round = 0; round < 12; round++) {
      const damaged = Buffer.from(whole);
      const at = Math.floor(random() * whole.length);
      damaged[at] = (damaged[at] ?? 0) ^ 1;
      const bytes = round % 2 === 0 ? damaged : whole.subarray(0, at);
      await writeFile(path, bytes);
      await readBundle(target, path, more).then(
        // A changed space or a statement that nobody signed is not seen; the model is the same, or it is none.
        async () => {
          await target.operations.verify({ fleet, model: id });
        },
        (error: unknown) => {
          assert.ok(isStemmaError(error), `seed ${seed}, round ${round}: ${String(error)}`);
        },
      );
    }
    await writeFile(path, whole);
    await readBundle(target, path, more);
    await target.operations.verify({ fleet, model: id });
  });

  it(`goes on after a cut at any byte (seed ${seed}), both ways, and shows nothing before the end`, async () => {
    const source = await local("cut-source");
    await importInto(source, "cut");
    const hub = await as("cutter");
    const random = seededNumbers(seed);
    const cutting = (to: End): End => ({
      ...to,
      operations: {
        ...to.operations,
        depositObjects: (input, entries) => to.operations.depositObjects(input, cutAfter(entries, random)),
      },
    });
    const target = await local("cut-target");
    for (const [from, to] of [[source, hub] as const, [hub, target] as const]) {
      for (let round = 0; round < 4; round++) {
        await assert.rejects(copyBundle(from, cutting(to), options("cut")));
        await assert.rejects(to.operations.model({ fleet: to.fleet, model: "cut" }), {
          code: /^(?:MODEL_NOT_FOUND|NOT_FOUND)$/,
        });
      }
      await copyBundle(from, to, options("cut"));
      await (to === hub ? admin : to.operations).verify({ fleet: to.fleet, model: "cut" });
    }
  });

  it("gives nothing for a hash: who has not the bytes cannot publish what names them", async () => {
    const source = await local("victim");
    const victim = await importInto(source, "secret");
    await copyBundle(source, await as("walter"), options("secret"));
    const thief = await as("thief");
    const manifest = await source.operations.describeBundle({ fleet, models: ["secret"] });
    const stolen = renamed(manifest, "stolen");
    const { deposit, lacking } = await thief.operations.beginDeposit({ fleet: testFleet, manifest: stolen });
    assert.deepEqual(lacking, []);
    const end = { fleet: testFleet, deposit };
    const asked = await thief.operations.finishDeposit(end);
    assert.equal(asked.report, undefined);
    assert.ok((asked.prove?.objects.length ?? 0) > 0);
    await assert.rejects(thief.operations.finishDeposit({ ...end, proof: victim }), { code: "NOT_ALLOWED" });
    await assert.rejects(thief.operations.model({ fleet: testFleet, model: "stolen" }), {
      code: "MODEL_NOT_FOUND",
    });
    // Somebody else cannot use the deposit; who has the bytes proves it.
    const other = await as("other");
    await assert.rejects(other.operations.finishDeposit(end), { code: "NOT_FOUND" });
    const { challenge, objects } = asked.prove ?? assert.fail("nothing is to be proved");
    const { proof } = await source.operations.proveBundle({ fleet, models: ["secret"], challenge, objects });
    const proved = await thief.operations.finishDeposit({ ...end, proof });
    assert.equal(proved.report?.recorded.length, 1);
  });

  it("refuses what lies", async () => {
    const source = await local("liar");
    await importInto(source, "truth");
    await importInto(source, "lie", "truth");
    const liar = await as("liar");
    const manifest = await source.operations.describeBundle({ fleet, models: ["lie"] });
    const begin = (changed: Partial<BundleManifest>): Promise<unknown> =>
      liar.operations.beginDeposit({ fleet: testFleet, manifest: { ...manifest, ...changed } });
    const sendAll = async (changed: Partial<BundleManifest>): Promise<unknown> => {
      const { deposit } = await liar.operations.beginDeposit({
        fleet: testFleet,
        manifest: { ...manifest, ...changed },
      });
      const entries = await source.operations.bundleObjects({ fleet, models: ["lie"] });
      await liar.operations.depositObjects({ fleet: testFleet, deposit }, entries);
      return await liar.operations.finishDeposit({ fleet: testFleet, deposit });
    };
    const child = manifest.records.slice(1);
    await assert.rejects(sendAll({ records: child }), { code: "BUNDLE_INVALID" }); // Its parent is missing.
    await assert.rejects(
      begin({ records: [...child, ...child] }).then(() => sendAll({ records: [...child, ...child] })),
      {
        code: "BUNDLE_INVALID",
      },
    );
    await assert.rejects(begin({ records: ["AAAA"] }), { code: /RECORD_INVALID|CANONICAL_JSON_INVALID/ });
    await assert.rejects(sendAll({ objects: {} }), { code: "BUNDLE_INVALID" });
    const listings = [{ versionId: manifest.models[0] as Hash, license: "x".repeat(10_000_000) }];
    await assert.rejects(begin({ listings }), { code: "HTTP_REQUEST_INVALID" });
    const many = Array.from({ length: 500_000 }, () => manifest.models[0] as Hash);
    await assert.rejects(begin({ objects: { tensor: many } }), { code: "HTTP_REQUEST_INVALID" });
    // Bytes of another object under its id.
    const bytes = Buffer.from("not a tree");
    const wrong = objectId("tree", Buffer.from("another"));
    const { deposit } = await liar.operations.beginDeposit({
      fleet: testFleet,
      manifest: { ...manifest, objects: { tree: [wrong] } },
    });
    const entry = [encodeHeader({ id: wrong, kind: "tree", bytes: bytes.length }), bytes, entriesEnd];
    await assert.rejects(
      liar.operations.depositObjects({ fleet: testFleet, deposit }, asyncIterableOf(entry)),
      { code: "OBJECT_HASH_MISMATCH" },
    );
    // Another size than the object has, and one that its shape does not have.
    await importInto(source, "sized-model");
    const unsent = await source.operations.describeBundle({ fleet, models: ["sized-model"] });
    const [tensor = wrong] = unsent.objects.tensor ?? [];
    for (const [elements, code] of [
      [4097, "OBJECT_HASH_MISMATCH"],
      [4096, "BUNDLE_INVALID"],
    ] as const) {
      const about = {
        id: tensor,
        kind: "tensor",
        bytes: 4097,
        tensor: { dtype: "U8", shape: [elements] },
      } as const;
      const sent = [encodeHeader(about), new Uint8Array(4097), entriesEnd];
      const operations = (await as(`sized-${elements}`)).operations;
      const { deposit: id } = await operations.beginDeposit({ fleet: testFleet, manifest: unsent });
      await assert.rejects(
        operations.depositObjects({ fleet: testFleet, deposit: id }, asyncIterableOf(sent)),
        { code },
      );
    }

    await assert.rejects(liar.operations.model({ fleet: testFleet, model: "lie" }), {
      code: "MODEL_NOT_FOUND",
    });
  });

  it("counts no version of another repository among a device's, whatever its record names", async () => {
    const source = await local("spoof");
    await importInto(source, "spoofed");
    const hub = await as("spoofer");
    const { operations: at } = hub;
    const own = { fleet, models: ["spoofed"] };
    const manifest = withRecord(await source.operations.describeBundle(own), {
      fleet: testFleet,
      device: "van-7",
      line: "cam",
    });
    const liar: Partial<ServerOperations> = {
      describeBundle: () => Promise.resolve(manifest),
      bundleObjects: (asked) => source.operations.bundleObjects({ ...asked, ...own }),
      proveBundle: (asked) => source.operations.proveBundle({ ...asked, ...own }),
    };
    await copyBundle({ operations: liar as ServerOperations, fleet }, hub, options("spoofed"));
    const { received, record } = await at.model({ fleet: testFleet, model: "spoofed" });
    assert.deepEqual([received, record.device], [true, "van-7"]);
    const listed = async (device?: string): Promise<number> =>
      (await at.listModels({ fleet: testFleet, name: "spoofed", ...defined({ device }) })).total ?? 0;
    assert.deepEqual([await listed(), await listed("van-7")], [1, 0]);
    const found = async (condition: string): Promise<number> =>
      (await at.runQuery({ fleet: testFleet, query: `select m where ${condition}` })).rows.length;
    assert.equal(await found('m.device = "van-7"'), 0);
    assert.equal(await found('m.device like "van-%"'), 0);
    assert.equal(await found('m.name = "spoofed"'), 1);
  });

  it("takes the same models from two senders at once, and keeps one copy", async () => {
    const source = await local("twice");
    const id = await importInto(source, "both");
    const senders = await Promise.all([as("one"), as("two")]);
    const copied = await Promise.all(senders.map((to) => copyBundle(source, to, options("both"))));
    assert.equal(copied.flatMap(({ report }) => report.recorded).length, 1);
    const { versions } = await admin.listModels({ fleet: testFleet, name: "both" });
    assert.deepEqual(
      versions.map(({ versionId }) => versionId),
      [id],
    );
    await admin.verify({ fleet: testFleet, model: id });
  });

  it("keeps the licence that another sender stated, and shows who stated it", async () => {
    const source = await local("licensed");
    const id = await importInto(source, "licensed");
    const [ann, ben] = [await as("ann-l"), await as("ben-l")];
    await copyBundle(source, ann, options("licensed"));
    const other = { statement: { list: true, license: "MIT" } };
    await assert.rejects(copyBundle(source, ben, options("licensed", other)), { code: "NOT_ALLOWED" });
    await copyBundle(source, ben, options("licensed", { statement: { list: true } }));
    await assert.rejects(copyBundle(source, ann, options("licensed", { statement: { license: "x y(" } })), {
      code: "HTTP_REQUEST_INVALID",
    });
    const { listed } = await ann.operations.model({ fleet: testFleet, model: id });
    assert.equal(listed?.license, "Apache-2.0");
    await copyBundle(source, ann, options("licensed", other));
    assert.equal((await ann.operations.model({ fleet: testFleet, model: id })).listed?.license, "MIT");
    const target = await local("licensed-target");
    await copyBundle(ann, target, options("licensed", { statement: {} }));
    const pulled = await target.operations.model({ fleet, model: id });
    assert.equal(pulled.listed?.license, "MIT");
    const card = cardText(modelCard({ described: pulled, evaluations: [], datasets: [] }));
    assert.match(card, /license, when published: `MIT, noted here .*` \(stated\)/);
  });

  it("says nothing of versions that are not in the bundle", async () => {
    const [theirs, own] = [await local("theirs"), await local("own")];
    const other = await importInto(theirs, "victim");
    await copyBundle(theirs, await as("their-sender"), options("victim"));
    const mine = await importInto(own, "mine");
    const hub = await as("own-sender");
    const manifest = await own.operations.describeBundle({ fleet, models: ["mine"] });
    for (const said of [
      { tags: [{ versionId: other, tag: "production" }] },
      { succeeded: [{ versionId: other, successor: mine, because: "" }] },
      { succeeded: [{ versionId: mine, successor: other, because: "" }] },
    ] satisfies Partial<BundleManifest>[]) {
      const begun = await hub.operations.beginDeposit({
        fleet: testFleet,
        manifest: { ...manifest, ...said },
      });
      const { deposit, lacking: objects } = begun;
      const entries =
        objects.length === 0
          ? asyncIterableOf([entriesEnd])
          : await own.operations.bundleObjects({ fleet, models: ["mine"], objects });
      await hub.operations.depositObjects({ fleet: testFleet, deposit }, entries);
      await assert.rejects(hub.operations.finishDeposit({ fleet: testFleet, deposit }), {
        code: "BUNDLE_INVALID",
      });
    }
    assert.deepEqual((await hub.operations.model({ fleet: testFleet, model: other })).tags, []);
  });

  it("brings declared successors with the versions, which count as parents, and refuses a cycle", async () => {
    const source = await local("declared");
    const older = await importInto(source, "older");
    const newer = await importInto(source, "newer");
    await source.operations.setSuccessor({ fleet, model: older, successor: newer, because: "better" });
    const hub = await as("declarer");
    const { manifest, report } = await copyBundle(source, hub, options("newer"));
    assert.deepEqual(manifest.succeeded, [{ versionId: older, successor: newer, because: "better" }]);
    assert.deepEqual(
      report.recorded.map(({ versionId }) => versionId),
      [older, newer],
    );
    const { after } = await hub.operations.successors({ fleet: testFleet, model: older });
    assert.deepEqual(
      after.map(({ versionId, declared }) => [versionId, declared?.because]),
      [[newer, "better"]],
    );
    const cycle = { ...manifest, succeeded: [{ versionId: newer, successor: older, because: "" }] };
    const { deposit } = await hub.operations.beginDeposit({ fleet: testFleet, manifest: cycle });
    const own = { fleet, models: manifest.models };
    const prove = async (challenge: Hash, objects: readonly Hash[]): Promise<Hash> =>
      (await source.operations.proveBundle({ ...own, challenge, objects })).proof;
    await assert.rejects(finish(hub, deposit, {}, prove), { code: "NOT_ALLOWED" });
  });

  it("takes no tag and no predecessor for a version of another publisher, and takes them of its own", async () => {
    const source = await local("tagged");
    const [first, second] = [await importInto(source, "tagged-1"), await importInto(source, "tagged-2")];
    const [ann, ben] = [await as("ann-t"), await as("ben-t")];
    for (const model of ["tagged-1", "tagged-2"]) await copyBundle(source, ann, options(model));
    await source.operations.tag({ fleet, model: second, tag: "production" });
    await source.operations.setSuccessor({ fleet, model: first, successor: second, because: "better" });
    const said = async (): Promise<unknown> => [
      (await admin.model({ fleet: testFleet, model: second })).tags,
      (await admin.successors({ fleet: testFleet, model: first })).after.length,
    ];
    const { report } = await copyBundle(source, ben, options("tagged-2"));
    assert.deepEqual(report.tagsKept, [{ versionId: second, tag: "production" }]);
    assert.deepEqual(await said(), [[], 0]);
    await copyBundle(source, ann, options("tagged-2"));
    assert.deepEqual(await said(), [["production"], 1]);
  });

  it("keeps a declaration once that is in a bundle twice", async () => {
    const source = await local("declared-twice");
    const first = await importInto(source, "first");
    const second = await importInto(source, "second");
    await source.operations.setSuccessor({ fleet, model: first, successor: second, because: "better" });
    const hub = await as("twice");
    const own = { fleet, models: ["second"] };
    const manifest = await source.operations.describeBundle(own);
    const succeeded = [...manifest.succeeded!, ...manifest.succeeded!];
    const { deposit, lacking: objects } = await hub.operations.beginDeposit({
      fleet: testFleet,
      manifest: { ...manifest, succeeded },
    });
    const entries = await source.operations.bundleObjects({ ...own, objects });
    await hub.operations.depositObjects({ fleet: testFleet, deposit }, entries);
    const prove = async (challenge: Hash, asked: readonly Hash[]): Promise<Hash> =>
      (await source.operations.proveBundle({ ...own, challenge, objects: asked })).proof;
    await finish(hub, deposit, {}, prove);
    const { facts } = await hub.operations.journal({ fleet: testFleet, from: 0, limit: 1000 });
    const kept = facts.filter((fact) => fact.type === "succeeded" && JSON.stringify(fact).includes(first));
    assert.equal(kept.length, 1);
  });

  it("is none unless server.json says so, and takes nothing from who only reads", async () => {
    const source = await local("source-of-none");
    await importInto(source, "own");
    const viewer = await as("reader", "viewer");
    await assert.rejects(copyBundle(source, viewer, options("own")), { code: "NOT_ALLOWED" });
    await server.restart({ isHub: false });
    const token = await readHttpToken(server.home);
    const closed = connectOperations({ url: server.handle.httpUrl, token });
    opened.push(closed);
    const hub = { operations: closed, fleet: testFleet };
    await assert.rejects(copyBundle(source, hub, options("own")), { code: "NOT_ALLOWED" });
    await assert.rejects(closed.searchHub({ fleet: testFleet }), { code: "NOT_ALLOWED" });
  });
});

async function* cutAfter(
  entries: AsyncIterable<Uint8Array>,
  random: () => number,
): AsyncGenerator<Uint8Array> {
  const whole = Buffer.concat([await collectBytes(entries)]);
  yield whole.subarray(0, Math.floor(random() * whole.length));
  throw new Error("cut");
}

/** The same objects under another name: the record of a model that its sender may not have. */
const renamed = (manifest: BundleManifest, name: string): BundleManifest => withRecord(manifest, { name });

/** The same objects, with a record that was changed. */
function withRecord(manifest: BundleManifest, changed: object): BundleManifest {
  const record = JSON.parse(Buffer.from(manifest.records[0] ?? "", "base64").toString("utf8")) as object;
  const bytes = Buffer.from(JSON.stringify({ ...record, ...changed }));
  const id = objectId("record", bytes);
  return {
    ...manifest,
    models: [id],
    records: [bytes.toString("base64")],
    tags: [],
    listings: [],
    evaluations: [],
  };
}
