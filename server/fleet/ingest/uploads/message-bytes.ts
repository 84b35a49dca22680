/** Bytes of a device's messages, as quotas and figures count them: content without headers. */
import { listEncodingReferences } from "../../../../shared/wire/encoding-links.js";
import type { ManifestPart } from "../../../../shared/wire/messages.js";
import type { Accepted } from "./announcement.js";

/** Bytes that an object id takes in a manifest, with its length and tag. */
const idBytes = 34;

export function announcementBytes({
  recordBytes,
  objects,
}: Pick<Accepted, "recordBytes" | "objects">): number {
  return recordBytes.length + [...objects.values()].reduce((sum, { bytes }) => sum + bytes.length, 0);
}

export function manifestBytes({ blockHashes, encodings }: ManifestPart): number {
  const count = encodings.reduce((sum, encoding) => sum + listEncodingReferences(encoding).length, 0);
  return 32 * blockHashes.length + 8 * encodings.length + idBytes * count;
}
