/**
 * Bytes of all attachments of a version that a device reports. A server takes 64 MiB of small objects with one
 * announcement (limits.maxObjectBytes); the rest is for trees, names and measurements.
 */
export const maxAttachmentBytes = 48 * 2 ** 20;
