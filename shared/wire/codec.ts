/**
 * Encodes and decodes envelopes by one table of message types. Every bound is checked before the generated
 * decoder allocates; unknown fields are ignored; malformed messages are typed errors. Knows no topics, keys
 * or permissions. (docs/protocol.md)
 */
import { maxOtherReferences } from "../delta/links.js";
import { StemmaError } from "../errors.js";
import { objectKinds } from "../model/model.js";
import { frameBlock } from "./block-frame.js";
import * as field from "./fields.js";
import { type Fields } from "./fields.js";
import { scanEnvelope } from "./scan.js";
import {
  blockOverheadBytes,
  blocksPerManifestPart,
  encodingsPerManifestPart,
  maxBlockBytes,
  maxCheckpointBytes,
  maxListLength,
  maxProofHashes,
  maxProvenEntryBytes,
  maxProvenRestores,
  maxReferences,
  maxReleaseManifestBytes,
  maxStreamedObjects,
  maxTextLength,
  maxMessageBytes,
  oldestProtocolVersion,
  protocolVersion,
  maxOwnerTimeBytes,
  releasePartBytes,
} from "./limits.js";
import type * as messages from "./messages.js";
import { stemma } from "./generated/stemma-protocol.js";

const shortText = field.text(256);
const longText = field.text(maxTextLength);
const transfer = field.matching(/^[0-9a-f]{16,32}$/, "16 to 32 lower-case hex digits");
const transferOrNone = field.matching(
  /^[0-9a-f]{16,32}$/,
  "16 to 32 lower-case hex digits, or nothing",
  true,
);
const messageBytes = field.bytes(maxMessageBytes);

const lineHead = field.message<messages.LineHead>({
  line: shortText,
  sequence: field.u64,
  versionId: field.optionalHash,
  activeVersionId: field.optionalHash,
  activeNumber: field.nonZero(field.u64),
});
const head = field.optional(
  field.message<messages.WireHead>({
    length: field.u64,
    chain: field.hash,
    root: field.hash,
    publicKey: field.publicKey,
    signature: field.signature,
  }),
);
const smallObject = field.message<messages.SmallObject>({
  kind: field.oneOf(objectKinds),
  data: messageBytes,
});
const objectRef = field.message<messages.ObjectRef>({
  kind: field.oneOf([...objectKinds, "tensor"] as const),
  id: field.hash,
  byteLength: field.u64,
});
const encoding = field.message<messages.Encoding>({
  code: field.u32,
  byteLength: field.u64,
  against: field.optionalHash,
  previous: field.optionalHash,
  references: field.nonEmpty(field.list(field.hash, maxOtherReferences)),
});
const codingTerms: Fields<messages.CodingTerms> = {
  codec: field.nonZero(field.u32),
  references: field.nonEmpty(field.list(field.hash, maxReferences)),
  streamBytes: field.nonZero(field.u64),
};
const generation = field.nonZero(field.u32);
const proofHashes = field.hashes(maxProofHashes);
const startProof = field.optional(
  field.message<messages.StartProof>({ length: field.u64, hashes: proofHashes }),
);
const provenFact = field.message<messages.ProvenFact>({
  position: field.u64,
  entry: field.bytes(maxProvenEntryBytes),
  hashes: proofHashes,
  approval: field.optional(field.message<messages.WireApproval>({ text: longText, hashes: proofHashes })),
});
const indices = field.list(field.u32, maxListLength);

/** Every type of message, by its name in the envelope. */
const bodies: { readonly [Type in messages.BodyType]: Fields<messages.BodyOf<Type>> } = {
  state: {
    online: field.flag,
    previousSession: field.u64,
    generation,
    signature: field.optionalSignature,
  },
  birth: {
    agentVersion: shortText,
    profile: shortText,
    runtime: longText,
    oldestProtocol: field.u32,
    heads: field.list(lineHead),
    seenJournalLength: field.u64,
    seenJournalChain: field.optionalHash,
    unreleased: field.u64,
    clockMs: field.i64,
    clockErrorMs: field.errorMs,
    generation,
    seenJournalRoot: field.optionalHash,
    restoresFrom: field.nonZero(field.u64),
    releaseSet: field.optionalHash,
    releasePolicy: field.nonEmptyText(64),
  },
  welcome: {
    serverVersion: shortText,
    protocol: field.u32,
    head,
    clockMs: field.i64,
    restored: field.flag,
    restoredPosition: field.u64,
    known: field.list(lineHead),
    blockBytes: field.u32,
    window: field.u32,
    start: startProof,
    restores: field.nonEmpty(field.list(provenFact, maxProvenRestores)),
    restoresFrom: field.nonZero(field.u64),
    moreRestores: field.ifTrue,
  },
  announce: {
    record: messageBytes,
    signature: field.signature,
    objects: field.list(smallObject),
    tensorBytes: field.u64,
    streamedBytes: field.nonEmpty(field.list(field.u64, maxStreamedObjects)),
    usesTensorBytes: field.nonZero(field.u64),
    claim: field.ifTrue,
  },
  want: {
    reason: field.choice(["tensors", "objects", "base", "raw"]),
    versionId: field.hash,
    transfer: transferOrNone,
    objects: field.list(objectRef),
    bases: field.list(field.hash),
    blockBytes: field.u32,
    part: field.u32,
    parts: field.u32,
    more: field.flag,
    tensorIndices: indices,
    ownReferences: field.ifTrue,
    optimizerReference: field.optionalHash,
    ...codingTerms,
  },
  manifest: {
    transfer,
    part: field.u32,
    parts: field.u32,
    byteLength: field.u64,
    blockBytes: field.u32,
    blockHashes: field.hashes(blocksPerManifestPart),
    encodings: field.list(encoding, encodingsPerManifestPart),
  },
  blockRequest: { transfer, blocks: indices, manifestParts: indices },
  block: { index: field.u32, data: field.bytes(maxBlockBytes) },
  receipt: {
    kind: field.choice(["recorded", "stored", "released"]),
    versionId: field.hash,
    fleet: shortText,
    device: shortText,
    session: field.u64,
    generation,
    position: field.u64,
    head,
    backedUpTo: field.u64,
    name: shortText,
    version: field.u32,
    publicKey: field.publicKey,
    signature: field.signature,
    start: startProof,
    fact: field.optional(provenFact),
  },
  refusal: {
    code: shortText,
    message: longText,
    versionId: field.optionalHash,
    transfer: transferOrNone,
    retry: field.flag,
    retryAfterMs: field.u32,
  },
  activated: {
    versionId: field.hash,
    line: shortText,
    atMs: field.i64,
    clockErrorMs: field.errorMs,
    number: field.nonZero(field.u64),
  },
  activationReceipt: { line: shortText, number: field.u64 },
  offer: {
    line: shortText,
    versionId: field.hash,
    record: messageBytes,
    objects: field.list(smallObject),
    signature: field.signature,
    name: shortText,
    version: field.u32,
    generation,
    staged: field.ifTrue,
    release: field.optional(
      field.message<messages.OfferedRelease>({
        name: shortText,
        manifest: field.bytes(maxReleaseManifestBytes),
      }),
    ),
    pipeline: field.optional(
      field.message<messages.OfferedPipeline>({ id: field.hash, data: field.nonEmptyBytes(maxMessageBytes) }),
    ),
    logged: field.optional(
      field.message<messages.LoggedVersion>({
        checkpoint: field.text(maxCheckpointBytes),
        fact: provenFact,
        start: startProof,
      }),
    ),
  },
  fetch: {
    versionId: field.hash,
    transfer,
    objects: field.list(objectRef),
    blockBytes: field.u32,
    part: field.u32,
    parts: field.u32,
    ...codingTerms,
  },
  command: { name: shortText, json: field.text(maxMessageBytes) },
  commandResult: { code: shortText, json: field.text(maxMessageBytes) },
  transferDone: { transfer },
  parked: { versionId: field.hash, expiresMs: field.u32 },
  event: { name: shortText, text: longText, line: shortText, versionId: field.optionalHash },
  ownerTime: { statement: field.text(maxOwnerTimeBytes) },
  releasePart: { set: field.hash, part: field.u32, parts: field.u32, data: field.bytes(releasePartBytes) },
};

/** All types of messages. */
export const bodyTypes = Object.keys(bodies) as messages.BodyType[];

const envelopeFields: Fields<Omit<messages.Envelope, "body">> = {
  protocol: field.u32,
  session: field.u64,
  sequence: field.u64,
  correlation: field.text(64),
  expiresMs: field.u32,
  issuedMs: field.nonZero(field.u64),
};

/** The largest envelope of this type, in bytes. */
export function maxEnvelopeBytes(type: messages.BodyType): number {
  return type === "block" ? maxBlockBytes + blockOverheadBytes : maxMessageBytes;
}

function fieldsOf<Type extends messages.BodyType>(type: Type): Fields<messages.Body> {
  return bodies[type];
}

/**
 * Bytes of an envelope, ready to publish.
 * @throws ENVELOPE_MALFORMED where a value is outside its bounds, ENVELOPE_TOO_LARGE where a message is
 * longer than 64 KiB (send it as blocks)
 */
export function encodeEnvelope(envelope: messages.Envelope): Uint8Array {
  const { type } = envelope.body;
  if (!Object.hasOwn(bodies, type)) throw field.malformed("body", `is of the unknown type ${String(type)}`);
  const encoded = encodeChecked(envelope, type);
  const maxBytes = maxEnvelopeBytes(type);
  if (encoded.length > maxBytes)
    throw new StemmaError(
      "ENVELOPE_TOO_LARGE",
      `A ${type} of ${encoded.length} bytes is longer than the ${maxBytes} allowed. Send its content as blocks, or in parts.`,
      { type, bytes: encoded.length, most: maxBytes },
    );
  return encoded;
}

function encodeChecked(envelope: messages.Envelope, type: messages.BodyType): Uint8Array {
  const header = field.encodeFields(envelopeFields, envelope, "envelope");
  const body = field.encodeFields(fieldsOf(type), envelope.body, type);
  const framed =
    envelope.body.type === "block"
      ? frameBlock(encodePlain(header), envelope.body.index, envelope.body.data)
      : undefined;
  return framed ?? encodePlain({ ...header, [type]: body });
}
function encodePlain(plain: Record<string, unknown>): Uint8Array {
  return stemma.v1.Envelope.encode(plain).finish();
}

/**
 * The envelope in received bytes. Byte fields are views of `bytes`.
 * @param maxBytes the limit of its topic: `maxMessageBytes`, or a block's size plus
 * `blockOverheadBytes`
 * @throws ENVELOPE_TOO_LARGE, ENVELOPE_MALFORMED, PROTOCOL_VERSION_UNSUPPORTED
 */
export function decodeEnvelope(
  bytes: Uint8Array,
  { maxBytes = maxMessageBytes }: { readonly maxBytes?: number } = {},
): messages.Envelope {
  if (bytes.length > maxBytes)
    throw new StemmaError(
      "ENVELOPE_TOO_LARGE",
      `A message of ${bytes.length} bytes is longer than the ${maxBytes} allowed on its topic; it is ignored.`,
      { bytes: bytes.length, most: maxBytes },
    );
  const { protocol } = scanEnvelope(bytes);
  if (protocol < oldestProtocolVersion || protocol > protocolVersion) {
    throw new StemmaError(
      "PROTOCOL_VERSION_UNSUPPORTED",
      `A message has protocol version ${protocol}; this program supports ${oldestProtocolVersion} to ${protocolVersion}. Update the older side.`,
      { protocol },
    );
  }
  const plain = decodePlain(bytes);
  const type = bodyTypes.find((one) => Object.hasOwn(plain, one));
  if (type === undefined)
    throw field.malformed("body", "is missing or of a type that this version does not know");
  if (bytes.length > maxEnvelopeBytes(type))
    throw new StemmaError(
      "ENVELOPE_TOO_LARGE",
      `A ${type} of ${bytes.length} bytes is longer than the ${maxEnvelopeBytes(type)} allowed; it is ignored.`,
      { type, bytes: bytes.length },
    );
  const body = {
    type,
    ...field.decodeFields(fieldsOf(type), (plain as unknown as Record<string, object>)[type] as object, type),
  } as messages.Body;
  return {
    ...field.decodeFields<Omit<messages.Envelope, "body">>(envelopeFields, plain, "envelope"),
    body,
  };
}

function decodePlain(bytes: Uint8Array): stemma.v1.Envelope {
  try {
    return stemma.v1.Envelope.decode(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  } catch (cause) {
    throw new StemmaError(
      "ENVELOPE_MALFORMED",
      "A message is not an envelope of Stemma's protocol. The sender is broken, hostile or of another version; the message is ignored.",
      { cause },
    );
  }
}
