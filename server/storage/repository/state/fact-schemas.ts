/** Defines the members of each type of fact, and what they may be. */
import * as z from "zod";
import { callerPaths, maxCallerText } from "../../../../shared/journal/caller.js";
import type { Fact } from "../../../../shared/journal/fact.js";
import { storedPolicy } from "../../../../shared/journal/facts/rollout-policy.js";
import { maxCheckedSegments, spotCheckOutcomes } from "../../../../shared/journal/facts/version-facts.js";
import { readShortHash } from "../../../../shared/journal/short-hash.js";
import { isRequestId } from "../../../../shared/request-id.js";
import { isHash } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { maxOwnerTimeBytes, maxRestoreApprovalBytes } from "../../../../shared/wire/limits.js";

/** Characters of a query, saved or not. */
export const maxQueryCharacters = 16_384;
/** Names of one batch. */
export const maxBatchNames = 4096;

const hash = z.preprocess((value) => readShortHash(value) ?? value, z.custom<Hash>(isHash, "not a hash"));
const text = z.string().max(4096);
const time = z.number().min(-8.64e15).max(8.64e15);
const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const generation = count.min(1);
const at = { atMs: time };
/** Parameters of a dataset's reader, limited in number and length. */
const readerParameters = z
  .record(text, z.union([text, z.number(), z.boolean(), z.array(text).max(4096)]))
  .refine((all) => Object.keys(all).length <= 64, "more than 64 parameters");
const callerText = z.string().min(1).max(maxCallerText);
const callerShape = {
  who: callerText,
  through: z.enum(callerPaths),
  role: callerText.optional(),
  claims: callerText.optional(),
};
/** The caller who caused a fact, and the request. Older journals have a text, or nothing. */
const by = {
  by: z.union([text, z.looseObject(callerShape)]).optional(),
  request: z.custom<string>(isRequestId, "not the id of a request").optional(),
};
const deviceCertificate = z.object({
  serial: text,
  keyHash: text,
  notAfterMs: time,
  authority: text.optional(),
  issuer: text.optional(),
});
/** Serial numbers of one fact, at most: a fact has to fit into one entry of the journal. */
export const maxListedSerials = 8192;
const serials = z.array(z.string().regex(/^[0-9a-f]{2,40}$/)).max(maxListedSerials);
const about = { ...at, versionId: hash, because: text, ...by };
const grade = z.enum(["bit-exact", "execution-exact", "different"]);
/** The measured members of a replay; see MeasuredReplay. */
const measured = {
  workMs: count.optional(),
  dataFrom: z.enum(["stored", "registered", "generator"]).optional(),
  description: z.enum(["reader", "stored", "sent", "none"]).optional(),
};
const graded = { ...at, versionId: hash, grade, engineId: hash, because: text, ...by };

const settingValue = z.union([text, z.number()]);
/** The compared losses of a version and of what a device ran. */
const comparedLosses = z
  .looseObject({ samples: count.min(1), meanDifference: z.number(), standardError: z.number().min(0) })
  .optional();
const deviceTrial = z
  .looseObject({
    slowdown: z.number().min(0).optional(),
    moreBytes: z.number().optional(),
    change: z.number().min(0).optional(),
  })
  .optional();
/** Devices of one fact: a fact has to fit into one entry of the journal. */
export const maxWaveFactDevices = 256;

/** One schema per type; members in the order in which they are written. */
export const factSchemas = {
  recorded: {
    ...at,
    versionId: hash,
    name: text,
    version: count,
    tensorBytes: count.optional(),
    ownBytes: count.optional(),
    storedBytes: count.optional(),
    generation: generation.optional(),
    received: z.literal(true).optional(),
    claim: z.literal(true).optional(),
    critical: z.literal(true).optional(),
    ...by,
  },
  proved: { ...graded, ...measured },
  refuted: graded,
  unreplayable: about,
  stored: { ...at, versionId: hash, ...by },
  released: about,
  retired: about,
  held: about,
  unheld: about,
  succeeded: {
    ...at,
    versionId: hash,
    successor: hash,
    removed: z.literal(true).optional(),
    because: text,
    ...by,
  },
  retention: {
    ...at,
    line: text.nullable(),
    name: text.nullable(),
    rule: text.nullable(),
    ...by,
  },
  "drop-policy": {
    ...at,
    line: text.nullable(),
    name: text.nullable(),
    policy: z
      .object({ afterDays: count.nullable(), maxMinutes: count, dataAfterDays: count.optional() })
      .nullable(),
    ...by,
  },
  activated: {
    ...at,
    versionId: hash,
    device: text,
    line: text,
    deviceAtMs: time,
    deviceClockErrorMs: z.number().min(0).max(8.64e15).nullable(),
    session: count,
    number: z.int().min(1).optional(),
  },
  tagged: { ...at, name: text, tag: text, versionId: hash.nullable(), ...by },
  enrolled: {
    ...at,
    device: text,
    generation: generation.optional(),
    publicKey: text,
    tokenHash: text,
    profile: text,
    lines: z.array(text).max(256),
    certificate: deviceCertificate.optional(),
    batch: text.optional(),
    ...by,
  },
  "batch-created": {
    ...at,
    batch: text,
    publicKey: text,
    count: count.min(1),
    expiresAtMs: time,
    profile: text,
    lines: z.array(text).max(256),
    namePattern: text.optional(),
    names: z.array(text).min(1).max(maxBatchNames).optional(),
    hold: z.boolean(),
    mayReplace: z.boolean(),
    labels: z.record(text, text).optional(),
    initial: z.record(text, hash).optional(),
    authority: text.optional(),
    ...by,
  },
  "batch-revoked": { ...at, batch: text, because: text, ...by },
  "authority-added": {
    ...at,
    authority: text,
    certificates: z
      .array(z.string().max(16 * 1024))
      .min(1)
      .max(8),
    nameForm: text,
    onEndedList: z.enum(["serve", "refuse"]),
    ...by,
  },
  "authority-removed": { ...at, authority: text, because: text, ...by },
  "authority-list": {
    ...at,
    authority: text,
    issuer: text,
    revoked: serials,
    restored: serials,
    list: z
      .object({ number: z.string().regex(/^\d{1,50}$/), thisUpdateMs: time, nextUpdateMs: time })
      .optional(),
    ...by,
  },
  certified: { ...at, device: text, generation, certificate: deviceCertificate },
  labelled: { ...at, device: text, labels: z.record(text, text.nullable()), ...by },
  revoked: { ...at, device: text, because: text, ...by },
  quarantined: { ...at, device: text, because: text, ...by },
  unquarantined: { ...at, device: text, because: text, ...by },
  "device-removed": { ...at, device: text, because: text, ...by },
  "device-erased": { ...at, device: text, because: text, ...by },
  settings: { ...at, device: text, settings: z.record(text, settingValue.nullable()), ...by },
  "settings-reported": { ...at, device: text, generation, settings: z.record(text, settingValue) },
  session: { ...at, device: text, session: count },
  assigned: { ...at, device: text, line: text, versionId: hash, rollout: text.optional(), ...by },
  rollout: {
    ...at,
    rollout: text,
    critical: z.literal(true),
    line: text,
    versionId: hash,
    select: text,
    policy: storedPolicy,
    supersedes: text.optional(),
    ...by,
  },
  "rollout-approved": { ...at, rollout: text, because: text, ...by },
  "rollout-phase": {
    ...at,
    rollout: text,
    phase: z.enum(["running", "paused", "aborted", "undone", "done"]),
    because: text,
    ...by,
  },
  wave: {
    ...at,
    rollout: text,
    wave: count.min(1),
    devices: z.array(text).min(1).max(maxWaveFactDevices),
    planned: z
      .array(z.looseObject({ bytes: count, ms: count.nullable() }))
      .max(maxWaveFactDevices)
      .optional(),
  },
  measured: {
    ...at,
    rollout: text,
    device: text,
    before: hash,
    because: text,
    compared: comparedLosses,
    trial: deviceTrial,
  },
  judged: {
    ...at,
    rollout: text,
    device: text,
    verdict: z.enum(["passed", "kept", "worse", "failed", "left", "unknown"]),
    before: hash.nullable(),
    because: text,
    compared: comparedLosses,
    trial: deviceTrial,
    live: z
      .looseObject({
        inputs: count,
        failed: count,
        compared: comparedLosses,
        slowdown: z.number().min(0).optional(),
        change: z.number().min(0).optional(),
      })
      .optional(),
  },
  "switch-failed": { ...at, rollout: text, device: text, because: text },
  given: {
    ...at,
    device: text,
    generation,
    versionId: hash,
    bytes: count.optional(),
    durationMs: count.optional(),
  },
  data: {
    ...at,
    name: text,
    kind: text,
    location: text,
    parameters: readerParameters.optional(),
    hash: hash.nullable(),
    files: z.object({ count, bytes: count, sha256: text, modifiedAtMs: z.number().optional() }).optional(),
    object: hash.optional(),
    description: hash.optional(),
    removed: z.boolean().optional(),
    ...by,
  },
  replayed: {
    ...at,
    versionId: hash,
    verdict: z.enum(["proved", "refuted"]),
    grade,
    engineId: hash,
    because: text,
    ...by,
    ...measured,
  },
  "spot-checked": {
    ...at,
    versionId: hash,
    outcome: z.enum(spotCheckOutcomes),
    segments: z.array(count).max(maxCheckedSegments),
    of: count,
    engineId: hash,
    because: text,
    ...by,
  },
  dropped: {
    ...at,
    critical: z.literal(true),
    versionId: hash,
    base: hash.nullable(),
    engine: hash,
    engineId: hash,
    data: hash.nullable(),
    replayMs: count,
    because: text,
    ...by,
  },
  kept: about,
  "data-dropped": { ...at, critical: z.literal(true), versionId: hash, because: text, ...by },
  listed: { ...at, versionId: hash, license: text.optional(), task: text.optional(), ...by },
  evaluated: { ...at, versionId: hash, object: hash, predictions: hash.optional(), ...by },
  redacted: { ...at, object: hash, because: text, ...by },
  "engine-approved": {
    ...at,
    engine: hash,
    engineId: hash,
    source: z.enum(["build", "approval"]),
    because: text,
    ...by,
  },
  "engine-removed": { ...at, engine: hash, because: text, ...by },
  published: {
    ...at,
    critical: z.literal(true),
    object: hash,
    root: count.min(1),
    targets: count.min(1),
    timestamp: count.min(1),
    because: text,
    ...by,
  },
  "recipe-approved": { ...at, recipe: hash, name: text, version: count, because: text, ...by },
  "recipe-revoked": { ...at, recipe: hash, because: text, ...by },
  "recipe-given": { ...at, device: text, recipe: hash },
  webhook: {
    ...at,
    name: text,
    change: z.enum(["added", "moved", "removed"]),
    host: text,
    from: count.nullable(),
    ...by,
  },
  "server-key": { ...at, publicKey: text, before: text, revoked: z.boolean(), ...by },
  backup: { ...at, position: count, location: text, ...by },
  restored: {
    ...at,
    position: count,
    lostFrom: count.nullable(),
    id: z
      .string()
      .regex(/^[0-9a-f]{32}$/)
      .optional(),
    ...by,
  },
  query: {
    ...at,
    name: text,
    change: z.enum(["saved", "deleted"]),
    text: z.string().max(maxQueryCharacters).optional(),
    ...by,
  },
  "time-stated": { ...at, number: count, statement: z.string().max(maxOwnerTimeBytes), ...by },
  "restore-approved": { ...at, restore: count, approval: z.string().max(maxRestoreApprovalBytes), ...by },
} satisfies Record<Fact["type"], z.ZodRawShape>;
