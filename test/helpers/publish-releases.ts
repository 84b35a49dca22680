/** Releases of a server in this process, by an owner with one key for all roles. */
import { publishedOf } from "../../server/cli/release-choices.js";
import { keyOfSeed } from "../../shared/trust/keys.js";
import { changeText } from "../../shared/trust/releases/change-file.js";
import { parseMetadata } from "../../shared/trust/releases/metadata.js";
import {
  ownerTimeFileText,
  signOwnerTime,
  unsignedOwnerTime,
} from "../../shared/trust/releases/owner-time.js";
import { unsignedManifest } from "../../shared/trust/releases/manifest.js";
import {
  addRelease,
  defaultValidDays,
  firstChange,
  revokeRelease,
  signChange,
  type ReleaseChange,
} from "../../shared/trust/releases/release-change.js";
import { keysFor } from "./release-owner.js";
import { testFleet, type TestServer } from "./test-server.js";

/** First digit of the seed of the owner's key. */
export const ownerSeed = "a";
export const ownerKeys = keysFor({ root: [ownerSeed], targets: [ownerSeed], online: [ownerSeed] });

const validity = () => ({ nowMs: Date.now(), days: defaultValidDays });

export async function publish({ handle }: Pick<TestServer, "handle">, change: ReleaseChange): Promise<void> {
  const signed = signChange(change, keyOfSeed(ownerSeed.repeat(64))).change;
  await handle.operations.publishReleases({ fleet: testFleet, change: changeText(signed) });
}

export async function publishFirst(server: Pick<TestServer, "handle">): Promise<void> {
  await publish(server, firstChange(testFleet, ownerKeys, validity()));
}

export async function release(server: Pick<TestServer, "handle">, model: string): Promise<void> {
  const { operations } = server.handle;
  const now = await publishedOf(operations, testFleet);
  const made = await operations.releaseManifest({ fleet: testFleet, model });
  await publish(server, addRelease(now, model, unsignedManifest(made.manifest), validity()));
}

/** The owner states that it is this time. */
export async function stateTime(
  { handle }: Pick<TestServer, "handle">,
  number: number,
  timeMs: number,
): Promise<void> {
  const { metadata } = await handle.operations.releases({ fleet: testFleet });
  const root = parseMetadata("root", metadata?.roots.at(-1) ?? "");
  const statement = unsignedOwnerTime({ fleet: testFleet, number, timeMs });
  const file = signOwnerTime({ root, statement }, keyOfSeed(ownerSeed.repeat(64)));
  await handle.operations.publishOwnerTime({ fleet: testFleet, file: ownerTimeFileText(file) });
}

export async function revoke(
  server: Pick<TestServer, "handle">,
  name: string,
  because: string,
): Promise<void> {
  const now = await publishedOf(server.handle.operations, testFleet);
  await publish(server, revokeRelease(testFleet, now, { name, because }, validity()));
}
