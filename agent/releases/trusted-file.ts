/**
 * The metadata of releases that a device trusts, in one file, so that no crash leaves parts of different moments. A
 * file that is torn or damaged, or belongs to another pin, counts as absent: the pinned root stays.
 */
import { join } from "node:path";
import * as z from "zod";
import { messageOf } from "../../shared/error-text.js";
import { writeDurably } from "../../shared/files/durable-write.js";
import { makeFolderDurably } from "../../shared/files/make-folder.js";
import type { Files } from "../../shared/ports.js";
import { isHash, sha256 } from "../../shared/tensor/hash.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { parseJson } from "../../shared/trust/keys.js";
import { metadataText, parseMetadata, verifyRole } from "../../shared/trust/releases/metadata.js";
import { pinnedRoot, type TrustedReleases } from "../../shared/trust/releases/trusted-releases.js";
import { DeviceTime, type KeptTimeParts } from "../identity/device-time.js";
import type { ReleasePin } from "./release-pin.js";

const fileSchema = z.strictObject({
  format: z.literal(1),
  /** Hash of the pinned root that the rest follows from. */
  pin: z.string(),
  set: z.custom<Hash>(isHash).nullable(),
  /** Time of the server that agents kept here before they had time.json; written as 0 since. */
  latestMs: z.number().min(0),
  root: z.string(),
  timestamp: z.string().nullable(),
  snapshot: z.string().nullable(),
  targets: z.string().nullable(),
});

export interface TrustedFile {
  readonly pin: Hash;
  readonly trusted: TrustedReleases;
  /** The set that was taken completely last. */
  readonly set: Hash | undefined;
}

const pathIn = (folder: string): string => join(folder, "trusted.json");

/** @throws RELEASE_METADATA_INVALID where the pinned root itself is not valid */
export async function loadTrusted(
  files: Files,
  folder: string,
  pin: ReleasePin,
): Promise<{ readonly file: TrustedFile; readonly damage?: string }> {
  const pinHash = sha256(pin.root);
  const begin: TrustedFile = {
    pin: pinHash,
    trusted: pinnedRoot(pin.root),
    set: undefined,
  };
  const path = pathIn(folder);
  if ((await files.stat(path)) === undefined) return { file: begin };
  try {
    const file = fileSchema.parse(JSON.parse(new TextDecoder().decode(await files.read(path))));
    if (file.pin !== pinHash) return { file: begin };
    const { root } = pinnedRoot(file.root);
    if (root.signed.version < begin.trusted.root.signed.version) return { file: begin };
    const read = <Role extends "timestamp" | "snapshot" | "targets">(role: Role) => {
      const text = file[role];
      if (text === null) return undefined;
      const metadata = parseMetadata(role, text);
      verifyRole(root.signed, role, metadata);
      return metadata;
    };
    const trusted = {
      root,
      timestamp: read("timestamp"),
      snapshot: read("snapshot"),
      targets: read("targets"),
    };
    return { file: { pin: pinHash, trusted, set: file.set ?? undefined } };
  } catch (error) {
    return { file: begin, damage: `${path} cannot be used (${messageOf(error)})` };
  }
}

export async function saveTrusted(files: Files, folder: string, file: TrustedFile): Promise<void> {
  const { root, timestamp, snapshot, targets } = file.trusted;
  await makeFolderDurably(files, folder);
  const content = {
    format: 1,
    pin: file.pin,
    set: file.set ?? null,
    latestMs: 0,
    root: metadataText(root),
    timestamp: timestamp === undefined ? null : metadataText(timestamp),
    snapshot: snapshot === undefined ? null : metadataText(snapshot),
    targets: targets === undefined ? null : metadataText(targets),
  };
  await writeDurably(files, pathIn(folder), new TextEncoder().encode(`${JSON.stringify(content)}\n`));
}

/** Opens the time that a device believes. Agents that had no file for it kept the latest one here. */
export async function openDeviceTime(parts: KeptTimeParts): Promise<DeviceTime> {
  return await DeviceTime.open(parts, () => earlierLatestMs(parts));
}

async function earlierLatestMs({ files, home }: KeptTimeParts): Promise<number> {
  const path = pathIn(join(home, "releases"));
  if ((await files.stat(path)) === undefined) return 0;
  return fileSchema.safeParse(parseJson(await files.read(path))).data?.latestMs ?? 0;
}
