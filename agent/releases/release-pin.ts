/**
 * The root of releases that a device pinned, and what it asks of the versions that it installs. Pinned once: by
 * `stemma agent trust`, or from the enrolment at its first use. An enrolment that comes later can ask for more, never
 * for less.
 */
import { join } from "node:path";
import * as z from "zod";
import { writeDurably } from "../../shared/files/durable-write.js";
import { makeFolderDurably } from "../../shared/files/make-folder.js";
import type { Files } from "../../shared/ports.js";
import { maxMetadataBytes } from "../../shared/trust/releases/metadata.js";
import { releasePolicies, type ReleasePolicy } from "../../shared/trust/enrolment.js";
import { pinnedRoot } from "../../shared/trust/releases/trusted-releases.js";
import { parseJsonFile } from "../settings/json-file.js";
import { otherRootPinned, pinDamaged, rootTooLong } from "./release-errors.js";

export { releasePolicies, type ReleasePolicy };

const pinSchema = z.strictObject({
  format: z.literal(1),
  root: z.string(),
  policy: z.enum(releasePolicies),
});
/** `root`: the text of root metadata. */
export type ReleasePin = Pick<z.infer<typeof pinSchema>, "root" | "policy">;

const pathOf = (home: string): string => join(home, "releases", "pin.json");

/** @throws CONFIG_INVALID: a device that cannot read what it pinned does not go on without it */
export async function readPin(files: Files, home: string): Promise<ReleasePin | undefined> {
  const path = pathOf(home);
  if ((await files.stat(path)) === undefined) return undefined;
  const parsed = pinSchema.safeParse(await parseJsonFile(files, path, "CONFIG_INVALID"));
  if (!parsed.success) throw pinDamaged(path);
  const { root, policy } = parsed.data;
  return { root, policy };
}

/** @throws RELEASE_METADATA_INVALID where the root is not signed by its own keys */
export async function writePin(files: Files, home: string, { root, policy }: ReleasePin): Promise<void> {
  pinnedRoot(root);
  await makeFolderDurably(files, join(home, "releases"));
  await writeDurably(
    files,
    pathOf(home),
    new TextEncoder().encode(`${JSON.stringify({ format: 1, root, policy })}\n`),
  );
}

/**
 * Pins a root that a person brings.
 * @throws NOT_ALLOWED where another one is pinned and `replace` is not set; RELEASE_METADATA_INVALID
 */
export async function pinByHand(
  files: Files,
  home: string,
  pin: ReleasePin,
  replace: boolean,
): Promise<"pinned" | "unchanged"> {
  const present = replace ? undefined : await readPin(files, home);
  if (present?.root === pin.root && present.policy === pin.policy) return "unchanged";
  if (present !== undefined) throw otherRootPinned();
  if (pin.root.length > maxMetadataBytes.root) throw rootTooLong();
  await writePin(files, home, pin);
  return "pinned";
}

/** Returns the root that the device pinned; what the enrolment brings is pinned now, where nothing was. */
export async function pinOf(
  files: Files,
  home: string,
  offered: ReleasePin | undefined,
): Promise<ReleasePin | undefined> {
  const pin = await readPin(files, home);
  if (pin !== undefined || offered === undefined) return pin;
  await writePin(files, home, offered);
  return offered;
}

/**
 * The policy that applies: agent.json's, which the device's owner writes; else the stricter one of what was pinned and
 * what the enrolment asks for.
 */
export function policyOf(
  configured: ReleasePolicy | undefined,
  pin: ReleasePin | undefined,
  enrolled: ReleasePolicy | undefined,
): ReleasePolicy {
  if (configured !== undefined) return configured;
  const asked = [pin?.policy, enrolled];
  return releasePolicies.find((policy) => asked.includes(policy)) ?? "off";
}
