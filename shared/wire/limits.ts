/**
 * Bounds of the protocol: what may be sent, and what is refused before anything is allocated for it
 * (docs/protocol.md, "Limits").
 */

/** The protocol version of this program, and the oldest one it still accepts. */
export const protocolVersion = 1;
export const oldestProtocolVersion = 1;

/** Longest encoded envelope that is not a block; anything longer is sent as blocks. Bytes. */
export const maxMessageBytes = 64 * 1024;
/** Blocks: smallest and largest size, in bytes. */
export const minBlockBytes = 4 * 1024;
export const maxBlockBytes = 512 * 1024;
/** The most that an envelope adds to its block, in bytes. */
export const blockOverheadBytes = 256;
/** The most that an MQTT PUBLISH adds to its payload, in bytes: fixed header, topic, packet identifier. */
export const publishOverheadBytes = 512;

/** Blocks that a receiver requests concurrently, unless the profile sets another number. */
export const defaultWindow = 8;
export const maxWindow = 64;
/**
 * Blocks in one manifest part, and encodings of objects in one manifest part (both fixed by the protocol).
 */
export const blocksPerManifestPart = 16;
export const encodingsPerManifestPart = 512;
/**
 * References after the first two that the encodings of one manifest part name together, at most: with them the part
 * stays below the maximum size of a message.
 */
export const otherReferencesPerManifestPart = 512;
/** Versions that one transfer may be coded against. */
export const maxReferences = 16;
/** Largest tensor that is sent coded, in bytes: it is held in memory with the tensors it is coded against. */
export const maxWireCodedTensorBytes = 256 * 1024 * 1024;
/**
 * Bytes of the tensors that one transfer may send in mixed bits, which take about a second per megabyte to decode: a
 * few kilobytes can stand for all of them.
 */
export const maxWireMixedBytes = 8 * 1024 * 1024;
/** Largest number of blocks in one stream (a bitmap of 512 KiB). */
export const maxBlocks = 2 ** 22;

/** Objects of one version that stream: as many data sets as a record names, and its recipe. */
export const maxStreamedObjects = 257;
/** Tensor indices in one part of a want: with four bytes each and its objects it stays below maxMessageBytes. */
export const indicesPerWant = 12 * 1024;

/**
 * Proofs about the journal: hashes of one proof (a log of 2^53 entries needs 54), bytes of a proven entry, and
 * proven restores in one welcome; further ones are asked for with another birth.
 */
export const maxProofHashes = 64;
export const maxProvenEntryBytes = 16 * 1024;
export const maxProvenRestores = 16;
/** The owner's signature of a restore; bytes of all restores in one welcome, with what proves them. */
export const maxRestoreApprovalBytes = 4096;
export const maxRestoresBytes = 40 * 1024;

/** A checkpoint with what witnesses signed, in bytes. */
export const maxCheckpointBytes = 16 * 1024;
/** The owner's statement of the time, in bytes. */
export const maxOwnerTimeBytes = 4096;

/** A set of metadata of releases: bytes of one part, parts of one set, bytes of a release's manifest. */
export const releasePartBytes = 48 * 1024;
export const maxReleaseParts = 64;
export const maxReleaseManifestBytes = 16 * 1024;

/** Longest names and texts, in UTF-16 code units. */
export const maxNameLength = 64;
export const maxTextLength = 4096;
/** Largest number of items in any list of a message, and of fields in any message. */
export const maxListLength = 16 * 1024;
export const maxFieldsPerMessage = 3 * maxListLength;
