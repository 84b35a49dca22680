/** One sequence of steps that calls every operation of the table, for tests of all ways into a store. */
import { scaffold } from "../../../../shared/train/own-recipes/scaffold.js";
import assert from "node:assert/strict";
import { mkdtemp } from "node:fs/promises";
import { Readable } from "node:stream";
import { operationTable } from "../../../../server/api/operation-table.js";
import type {
  CallOutput,
  DataStream,
  RecoveryStream,
  ServerOperations,
} from "../../../../server/api/server-operations.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import type { RolloutAnswer } from "../../../../server/api/rollout-definitions.js";
import type { SignedHead } from "../../../../shared/journal/journal.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { builtInEngineFolder } from "../../../../shared/train/engine-folder.js";
import { fileOfBytes, readSafetensors, safetensorsChunks } from "../../../../shared/tensor/safetensors.js";
import { packEngine } from "../../../../shared/train/unpack-engine.js";
import { changeText } from "../../../../shared/trust/releases/change-file.js";
import { collectBytes, tinyImport } from "../../../helpers/agent-fixtures.js";
import { ownersFirstChange } from "../../../helpers/release-owner.js";
import { testFleet as fleet } from "../../../helpers/test-server.js";

export type OperationName = keyof typeof operationTable;

export interface Step {
  readonly name: OperationName;
  /** What this step shows, if an operation is called more than once. */
  readonly shows?: string;
  readonly ask: (operations: ServerOperations) => Promise<unknown>;
  /** The code of the error that both interfaces must give. */
  readonly fails?: string;
}

/** The discard port of this machine, where nothing listens. */
const nobodyListens = "http://127.0.0.1:9/";
const noHash = "0".repeat(64) as Hash;

/** A head without what differs between two homes. */
function anyHead(head: SignedHead): SignedHead {
  return { ...head, length: 0, chain: noHash, root: noHash, publicKey: "", signature: "" };
}

/** Builds one import per seed; some of the base's tensors change. */
async function importTiny(
  operations: ServerOperations,
  { seed, ...options }: { readonly seed: string; readonly name: string; readonly base?: string },
): Promise<unknown> {
  const { bytes, architecture } = await tinyImport(seed);
  return operations.import(
    { byteLength: bytes.length, chunks: oneChunk(bytes) },
    { fleet, architecture, metadata: { seed: Number(seed), note: "ä" }, ...options },
  );
}
/** A model with checkpoints of another model, and an optimizer's state with that one's tensors. */
async function importWithParts(
  operations: ServerOperations,
  seed: string,
  iterations: readonly number[] = [20],
  moreBytes = 0,
): Promise<unknown> {
  const [model, other] = await Promise.all([tinyImport(seed), tinyImport("3")]);
  const byteLength = other.bytes.length + moreBytes;
  const files = [...iterations.map(() => other.bytes), other.bytes, model.bytes];
  const body = Buffer.concat(files);
  return operations.import(
    { byteLength: -1, chunks: oneChunk(body) },
    {
      fleet,
      name: "parts",
      architecture: model.architecture,
      parts: [...iterations.map((iteration) => ({ iteration, byteLength })), { byteLength }],
    },
  );
}
/** Leases what tiny:2 takes over, and reads it or saves a child under the lease. */
async function transferAnd(operations: ServerOperations, step: "recover" | "import"): Promise<unknown> {
  const { nearest, lease } = await operations.transfer({ fleet, model: "tiny:2" });
  assert.ok(nearest !== null && lease !== null);
  if (step === "recover")
    return drain(await operations.recover({ fleet, model: nearest.versionId, lease: lease.id }));
  const { bytes, architecture } = await tinyImport("5");
  return operations.import(
    { byteLength: bytes.length, chunks: oneChunk(bytes) },
    { fleet, name: "child", architecture, lease: lease.id },
  );
}

/** Only the first tensor of another model of that architecture. */
async function importOnto(
  operations: ServerOperations,
  bases: { readonly onto: string; readonly base?: string },
): Promise<unknown> {
  const { bytes } = await tinyImport("4");
  const opened = await readSafetensors(fileOfBytes(bytes), "a tiny model");
  const [first] = opened.tensors;
  assert.ok(first);
  const part = await collectBytes(safetensorsChunks([{ name: first.name, source: opened.source(first) }]));
  return operations.import(
    { byteLength: part.length, chunks: oneChunk(part) },
    { fleet, name: "partial", ...bases },
  );
}
const oneChunk = (bytes: Uint8Array): AsyncIterable<Uint8Array> => Readable.from([bytes]);

/** The archive of this build's engine, base64. */
async function ownArchive(): Promise<string> {
  return Buffer.from(await packEngine(nodeFiles(), builtInEngineFolder())).toString("base64");
}

/** A recovery's report and its bytes. */
async function drain(stream: RecoveryStream | DataStream): Promise<unknown> {
  const bytes = await collectBytes(stream.chunks);
  assert.equal(bytes.length, stream.byteLength);
  assert.deepEqual(await stream.report, stream.expected);
  return stream.report;
}

const rollout = { name: "r", model: "tiny:2", line: "line", select: "all" };

function withoutTimes<Answer extends RolloutAnswer>(answer: Answer): Answer {
  return { ...answer, createdAtMs: 0, phaseAtMs: 0 };
}

/** A device without what has the time of a change. */
function withoutSettings({ settings: _, quarantined: __, ...device }: CallOutput<"device">): object {
  return device;
}

export const tiny = { fleet, model: "tiny:1" };
const car = { fleet, device: "car" };
const smallTraining = { fleet, recipe: "battery-soh", data: "cells", parameters: { epochs: 1 }, seed: "7" };

export function steps(backupFolder: string): readonly Step[] {
  return [
    { name: "fleets", ask: (at) => at.fleets() },
    { name: "health", ask: async (at) => (await at.health()).version },
    { name: "import", ask: (at) => importTiny(at, { seed: "1", name: "tiny" }) },
    {
      name: "import",
      shows: "an update",
      ask: (at) => importTiny(at, { seed: "2", name: "tiny", base: "tiny:1" }),
    },
    {
      name: "import",
      shows: "a checkpoint and the optimizer's state",
      ask: (at) => importWithParts(at, "2"),
    },
    {
      name: "import",
      shows: "two checkpoints after one iteration",
      ask: (at) => importWithParts(at, "2", [20, 20]),
      fails: "HTTP_REQUEST_INVALID",
    },
    {
      name: "import",
      shows: "a checkpoint that was cut off",
      ask: (at) => importWithParts(at, "2", [20], 1_000_000),
      fails: "SAFETENSORS_TRUNCATED",
    },
    {
      name: "import",
      shows: "some tensors of a base",
      ask: (at) => importOnto(at, { onto: "tiny:1" }),
    },
    {
      name: "import",
      shows: "some tensors, and a base besides",
      ask: (at) => importOnto(at, { onto: "tiny:1", base: "tiny:1" }),
      fails: "NOT_ALLOWED",
    },
    {
      name: "recover",
      shows: "a checkpoint",
      ask: async (at) => drain(await at.recover({ fleet, model: "parts", checkpoint: 20 })),
    },
    {
      name: "recover",
      shows: "the optimizer's state",
      ask: async (at) => drain(await at.recover({ fleet, model: "parts", part: "optimizer" })),
    },
    { name: "model", shows: "what a version uses", ask: (at) => at.model({ fleet, model: "parts" }) },
    { name: "models", ask: (at) => at.models({ fleet }) },
    { name: "listModels", ask: (at) => at.listModels({ fleet, limit: 1, offset: 1, order: "oldest" }) },
    {
      name: "listModels",
      shows: "metadata conditions",
      ask: (at) => at.listModels({ fleet, where: ["seed>=2", "note=ä"] }),
    },
    {
      name: "listModels",
      shows: "no condition",
      ask: (at) => at.listModels({ fleet, where: ["seed"] }),
      fails: "USAGE",
    },
    { name: "model", ask: (at) => at.model(tiny) },
    {
      name: "model",
      shows: "an unknown one",
      ask: (at) => at.model({ fleet, model: "none" }),
      fails: "MODEL_NOT_FOUND",
    },
    { name: "log", ask: (at) => at.log({ fleet, model: "tiny:2" }) },
    { name: "log", shows: "a page", ask: (at) => at.log({ fleet, model: "tiny:2", offset: 1, limit: 1 }) },
    { name: "descendants", ask: (at) => at.descendants({ ...tiny, limit: 5 }) },
    { name: "commonAncestor", ask: (at) => at.commonAncestor({ fleet, a: "tiny:1", b: "tiny:2" }) },
    {
      name: "commonAncestor",
      shows: "two that have none",
      ask: (at) => at.commonAncestor({ fleet, a: "tiny:1", b: "parts" }),
    },
    { name: "lineage", ask: (at) => at.lineage({ ...tiny, descendants: true }) },
    {
      name: "transfer",
      ask: async (at) => {
        const answer = await at.transfer({ fleet, model: "tiny:2", minutes: 5 });
        await at.endTransfer({ fleet, lease: answer.lease?.id ?? "" });
        return { ...answer, lease: null };
      },
    },
    { name: "recover", shows: "what a child takes over", ask: (at) => transferAnd(at, "recover") },
    { name: "import", shows: "a child under its lease", ask: (at) => transferAnd(at, "import") },
    {
      name: "recover",
      shows: "a lease that ended",
      ask: (at) => at.recover({ ...tiny, lease: "ab".repeat(16) }),
      fails: "LEASE_UNKNOWN",
    },
    {
      name: "endTransfer",
      shows: "one that ended already",
      ask: (at) => at.endTransfer({ fleet, lease: "ab".repeat(16) }),
    },
    { name: "owners", ask: (at) => at.owners({ fleet, model: "tiny:2", all: true }) },
    {
      name: "setSuccessor",
      ask: (at) => at.setSuccessor({ ...tiny, successor: "parts", because: "a question" }),
    },
    {
      name: "setSuccessor",
      shows: "a cycle",
      ask: (at) => at.setSuccessor({ fleet, model: "parts", successor: "tiny:1" }),
      fails: "NOT_ALLOWED",
    },
    { name: "successors", ask: (at) => at.successors({ fleet, model: "parts" }) },
    { name: "diff", ask: (at) => at.diff({ fleet, a: "tiny:1", b: "tiny:2" }) },
    { name: "nearest", ask: (at) => at.nearest({ fleet, model: "tiny:2" }) },
    {
      name: "nearest",
      shows: "an architecture that was written to a file",
      ask: async (at) => at.nearest({ fleet, modelJson: { ...(await at.modelJson(tiny)) } }),
    },
    {
      name: "nearest",
      shows: "no question",
      ask: (at) => at.nearest({ fleet }),
      fails: "USAGE",
    },
    {
      name: "diff",
      shows: "two fleets",
      ask: (at) => at.diff({ fleet, a: "a", b: "b", otherFleet: "x" }),
      fails: "NOT_ALLOWED",
    },
    { name: "modelJson", ask: (at) => at.modelJson({ ...tiny, weightsFile: "w.bin" }) },
    { name: "recover", ask: async (at) => drain(await at.recover(tiny)) },
    { name: "recover", shows: "tfjs", ask: async (at) => drain(await at.recover({ ...tiny, form: "tfjs" })) },
    {
      name: "recover",
      shows: "some layers",
      ask: async (at) => drain(await at.recover({ ...tiny, layers: ["*"] })),
    },
    {
      name: "recover",
      shows: "a layer that it has not",
      ask: (at) => at.recover({ ...tiny, layers: ["*", "none"] }),
      fails: "LAYER_NOT_FOUND",
    },
    {
      name: "recover",
      shows: "some layers for tfjs",
      ask: (at) => at.recover({ ...tiny, form: "tfjs", layers: ["*"] }),
      fails: "NOT_ALLOWED",
    },
    {
      name: "recover",
      shows: "a checkpoint that it has not",
      ask: (at) => at.recover({ ...tiny, checkpoint: 3 }),
      fails: "MODEL_PART_MISSING",
    },
    {
      name: "recover",
      shows: "an optimizer's state that it has not",
      ask: (at) => at.recover({ ...tiny, part: "optimizer" }),
      fails: "MODEL_PART_MISSING",
    },
    {
      name: "recover",
      shows: "two parts in one",
      ask: (at) => at.recover({ ...tiny, part: "optimizer", checkpoint: 3 }),
      fails: "NOT_ALLOWED",
    },
    { name: "replay", ask: (at) => at.replay(tiny) },
    {
      name: "replay",
      shows: "an unknown one",
      ask: (at) => at.replay({ fleet, model: "none" }),
      fails: "MODEL_NOT_FOUND",
    },
    { name: "queueReplay", ask: (at) => at.queueReplay({ ...tiny, priority: 9 }) },
    { name: "replays", ask: (at) => at.replays({ fleet }) },
    {
      name: "cancelReplay",
      shows: "one that was never queued",
      ask: (at) => at.cancelReplay({ fleet, model: "tiny:2" }),
      fails: "NOT_FOUND",
    },
    { name: "verify", ask: (at) => at.verify(tiny) },
    { name: "tag", ask: (at) => at.tag({ ...tiny, tag: "best" }) },
    { name: "hold", ask: (at) => at.hold({ ...tiny, held: true, because: "a question" }) },
    {
      name: "retire",
      shows: "a held one",
      ask: (at) => at.retire({ ...tiny, because: "x" }),
      fails: "MODEL_HELD",
    },
    { name: "hold", shows: "let go", ask: (at) => at.hold({ ...tiny, held: false }) },
    { name: "reduce", ask: (at) => at.reduce({ ...tiny, scheme: "float16", name: "small" }) },
    { name: "enroll", ask: (at) => at.enroll({ ...car, lines: ["line"], initial: { line: "tiny" } }) },
    {
      name: "enroll",
      shows: "dry run",
      ask: (at) => at.enroll({ fleet, device: "van", lines: ["line"], dryRun: true }),
    },
    { name: "addresses", ask: (at) => at.addresses() },
    {
      name: "invite",
      shows: "a server without an authority of its own",
      ask: (at) => at.invite({ fleet, device: "bus", lines: ["line"] }),
      fails: "CONFIG_INVALID",
    },
    {
      name: "createBatch",
      shows: "of a server without certificates",
      ask: (at) => at.createBatch({ fleet, batch: "b", count: 1, validMs: 60_000, lines: ["line"] }),
      fails: "CONFIG_INVALID",
    },
    { name: "batches", ask: (at) => at.batches({ fleet }) },
    {
      name: "revokeBatch",
      shows: "one that is not there",
      ask: (at) => at.revokeBatch({ fleet, batch: "b" }),
      fails: "NOT_FOUND",
    },
    {
      name: "acceptDevices",
      shows: "neither devices nor a batch",
      ask: (at) => at.acceptDevices({ fleet }),
      fails: "USAGE",
    },
    { name: "certify", ask: (at) => at.certify({ request: {} }), fails: "ENROLMENT_INVALID" },
    {
      name: "renewDevice",
      shows: "a device with a token",
      ask: (at) => at.renewDevice(car),
      fails: "NOT_ALLOWED",
    },
    { name: "devices", ask: (at) => at.devices({ fleet }) },
    { name: "labelDevices", ask: (at) => at.labelDevices({ ...car, labels: { region: "eu" } }) },
    {
      name: "devices",
      shows: "those of a selection",
      ask: (at) => at.devices({ fleet, select: "label.region=e* and descends=tiny:1" }),
    },
    { name: "device", ask: (at) => at.device(car) },
    { name: "assign", ask: (at) => at.assign({ ...car, line: "line", model: "tiny:2" }) },
    {
      name: "assign",
      shows: "a reduced one",
      ask: (at) => at.assign({ ...car, line: "line", model: "small" }),
      fails: "MODEL_REDUCED",
    },
    {
      name: "rollbackDevice",
      ask: (at) => at.rollbackDevice({ ...car, line: "line" }),
      fails: "MODEL_NOT_FOUND",
    },
    {
      name: "rollbackDevice",
      shows: "a model that it neither made nor ran",
      ask: (at) => at.rollbackDevice({ ...car, line: "line", to: "tiny:1" }),
      fails: "NOT_ALLOWED",
    },
    {
      name: "planRollout",
      ask: async (at) => {
        const policy = { waves: ["1", "10%"], own: "keep" } as const;
        // Only a running server predicts transfers.
        const {
          transfers: _,
          expectedMs: __,
          ...plan
        } = await at.planRollout({
          fleet,
          ...rollout,
          policy: { ...policy, waves: [...policy.waves] },
        });
        return plan;
      },
    },
    { name: "createRollout", ask: async (at) => withoutTimes(await at.createRollout({ fleet, ...rollout })) },
    {
      name: "approveRollout",
      shows: "that nobody approves their own",
      ask: (at) => at.approveRollout({ fleet, rollout: rollout.name }),
      fails: "NOT_ALLOWED",
    },
    { name: "rolloutReport", ask: (at) => at.rolloutReport({ fleet, rollout: rollout.name }) },
    {
      name: "createRollout",
      shows: "a name that is taken",
      ask: (at) => at.createRollout({ fleet, ...rollout }),
      fails: "NOT_ALLOWED",
    },
    {
      name: "createRollout",
      shows: "waves that are none",
      ask: (at) => at.createRollout({ fleet, ...rollout, name: "b", policy: { waves: ["rest", "1"] } }),
      fails: "ROLLOUT_INVALID",
    },
    {
      name: "setRollout",
      shows: "one that was not started",
      ask: (at) => at.setRollout({ fleet, rollout: "r", phase: "paused" }),
      fails: "NOT_ALLOWED",
    },
    {
      name: "setRollout",
      ask: async (at) => withoutTimes(await at.setRollout({ fleet, rollout: "r", phase: "aborted" })),
    },
    { name: "rollouts", ask: async (at) => (await at.rollouts({ fleet })).map(withoutTimes) },
    { name: "rollout", ask: async (at) => withoutTimes(await at.rollout({ fleet, rollout: "r" })) },
    {
      name: "rollout",
      shows: "one that is not there",
      ask: (at) => at.rollout({ fleet, rollout: "x" }),
      fails: "ROLLOUT_UNKNOWN",
    },
    { name: "undoRollout", ask: (at) => at.undoRollout({ fleet, rollout: "r", dryRun: true }) },
    { name: "releases", shows: "none yet", ask: (at) => at.releases({ fleet }) },
    {
      name: "publishReleases",
      ask: (at) => at.publishReleases({ fleet, change: changeText(ownersFirstChange(fleet)) }),
    },
    {
      name: "publishReleases",
      shows: "a change of another fleet",
      ask: (at) => at.publishReleases({ fleet, change: changeText(ownersFirstChange("other")) }),
      fails: "RELEASE_METADATA_INVALID",
    },
    { name: "releases", ask: (at) => at.releases({ fleet }) },
    {
      name: "releaseManifest",
      ask: (at) => at.releaseManifest({ fleet, model: "no-such-model" }),
      fails: "MODEL_NOT_FOUND",
    },
    {
      name: "trainOnDevice",
      ask: (at) => at.trainOnDevice({ ...car, line: "line" }),
      fails: "SERVER_UNREACHABLE",
    },
    {
      name: "evaluateOnDevice",
      ask: (at) => at.evaluateOnDevice({ ...car, line: "line" }),
      fails: "SERVER_UNREACHABLE",
    },
    {
      name: "command",
      ask: (at) => at.command({ ...car, name: "report", body: {} }),
      fails: "SERVER_UNREACHABLE",
    },
    {
      name: "setDevices",
      ask: async (at) =>
        (await at.setDevices({ ...car, settings: { training: "off" } })).map((each) => ({
          ...each,
          settings: { ...each.settings, desiredAtMs: 0 },
        })),
    },
    {
      name: "setDevices",
      shows: "what no server may change",
      ask: (at) => at.setDevices({ ...car, settings: { "lines.soh.recipe": "x" } }),
      fails: "SETTING_INVALID",
    },
    {
      name: "deviceEvents",
      ask: async (at) => {
        const { facts, next } = await at.deviceEvents({ ...car, limit: 4 });
        assert.equal(typeof next, "number");
        return { facts: facts.map(({ type }) => ({ type, position: 0, atMs: 0 })), next: 0 };
      },
    },
    { name: "deviceLogs", ask: (at) => at.deviceLogs(car), fails: "SERVER_UNREACHABLE" },
    {
      name: "removeDevice",
      shows: "one that is enrolled",
      ask: (at) => at.removeDevice(car),
      fails: "NOT_ALLOWED",
    },
    {
      name: "quarantineDevice",
      ask: async (at) =>
        withoutSettings(await at.quarantineDevice({ ...car, quarantined: true, because: "odd" })),
    },
    {
      name: "quarantineDevice",
      shows: "served again",
      ask: async (at) => withoutSettings(await at.quarantineDevice({ ...car, quarantined: false })),
    },
    { name: "asOf", ask: (at) => at.asOf({ fleet, at: 4e12 }) },
    { name: "revoke", ask: (at) => at.revoke({ ...car, because: "sold" }) },
    { name: "eraseDevices", shows: "what would go", ask: (at) => at.eraseDevices({ ...car, dryRun: true }) },
    {
      name: "eraseDevices",
      shows: "another number of devices",
      ask: (at) => at.eraseDevices({ fleet, select: "state=revoked", count: 7 }),
      fails: "USAGE",
    },
    { name: "eraseDevices", ask: (at) => at.eraseDevices({ ...car, because: "sold" }) },
    { name: "removeDevice", ask: (at) => at.removeDevice({ ...car, because: "sold" }) },
    { name: "device", shows: "a removed one", ask: (at) => at.device(car), fails: "DEVICE_UNKNOWN" },
    {
      name: "addDataset",
      ask: (at) =>
        at.addDataset({
          fleet,
          name: "cells",
          kind: "battery-simulated",
          location: "",
          parameters: { vehicle: 2 },
        }),
    },
    { name: "datasets", ask: (at) => at.datasets({ fleet }) },
    { name: "checkDataset", ask: (at) => at.checkDataset({ fleet, name: "cells" }) },
    {
      name: "fetchDataset",
      shows: "one that is not stored",
      ask: (at) => at.fetchDataset({ fleet, name: "cells" }),
      fails: "NOT_FOUND",
    },
    { name: "pushDataset", ask: (at) => at.pushDataset({ fleet, name: "cells" }) },
    {
      name: "fetchDataset",
      ask: async (at) => drain(await at.fetchDataset({ fleet, name: "cells" })),
    },
    { name: "train", ask: (at) => at.train({ ...smallTraining, name: "soh" }) },
    { name: "explainRecovery", ask: (at) => at.explainRecovery(tiny) },
    {
      name: "rebaseEngine",
      shows: "an engine that is not here",
      ask: (at) => at.rebaseEngine({ ...tiny, engine: "0123456789" }),
      fails: "NOT_FOUND",
    },
    { name: "rebaseEngine", ask: async (at) => (await at.rebaseEngine(tiny)).reason },
    {
      name: "story",
      shows: "none of a model that was imported",
      ask: (at) => at.story(tiny),
      fails: "NOT_FOUND",
    },
    { name: "story", ask: async (at) => Object.keys(await at.story({ fleet, model: "soh" })) },
    {
      name: "replayStory",
      shows: "a story that is malformed",
      ask: (at) => at.replayStory({ fleet, story: "{}" }),
      fails: "STORY_INVALID",
    },
    {
      name: "replayChanged",
      shows: "nothing that can be replayed",
      ask: (at) => at.replayChanged({ ...tiny, name: "other", set: { epochs: 2 } }),
      fails: "REPLAY_INCOMPLETE",
    },
    {
      name: "replayChanged",
      ask: async (at) =>
        (await at.replayChanged({ fleet, model: "soh", name: "other", set: { "trainer.epochs": 2 } }))
          .changes,
    },
    {
      name: "redact",
      ask: async (at) => {
        const before = await at.model({ fleet, model: "soh" });
        assert.match(JSON.stringify(before.provenance), /"seed":"7"/);
        await at.redact({ fleet, model: "soh", because: "a customer's" });
        const { provenance } = await at.model({ fleet, model: "soh" });
        assert.doesNotMatch(JSON.stringify(provenance), /"seed"/);
        // A store that dropped the openings is whole.
        await at.collect({ fleet, ...(await at.planCollection({ fleet })) });
        assert.deepEqual((await at.check({ fleet })).problems, []);
        return (await at.model({ fleet, model: "soh" })).record.objects.openings !== undefined;
      },
    },
    {
      name: "replayStory",
      shows: "why a redacted one cannot be replayed",
      ask: async (at) => {
        const { story } = await at.story({ fleet, model: "soh" });
        return (await at.replayStory({ fleet, story })).verdict;
      },
    },
    {
      name: "redact",
      shows: "nothing to redact",
      ask: (at) => at.redact({ fleet, model: "tiny:1" }),
      fails: "NOT_FOUND",
    },
    {
      name: "evaluate",
      ask: (at) => at.evaluate({ fleet, model: "soh", data: "cells", limit: 10, predictions: true }),
    },
    { name: "evaluations", ask: (at) => at.evaluations({ fleet, model: "soh" }) },
    {
      name: "evaluation",
      ask: async (at) => {
        const [first] = await at.evaluations({ fleet });
        const evaluation = first!.evaluation.slice(0, 12);
        const details = await at.evaluation({ fleet, evaluation, from: 8, rows: 100 });
        assert.equal(details.evaluation, first!.evaluation);
        assert.equal(details.predictions?.rows.length, 2, "of ten samples, those from the ninth on");
        return details;
      },
    },
    {
      name: "evaluation",
      shows: "an unknown one",
      ask: (at) => at.evaluation({ fleet, evaluation: "0123456789" }),
      fails: "NOT_FOUND",
    },
    {
      name: "evaluateProgressively",
      shows: "a regression",
      ask: (at) => at.evaluateProgressively({ fleet, model: "soh", data: "cells", limit: 10 }),
      fails: "USAGE",
    },
    {
      name: "showDataset",
      ask: async (at) => {
        const details = await at.showDataset({ fleet, name: "cells" });
        return { ...details, usedBy: details.usedBy.map((each) => ({ ...each, versionId: "0".repeat(64) })) };
      },
    },
    {
      name: "removeDataset",
      shows: "one that a version was trained with",
      ask: (at) => at.removeDataset({ fleet, name: "cells" }),
      fails: "DATASET_IN_USE",
    },
    {
      name: "removeDataset",
      ask: async (at) => {
        await at.addDataset({ fleet, name: "spare", kind: "battery-simulated", location: "" });
        return at.removeDataset({ fleet, name: "spare" });
      },
    },
    { name: "knownDamage", ask: (at) => at.knownDamage({ fleet }) },
    { name: "stats", ask: async (at) => ({ ...(await at.stats({ fleet })), journalBytes: 0 }) },
    { name: "check", ask: (at) => at.check({ fleet }) },
    {
      name: "planStorage",
      ask: async (at) =>
        (await at.planStorage({ fleet, ratio: null, timeLimitMs: 100, readBytesPerSecond: 1e8 })).fleet,
    },
    {
      name: "applyStorage",
      ask: async (at) =>
        (
          await at.applyStorage({
            fleet,
            ratio: null,
            timeLimitMs: 100,
            readBytesPerSecond: 1e8,
            dryRun: true,
          })
        ).planned.fleet,
    },
    {
      name: "setRetention",
      ask: (at) => at.setRetention({ fleet, scope: { of: "name", name: "tiny" }, rule: "1 hour" }),
    },
    { name: "retention", ask: (at) => at.retention({ fleet }) },
    { name: "forecastRetention", ask: (at) => at.forecastRetention({ fleet, listKept: true }) },
    { name: "applyRetention", ask: (at) => at.applyRetention({ fleet, collect: true }) },
    { name: "retire", ask: (at) => at.retire({ fleet, model: "small" }) },
    { name: "planCollection", ask: async (at) => (await at.planCollection({ fleet })).dead.length },
    {
      name: "collect",
      ask: async (at) =>
        (await at.collect({ fleet, ...(await at.planCollection({ fleet })) })).freedBytes > 0,
    },
    {
      name: "setDropPolicy",
      ask: (at) =>
        at.setDropPolicy({
          fleet,
          scope: { of: "name", name: "tiny" },
          policy: { afterDays: 0, maxMinutes: 10 },
        }),
    },
    { name: "dropPolicies", ask: (at) => at.dropPolicies({ fleet }) },
    { name: "applyDropPolicies", ask: (at) => at.applyDropPolicies({ fleet }) },
    { name: "dropTensors", ask: (at) => at.dropTensors({ fleet, dryRun: true }) },
    {
      name: "dropTensors",
      shows: "an import, which no training gives again",
      ask: (at) => at.dropTensors({ fleet, models: ["tiny"] }),
    },
    {
      name: "keepTensors",
      shows: "one whose tensors are stored",
      ask: (at) => at.keepTensors({ fleet, model: "tiny" }),
    },
    { name: "tokens", ask: (at) => at.tokens() },
    { name: "addToken", ask: async (at) => (await at.addToken({ name: "ci", role: "viewer" })).role },
    {
      name: "addToken",
      shows: "a name that is taken",
      ask: (at) => at.addToken({ name: "ci", role: "admin" }),
      fails: "NAME_INVALID",
    },
    { name: "removeToken", ask: (at) => at.removeToken({ name: "ci" }) },
    {
      name: "addWebhook",
      ask: (at) => at.addWebhook({ name: "ops", fleet, url: nobodyListens, types: ["restored"], from: 1 }),
    },
    {
      name: "addWebhook",
      shows: "a position that no fact has",
      ask: (at) => at.addWebhook({ name: "late", fleet, url: nobodyListens, from: 1_000_000 }),
      fails: "NOT_FOUND",
    },
    { name: "moveWebhook", ask: (at) => at.moveWebhook({ name: "ops", from: 2 }) },
    { name: "webhooks", ask: (at) => at.webhooks() },
    { name: "testWebhook", ask: (at) => at.testWebhook({ name: "ops" }) },
    { name: "removeWebhook", ask: (at) => at.removeWebhook({ name: "ops" }) },
    {
      name: "approveEngine",
      shows: "something else",
      ask: (at) => at.approveEngine({ fleet, archive: "AAAA" }),
      fails: "ENGINE_INVALID",
    },
    {
      name: "approveEngine",
      ask: async (at) => at.approveEngine({ fleet, archive: await ownArchive(), because: "vans" }),
    },
    { name: "engines", ask: (at) => at.engines({ fleet }) },
    {
      name: "removeEngine",
      shows: "one that is needed",
      ask: async (at) => at.removeEngine({ fleet, engine: (await at.engines({ fleet }))[0]?.engine ?? "" }),
      fails: "ENGINE_IN_USE",
    },
    {
      name: "removeEngine",
      shows: "an unknown one",
      ask: (at) => at.removeEngine({ fleet, engine: "0123456789" }),
      fails: "NOT_FOUND",
    },
    {
      name: "approveRecipe",
      shows: "something else",
      ask: (at) => at.approveRecipe({ fleet, bundle: "AAAA" }),
      fails: "RECIPE_INVALID",
    },
    {
      name: "approveRecipe",
      ask: (at) => at.approveRecipe({ fleet, bundle: Buffer.from(scaffold).toString("base64") }),
    },
    { name: "recipes", ask: (at) => at.recipes({ fleet }) },
    { name: "revokeRecipe", ask: (at) => at.revokeRecipe({ fleet, recipe: "my-recipe", because: "old" }) },
    {
      name: "trace",
      ask: async (at) => ({ ...(await at.trace({ fleet, id: "rollout:none" })), logSinceMs: 0 }),
    },
    { name: "journal", ask: async (at) => (await at.journal({ fleet, from: 0, limit: 1 })).facts },
    {
      name: "journalHead",
      ask: async (at) => {
        const { head, consistency } = await at.journalHead({ fleet, from: 1 });
        return { head: anyHead(head), consistency: consistency?.slice(0, 0) };
      },
    },
    {
      name: "proveFact",
      ask: async (at) => {
        const { position, head } = await at.proveFact({ fleet, position: 0 });
        const { log, leaf } = { log: { length: 0, root: noHash }, leaf: noHash };
        return { position, fact: null, leaf, log, inclusion: [], head: anyHead(head), consistency: [] };
      },
    },
    {
      name: "proveFact",
      shows: "neither or both of position and model",
      ask: (at) => at.proveFact({ fleet }),
      fails: "USAGE",
    },
    {
      name: "journalEntries",
      ask: async (at) => {
        const { head, facts } = await at.journalEntries({ fleet, from: 0, limit: 2 });
        return { head: anyHead(head), facts: facts.map((fact) => typeof fact) };
      },
    },
    {
      name: "restoreToSign",
      shows: "of a fleet that was not restored",
      ask: (at) => at.restoreToSign({ fleet }),
      fails: "NOT_FOUND",
    },
    {
      name: "approveRestore",
      shows: "what is not its file",
      ask: (at) => at.approveRestore({ fleet, file: "{}" }),
      fails: "RELEASE_METADATA_INVALID",
    },
    { name: "reindex", ask: (at) => at.reindex({ fleet }) },
    {
      name: "addTier",
      ask: async (at) => at.addTier({ name: "cold", folder: await mkdtemp(backupFolder) }),
    },
    {
      name: "addTier",
      shows: "a folder that is not empty",
      ask: (at) => at.addTier({ name: "full", folder: process.cwd() }),
      fails: "TIER_INVALID",
    },
    { name: "tiers", ask: (at) => at.tiers() },
    { name: "planTier", ask: (at) => at.planTier({ fleet, tier: "cold" }) },
    { name: "applyTier", ask: (at) => at.applyTier({ fleet, tier: "cold" }) },
    { name: "removeTier", ask: (at) => at.removeTier({ tier: "cold" }) },
    {
      name: "backup",
      ask: async (at) =>
        Object.keys(await at.backup({ fleet, folder: await mkdtemp(backupFolder), plainKey: true })),
    },
  ];
}
