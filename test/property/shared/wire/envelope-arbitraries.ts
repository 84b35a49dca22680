/** fast-check arbitraries for every type of message, within the limits of the protocol. */
import fc from "fast-check";
import { objectKinds } from "../../../../shared/model/model.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { Body, BodyOf, BodyType, Envelope } from "../../../../shared/wire/messages.js";

const hexDigits = (bytes: number): fc.Arbitrary<string> =>
  fc.uint8Array({ minLength: bytes, maxLength: bytes }).map((data) => Buffer.from(data).toString("hex"));
const hash = hexDigits(32) as fc.Arbitrary<Hash>;
const u32 = fc.nat({ max: 2 ** 32 - 1 });
const u64 = fc.nat({ max: Number.MAX_SAFE_INTEGER });
const i64 = fc
  .integer({ min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER })
  .map((value) => value + 0);
const errorMs = fc.option(u64, { nil: null });
const text = fc.string({ unit: "binary", maxLength: 60 }).filter((value) => !value.includes("\0"));
const bytes = fc.uint8Array({ maxLength: 300 }).map((data) => new Uint8Array(data));
const transfer = hexDigits(16);
const some = <T>(one: fc.Arbitrary<T>): fc.Arbitrary<T[]> => fc.array(one, { maxLength: 6 });
/** Omits absent properties, as the decoder does. */
function record<T extends object>(model: { [K in keyof T]-?: fc.Arbitrary<T[K]> }): fc.Arbitrary<T> {
  return fc
    .record(model as Record<string, fc.Arbitrary<unknown>>)
    .map((value) => Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as T);
}
const optional = <T>(one: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(one, { nil: undefined });

const lineHead = record<BodyOf<"birth">["heads"][number]>({
  line: text,
  sequence: u64,
  versionId: optional(hash),
  activeVersionId: optional(hash),
  activeNumber: optional(u64.filter((value) => value > 0)),
});
const head = record<NonNullable<BodyOf<"welcome">["head"]>>({
  length: u64,
  chain: hash,
  root: hash,
  publicKey: hexDigits(32),
  signature: hexDigits(64),
});
const smallObject = record<BodyOf<"announce">["objects"][number]>({
  kind: fc.constantFrom(...objectKinds),
  data: bytes,
});
const objectRef = record<BodyOf<"want">["objects"][number]>({
  kind: fc.constantFrom(...objectKinds, "tensor" as const),
  id: hash,
  byteLength: u64,
});
const encoding = record<BodyOf<"manifest">["encodings"][number]>({
  code: u32,
  byteLength: u64,
  against: optional(hash),
  previous: optional(hash),
  references: optional(fc.array(hash, { minLength: 1, maxLength: 6 })),
});
const codingTerms = {
  codec: optional(u32.filter((value) => value > 0)),
  references: optional(fc.array(hash, { minLength: 1, maxLength: 6 })),
  streamBytes: optional(u64.filter((value) => value > 0)),
};

const proofHashes = fc.array(hash, { maxLength: 8 });
const startProof = record({ length: u64, hashes: proofHashes });
const provenFact = record({
  position: u64,
  entry: bytes,
  hashes: proofHashes,
  approval: optional(record({ text, hashes: proofHashes })),
});
const generation = optional(u32.filter((value) => value > 0));

export const bodyArbitraries: { readonly [Type in BodyType]: fc.Arbitrary<BodyOf<Type>> } = {
  state: record({ type: fc.constant("state"), online: fc.boolean(), previousSession: u64, generation }),
  birth: record({
    type: fc.constant("birth"),
    agentVersion: text,
    profile: text,
    runtime: text,
    oldestProtocol: u32,
    heads: some(lineHead),
    seenJournalLength: u64,
    seenJournalChain: optional(hash),
    unreleased: u64,
    clockMs: i64,
    clockErrorMs: errorMs,
    generation,
    seenJournalRoot: optional(hash),
    releaseSet: optional(hash),
    releasePolicy: fc.constantFrom("required", undefined),
  }),
  welcome: record({
    type: fc.constant("welcome"),
    serverVersion: text,
    protocol: u32,
    head: optional(head),
    clockMs: i64,
    restored: fc.boolean(),
    restoredPosition: u64,
    known: some(lineHead),
    blockBytes: u32,
    window: u32,
    start: optional(startProof),
    restores: optional(fc.array(provenFact, { minLength: 1, maxLength: 3 })),
  }),
  announce: record({
    type: fc.constant("announce"),
    record: bytes,
    signature: hexDigits(64),
    objects: some(smallObject),
    tensorBytes: u64,
    streamedBytes: optional(fc.array(u64, { minLength: 1, maxLength: 6 })),
    usesTensorBytes: optional(u64.filter((value) => value > 0)),
  }),
  want: record({
    type: fc.constant("want"),
    reason: fc.constantFrom("tensors", "objects", "base", "raw"),
    versionId: hash,
    transfer: fc.oneof(transfer, fc.constant("")),
    objects: some(objectRef),
    bases: some(hash),
    blockBytes: u32,
    part: u32,
    parts: u32,
    more: fc.boolean(),
    tensorIndices: some(u32),
    ownReferences: optional(fc.constant(true)),
    optimizerReference: optional(hash),
    ...codingTerms,
  }),
  manifest: record({
    type: fc.constant("manifest"),
    transfer,
    part: u32,
    parts: u32,
    byteLength: u64,
    blockBytes: u32,
    blockHashes: some(hash),
    encodings: some(encoding),
  }),
  blockRequest: record({
    type: fc.constant("blockRequest"),
    transfer,
    blocks: some(u32),
    manifestParts: some(u32),
  }),
  block: record({ type: fc.constant("block"), index: u32, data: bytes }),
  receipt: record({
    type: fc.constant("receipt"),
    kind: fc.constantFrom("recorded", "stored", "released"),
    versionId: hash,
    fleet: text,
    device: text,
    session: u64,
    generation,
    position: u64,
    head: optional(head),
    backedUpTo: u64,
    name: text,
    version: u32,
    publicKey: hexDigits(32),
    signature: hexDigits(64),
    start: optional(startProof),
    fact: optional(provenFact),
  }),
  refusal: record({
    type: fc.constant("refusal"),
    code: text,
    message: text,
    versionId: optional(hash),
    transfer: fc.oneof(transfer, fc.constant("")),
    retry: fc.boolean(),
    retryAfterMs: u32,
  }),
  activated: record({
    type: fc.constant("activated"),
    versionId: hash,
    line: text,
    atMs: i64,
    clockErrorMs: errorMs,
    number: optional(u64.filter((value) => value > 0)),
  }),
  ownerTime: record({ type: fc.constant("ownerTime"), statement: text }),
  activationReceipt: record({ type: fc.constant("activationReceipt"), line: text, number: u64 }),
  offer: record({
    type: fc.constant("offer"),
    line: text,
    versionId: hash,
    record: bytes,
    objects: some(smallObject),
    signature: hexDigits(64),
    name: text,
    version: u32,
    generation,
    staged: fc.constantFrom(true, undefined),
    release: optional(record<NonNullable<BodyOf<"offer">["release"]>>({ name: text, manifest: bytes })),
    pipeline: optional(
      record<NonNullable<BodyOf<"offer">["pipeline"]>>({
        id: hash,
        data: optional(fc.uint8Array({ minLength: 1, maxLength: 40 })),
      }),
    ),
    logged: optional(
      record<NonNullable<BodyOf<"offer">["logged"]>>({
        checkpoint: text,
        fact: provenFact,
        start: optional(startProof),
      }),
    ),
  }),
  releasePart: record({ type: fc.constant("releasePart"), set: hash, part: u32, parts: u32, data: bytes }),
  fetch: record({
    type: fc.constant("fetch"),
    versionId: hash,
    transfer,
    objects: some(objectRef),
    blockBytes: u32,
    part: u32,
    parts: u32,
    ...codingTerms,
  }),
  command: record({ type: fc.constant("command"), name: text, json: text }),
  commandResult: record({ type: fc.constant("commandResult"), code: text, json: text }),
  transferDone: record({ type: fc.constant("transferDone"), transfer }),
  parked: record({ type: fc.constant("parked"), versionId: hash, expiresMs: u32 }),
  event: record({ type: fc.constant("event"), name: text, text, line: text, versionId: optional(hash) }),
};

export const envelopes: fc.Arbitrary<Envelope> = record<Envelope>({
  protocol: fc.constant(1),
  session: u64,
  sequence: u64,
  correlation: text,
  expiresMs: u32,
  issuedMs: fc.option(
    u64.filter((ms) => ms > 0),
    { nil: undefined },
  ),
  body: fc.oneof(...(Object.values(bodyArbitraries) as fc.Arbitrary<Body>[])),
});
