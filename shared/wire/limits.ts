/**
 * Bounds of the wire: what may be sent, and what is refused before anything is allocated for it (FORMATS
 * "Wire", DESIGN "Limits before trust").
 */

/** The version this program speaks, and the oldest one it still answers. */
export const protocolVersion = 1;
export const oldestProtocolVersion = 1;

/** Longest encoded envelope that is not a block; anything longer travels as blocks. Bytes. */
export const maxMessageBytes = 64 * 1024;
/** Blocks: smallest, default and largest size, in bytes. */
export const minBlockBytes = 4 * 1024;
export const defaultBlockBytes = 256 * 1024;
export const maxBlockBytes = 512 * 1024;
/** What an envelope adds to the bytes of its block at most. */
export const blockOverheadBytes = 256;
/** What an MQTT PUBLISH adds to its payload at most: fixed header, topic, packet identifier. */
export const publishOverheadBytes = 512;

/** Blocks a receiver asks for at once, unless the profile says otherwise. */
export const defaultWindow = 8;
export const maxWindow = 64;
/**
 * Blocks in one manifest part, and encodings of objects in one manifest part (both fixed by the protocol).
 */
export const blocksPerManifestPart = 16;
export const encodingsPerManifestPart = 512;
/** Versions that one transfer may be coded against. */
export const maxReferences = 16;
/** Largest tensor that is coded: coder and decoder hold it whole, beside what it is coded against. */
export const maxWireCodedTensorBytes = 256 * 1024 * 1024;
/** Largest stream one transfer may carry, in bytes. */
export const maxTransferBytes = 2 ** 40;
/** Largest number of blocks in one stream (a bitmap of 512 KiB). */
export const maxBlocks = 2 ** 22;

/** Longest names and texts, in UTF-16 code units. */
export const maxNameLength = 64;
export const maxTextLength = 4096;
export const maxTokenLength = 256;
/** Largest number of entries in any list of a word, and of fields in any one message. */
export const maxListLength = 16 * 1024;
export const maxFieldsPerMessage = 3 * maxListLength;
