/**
 * Every field of every operation's input arrives at the operation, from the client through the routes: a fake
 * server records what its operations get. The table has a value for every field of the schemas.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { after, before, describe, it } from "node:test";
import type { FastifyInstance } from "fastify";
import { Registry } from "prom-client";
import { operationTable } from "../../../../../server/interface/api/operation-table.js";
import type {
  ImportOptions,
  OperationInput,
  ServerOperations,
} from "../../../../../server/interface/api/server-operations.js";
import { createArchiveJobs } from "../../../../../server/interface/http/archive-jobs.js";
import { buildHttpApp } from "../../../../../server/interface/http/app.js";
import { connectOperations } from "../../../../../server/interface/http/client.js";
import { createEnumerationJobs, createTrainJobs } from "../../../../../server/interface/http/train-jobs.js";
import { StemmaError } from "../../../../../shared/errors.js";
import type { Log } from "../../../../../shared/ports.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

type Table = typeof operationTable;
type OperationName = keyof Table;
/** Operations whose input is one object; the others have tests of their own below. */
type CalledName = Exclude<OperationName, "import" | "events" | "depositObjects">;

const fleet = "f";
const model = "m:1";
const hash = "ab".repeat(32) as Hash;
const car = { fleet, device: "car" };
const storage = {
  fleet,
  ratio: 2.5,
  scheme: "parallel",
  layout: "planes",
  timeLimitMs: 1234,
  readBytesPerSecond: 5678,
  measure: true,
} as const;

const rolloutPolicy = {
  waves: ["3", "rest"],
  soakMinutes: 1.5,
  timeoutMinutes: 2,
  level: 0.1,
  margin: 0.01,
  maxFailed: 0.2,
  minAnswered: 0.3,
  own: "keep",
  unmeasured: "switch",
  onFailure: "undo",
  atOnce: 4,
  samples: 5,
  maxSlowdown: 1.5,
  maxMoreMemoryMb: 6,
  maxChange: 0.4,
  live: { inputs: 7, minutes: 8, maxFailed: 0.5 },
  approval: true,
  deadlineMinutes: 9,
  windows: ["mon 01:00-02:00"],
  maxBytesPerSecond: 5000,
  priority: 3,
  onlyOnPower: true,
  links: ["wifi"],
  wait: true,
} as const;

const bundle = { models: [model], depth: 2, withData: true } as const;
const manifest = {
  format: 1,
  models: [hash],
  records: ["AAAA"],
  objects: { tree: [hash], tensor: [hash] },
  absent: [{ versionId: hash, why: "retired" }],
  redacted: [hash],
  withheld: { data: 1, engines: 2, predictions: 3 },
  tags: [{ versionId: hash, tag: "best" }],
  evaluations: [{ versionId: hash, object: hash }],
  listings: [{ versionId: hash, license: "MIT", task: "regression" }],
} as const;

/** A value that is not the default for every field. */
const inputs = {
  health: {},
  fleets: {},
  addresses: {},
  devices: { fleet, select: "online=yes", offset: 20, limit: 10 },
  device: car,
  describeBundle: { fleet, ...bundle },
  bundleObjects: { fleet, ...bundle, objects: [hash], begun: { id: hash, bytes: 2, offset: 1, code: 3 } },
  proveBundle: { fleet, ...bundle, objects: [hash], challenge: hash },
  beginDeposit: { fleet, manifest, force: true },
  finishDeposit: {
    fleet,
    deposit: "ab".repeat(16),
    proof: hash,
    list: true,
    license: "Apache-2.0",
    task: "regression",
  },
  searchHub: {
    fleet,
    text: "a",
    tag: "best",
    task: "regression",
    query: "select m",
    prefixOf: model,
    limit: 3,
  },
  labelDevices: {
    fleet,
    device: "car",
    select: "online=yes",
    labels: { region: "eu", old: null },
    dryRun: true,
  },
  enroll: {
    ...car,
    lines: ["a", "b"],
    profile: "p",
    initial: { a: model },
    allowReduced: true,
    force: true,
    evenIfClaimed: true,
    releases: "accepted",
    dryRun: true,
  },
  setDevices: {
    fleet,
    device: "car",
    select: "online=yes",
    settings: { training: "off", "report.bytesPerSecond": 4096, "log.level": null },
    dryRun: true,
  },
  trace: { fleet, id: "m:1", device: "car", before: 7, limit: 3 },
  deviceEvents: { ...car, before: 7, limit: 3 },
  deviceLogs: { ...car, before: 7, limit: 3, level: "warn", about: "x", timeoutMs: 4 },
  quarantineDevice: { ...car, quarantined: true, because: "odd" },
  removeDevice: { ...car, because: "sold", dryRun: true },
  eraseDevices: { ...car, select: "state=revoked", count: 2, because: "sold", dryRun: true },
  invite: {
    ...car,
    lines: ["a", "b"],
    profile: "p",
    initial: { a: model },
    allowReduced: true,
    force: true,
    evenIfClaimed: true,
    releases: "accepted",
    validMs: 60_001,
    authority: "oem",
  },
  certify: { request: { kind: "x", deep: [1] } },
  renewDevice: car,
  createBatch: {
    fleet,
    batch: "b",
    count: 3,
    validMs: 60_001,
    lines: ["a", "b"],
    profile: "p",
    initial: { a: model },
    allowReduced: true,
    force: true,
    releases: "accepted",
    namePattern: "van-*",
    names: ["van-1"],
    hold: true,
    mayReplace: true,
    labels: { region: "eu" },
    authority: "oem",
  },
  authorities: { fleet },
  addAuthority: {
    fleet,
    authority: "oem",
    certificates: "pem",
    nameForm: "cn:{device}",
    onEndedList: "refuse",
    replace: true,
    dryRun: true,
  },
  removeAuthority: { fleet, authority: "oem", because: "sold", dryRun: true },
  takeRevocationList: { fleet, authority: "oem", list: "pem", dryRun: true },
  batches: { fleet },
  revokeBatch: { fleet, batch: "b", because: "lost" },
  acceptDevices: { fleet, devices: ["van-1"], batch: "b", dryRun: true },
  revoke: { ...car, because: "sold", evenIfClaimed: true },
  assign: {
    ...car,
    line: "a",
    model,
    allowReduced: true,
    leaseKey: "ab".repeat(16),
    force: true,
    dryRun: true,
  },
  rollbackDevice: { ...car, line: "a", to: model, dryRun: true },
  trainOnDevice: {
    ...car,
    line: "a",
    parameters: { epochs: 2, name: "x", fast: true },
    leaseKey: "ab".repeat(16),
  },
  evaluateOnDevice: { ...car, line: "a", models: ["a", "b"], limit: 3, timeoutMs: 4 },
  rollouts: { fleet },
  rollout: { fleet, rollout: "r", excluded: true },
  rolloutReport: { fleet, rollout: "r" },
  planRollout: { fleet, name: "r", model, line: "a", select: "all", supersedes: "q", policy: rolloutPolicy },
  createRollout: {
    fleet,
    force: true,
    name: "r",
    model,
    line: "a",
    select: "all",
    supersedes: "q",
    policy: rolloutPolicy,
    start: true,
  },
  approveRollout: { fleet, rollout: "r", because: "x" },
  setRollout: { fleet, rollout: "r", phase: "paused", because: "x" },
  undoRollout: { fleet, rollout: "r", because: "x", dryRun: true },
  releases: { fleet },
  releaseManifest: { fleet, model },
  publishReleases: { fleet, change: "{}", dryRun: true },
  command: { ...car, name: "report", body: { deep: [1, { two: null }] }, timeoutMs: 4321 },
  models: { fleet, name: "n", device: "car", line: "a", all: true },
  listModels: {
    fleet,
    name: "n",
    device: "car",
    line: "a",
    all: true,
    where: ["a=1", "b>=2"],
    order: "oldest",
    offset: 3,
    limit: 4,
  },
  model: { fleet, model },
  log: { fleet, model, offset: 3, limit: 4 },
  descendants: { fleet, model, offset: 3, limit: 4 },
  commonAncestor: { fleet, a: "x:1", b: "x:2" },
  lineage: { fleet, model, offset: 3, limit: 4, descendants: true },
  transfer: { fleet, model: "x:1", modelJson: { a: 1 }, minutes: 5, rank: "prefix=1" },
  leases: { fleet },
  leaseLine: { fleet, line: "search", leaseKey: "ab".repeat(16), holder: "a search" },
  endLease: { fleet, lease: "ab".repeat(16) },
  owners: { fleet, model, offset: 3, limit: 4, all: true },
  successors: { fleet, model },
  setSuccessor: { fleet, model, successor: "x:2", remove: true, because: "why" },
  runQuery: {
    fleet,
    query: "select m",
    offset: 3,
    limit: 4,
    config: { lr: 0.1, recipe: "r" },
    seed: "7",
    rank: "age=1",
  },
  evaluateQuery: {
    fleet,
    query: "evaluate m",
    config: { lr: 0.1, nesterov: true },
    rank: "prefix=2",
    seed: "7",
    maxMinutes: 9,
    on: "line=search",
    line: "search-2",
    patience: 5,
  },
  savedQueries: { fleet },
  saveQuery: { fleet, name: "last week's best", query: "select m" },
  deleteQuery: { fleet, name: "last week's best" },
  saveDerived: { fleet, query: "slice b from a", seed: "7" },
  nearest: { fleet, model: "x:1", modelJson: { a: 1 }, rank: "quality=1,age=0.5" },
  diff: { fleet, a: "x:1", b: "y:2", otherFleet: "g", labels: "old,new" },
  asOf: { fleet, at: 1234 },
  recover: {
    fleet,
    model,
    environment: "refuse-any",
    form: "tfjs",
    layout: "original",
    part: "optimizer",
    checkpoint: 3,
    layers: ["lstm*", "dense"],
    lease: "ab".repeat(16),
    story: "omit",
  },
  modelJson: { fleet, model, weightsFile: "w.bin" },
  attachment: { fleet, model, file: "train run.py" },
  verify: { fleet, model },
  tag: { fleet, model, tag: "best", remove: true },
  hold: { fleet, model, held: true, because: "a question" },
  retire: { fleet, model, because: "old", dryRun: true },
  reduce: { fleet, model, scheme: "float16", name: "small", seed: "9", dryRun: true },
  mergeModels: { fleet, models: ["a", "b:2"], name: "n", rule: "trimmed", weights: [1, 0.5], trim: 0.25 },
  averageFleet: {
    fleet,
    line: "soh",
    select: "name=van-*",
    name: "n",
    weights: "equal",
    maxWeight: 2,
    outliers: 0,
    dryRun: true,
  },
  replay: { fleet, model, maxMinutes: 9 },
  explainRecovery: { fleet, model },
  spotCheck: { fleet, model, segments: 4, maxMinutes: 9 },
  rebaseEngine: { fleet, model, engine: "12345678", maxMinutes: 9 },
  story: { fleet, model },
  replayStory: { fleet, story: "{}", tensors: [{ name: "n", id: hash }], data: "/data", maxMinutes: 9 },
  replayChangedStory: { fleet, story: "{}", data: "/d", name: "n", set: { epochs: 2 }, maxMinutes: 9 },
  replayChanged: { fleet, model, name: "n", set: { "trainer.epochs": 2 }, maxMinutes: 9 },
  evaluate: { fleet, model, data: "cells", top: 3, limit: 7, predictions: true, store: false },
  evaluations: { fleet, model, limit: 7 },
  evaluation: { fleet, evaluation: "0123456789", from: 3, rows: 4 },
  evaluateProgressively: {
    fleet,
    model,
    data: "cells",
    tops: [1, 2],
    limit: 7,
    layout: "fixed",
    check: true,
  },
  train: {
    fleet,
    recipe: "battery-soh",
    data: "cells",
    name: "soh",
    base: model,
    parameters: { epochs: 3 },
    seed: "8",
    maxMinutes: 9,
  },
  datasets: { fleet },
  addDataset: {
    fleet,
    name: "cells",
    kind: "battery-simulated",
    location: "/d",
    parameters: { vehicle: 2 },
    like: { model },
    dryRun: true,
  },
  checkDataset: { fleet, name: "cells" },
  showDataset: { fleet, name: "cells" },
  pushDataset: { fleet, name: "cells" },
  fetchDataset: { fleet, name: "cells" },
  removeDataset: { fleet, name: "cells", evenIfUsed: true },
  stats: { fleet },
  check: { fleet, sample: 5, replay: 2, repair: true },
  knownDamage: { fleet },
  planCollection: { fleet },
  collect: {
    fleet,
    format: 1,
    generation: 2,
    live: 3,
    dead: [{ id: hash, storedBytes: 4 }],
    deletePacks: ["p"],
    repackPacks: ["q"],
    bytesBefore: 5,
    bytesAfter: 6,
    tiers: {
      files: 1,
      bytes: 2,
      rewrittenBytes: 3,
      places: [{ tier: "cold", files: 1, bytes: 2, rewrittenBytes: 3 }],
      unreachable: [{ tier: "dear", message: "away" }],
    },
  },
  retention: { fleet },
  setRetention: { fleet, scope: { of: "line", line: "a" }, rule: "1 hour", force: true },
  forecastRetention: {
    fleet,
    trying: { scope: { of: "name", name: "n" }, rule: null },
    listKept: true,
    force: true,
  },
  applyRetention: { fleet, collect: true },
  tiers: {},
  addTier: { name: "cold", folder: "/t" },
  removeTier: { tier: "cold" },
  planTier: { fleet, tier: "cold" },
  applyTier: { fleet, tier: "cold" },
  planStorage: { ...storage, after: "m:1" },
  // `plan` is read when it arrives; it has a test of its own below.
  applyStorage: { ...storage, diskBytes: 11, timeMs: 12, dryRun: true },
  dropTensors: {
    fleet,
    models: [model],
    line: "l",
    olderThanDays: 1,
    maxMinutes: 2,
    because: "y",
    dryRun: true,
  },
  dropPolicies: { fleet },
  setDropPolicy: {
    fleet,
    scope: { of: "line", line: "l" },
    policy: { afterDays: 3, maxMinutes: 4 },
    force: true,
  },
  applyDropPolicies: { fleet, dryRun: true },
  keepTensors: { fleet, model, because: "y" },
  reindex: { fleet },
  redact: { fleet, model, because: "y", dryRun: true },
  replays: { fleet },
  queueReplay: { fleet, model, priority: 7, maxMinutes: 9 },
  cancelReplay: { fleet, model },
  engines: { fleet },
  approveEngine: {
    fleet,
    archive: "AA==",
    expected: "ab".repeat(32) as Hash,
    because: "y",
    dryRun: true,
  },
  removeEngine: { fleet, engine: "0123456789ab", because: "y" },
  recipes: { fleet },
  approveRecipe: { fleet, bundle: "AA==", expected: "ab".repeat(32) as Hash, because: "y", dryRun: true },
  revokeRecipe: { fleet, recipe: "0123456789ab", because: "y" },
  tokens: {},
  addToken: { name: "ci", role: "viewer", fleets: ["f"], validMs: 60_001 },
  removeToken: { name: "ci" },
  webhooks: {},
  addWebhook: { name: "ops", fleet: "f", url: "https://ops.example/stemma", types: ["judged"], from: 3 },
  moveWebhook: { name: "ops", from: 3 },
  testWebhook: { name: "ops" },
  removeWebhook: { name: "ops" },
  journal: { fleet, from: 3, limit: 4 },
  journalHead: { fleet, from: 3 },
  journalCheckpoint: { fleet, from: 3 },
  cosignJournal: { fleet, checkpoint: "cars\n" },
  proveFact: { fleet, position: 3, model, length: 4 },
  journalEntries: { fleet, from: 3, limit: 4 },
  publishOwnerTime: { fleet, file: "{}", dryRun: true },
  restoreToSign: { fleet },
  approveRestore: { fleet, file: "{}", dryRun: true },
  backup: { fleet, folder: "/b", passphraseFile: "/p", plainKey: false },
} as const satisfies { readonly [Name in CalledName]: OperationInput<Name> };

const testedBelow: Readonly<Record<string, readonly string[]>> = { applyStorage: ["plan"] };

interface Recorded {
  readonly name: string;
  readonly input: unknown;
}

/** Operations that record their input and then fail. */
function recordingOperations(recorded: Recorded[]): ServerOperations {
  return new Proxy({} as ServerOperations, {
    get: (_, name: string) => async (first: unknown, second: unknown) => {
      const isImport = name === "import";
      if (name === "depositObjects")
        for await (const chunk of second as AsyncIterable<Uint8Array>) void chunk;
      if (isImport)
        for await (const chunk of (first as { chunks: AsyncIterable<Uint8Array> }).chunks) void chunk;
      recorded.push({ name, input: isImport ? second : first });
      throw new StemmaError("DISK_FULL", "recorded");
    },
  });
}

describe("every field of an operation's input", () => {
  const recorded: Recorded[] = [];
  const logged: unknown[] = [];
  let folder: string;
  let app: FastifyInstance;
  let remote: ServerOperations;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-fields-"));
    const operations = recordingOperations(recorded);
    const clock = { now: () => 0 };
    const note = (level: string) => (_event: string, fields?: object) =>
      void logged.push({ level, ...fields });
    const log: Log = {
      debug: note("debug"),
      info: note("info"),
      warn: note("warn"),
      error: note("error"),
      child: () => log,
    };
    app = buildHttpApp(
      {
        operationsAs: () => operations,
        jobs: createTrainJobs(() => operations, clock),
        enumerationJobs: createEnumerationJobs(() => operations, clock),
        archiveJobs: createArchiveJobs(() => operations, clock),
        metrics: new Registry(),
        problems: () => Promise.resolve([]),
        log,
        stopping: new AbortController().signal,
      },
      { access: "trusted" },
    );
    const socketPath = join(folder, "s");
    await app.listen({ path: socketPath });
    remote = connectOperations({ socketPath }, 1);
  });
  after(async () => {
    await remote.close();
    await app.close();
    await rm(folder, { recursive: true, force: true });
  });

  it("has a value in the table", () => {
    assert.deepEqual(
      Object.keys(inputs).sort(),
      Object.keys(operationTable)
        .filter((name) => !["import", "events", "depositObjects"].includes(name))
        .sort(),
    );
    for (const [name, input] of Object.entries(inputs)) {
      const { params, query, body } = operationTable[name as CalledName];
      const fields = [params, query, body].flatMap(({ shape }) => Object.keys(shape));
      const missing = fields.filter((field) => !(field in input) && !testedBelow[name]?.includes(field));
      assert.deepEqual(missing, [], `${name} needs a value for these fields`);
    }
  });

  for (const [name, input] of Object.entries(inputs))
    it(`arrives at ${name}`, async () => {
      recorded.length = 0;
      const methods = remote as unknown as Readonly<Record<string, (input: object) => Promise<unknown>>>;
      await assert.rejects(async () => methods[name]?.(input), { code: "DISK_FULL" });
      const arrived = recorded.map((each) => ({
        ...each,
        input: JSON.parse(JSON.stringify(each.input ?? {})) as object,
      }));
      assert.deepEqual(arrived, [{ name, input }]);
    });

  it("arrives at depositObjects", async () => {
    recorded.length = 0;
    const input = { fleet, deposit: "ab".repeat(16) };
    const entries = (async function* () {
      yield Promise.resolve(new Uint8Array(2));
    })();
    await assert.rejects(remote.depositObjects(input, entries), { code: "DISK_FULL" });
    assert.deepEqual(recorded, [{ name: "depositObjects", input }]);
  });

  it("arrives at import", async () => {
    recorded.length = 0;
    const options: Required<ImportOptions> = {
      fleet,
      name: "n",
      base: model,
      onto: model,
      lease: "ab".repeat(16),
      parts: [{ iteration: 3, byteLength: 0, fileName: "after-3" }],
      fileName: "x.safetensors",
      layout: "original",
      architecture: "{}",
      device: "car",
      line: "a",
      metadata: { note: "ä", count: 1, ok: true },
      attachments: [{ name: "x", bytes: Buffer.of(1, 2) }],
      furtherBases: ["n:2"],
      measurements: [
        { iteration: 3, epoch: null, loss: 0.5, learningRate: null, validation: 0.6, metrics: { acc: 0.9 } },
      ],
      story: "ignore",
      force: true,
      dryRun: true,
    };
    await assert.rejects(
      remote.import({ byteLength: 3, chunks: Readable.from([Buffer.of(1, 2, 3)]) }, options),
      {
        code: "DISK_FULL",
      },
    );
    assert.deepEqual(recorded, [{ name: "import", input: options }]);
  });

  it("arrives at applyStorage: a plan is read there", async () => {
    const plan = {} as NonNullable<OperationInput<"applyStorage">["plan"]>;
    await assert.rejects(remote.applyStorage({ ...storage, plan }), { code: "PLAN_INVALID" });
  });

  it("is followed by an error that explains itself, which is logged without a stack", async () => {
    logged.length = 0;
    const answer = await app.inject({ method: "GET", url: "/v1/fleets/f/devices" });
    assert.equal(answer.statusCode, 507);
    assert.ok(Number(answer.headers["retry-after"]) > 0);
    const about = { request: answer.headers["x-request-id"], method: "GET", url: "/v1/fleets/f/devices" };
    const warnings = logged.filter((line) => (line as { readonly level: string }).level !== "debug");
    assert.deepEqual(warnings, [{ level: "warn", ...about, code: "DISK_FULL", message: "recorded" }]);
  });
});
