/**
 * The part of the demo's script that the fleet's owner has: one key, each release signed once, signed again before it
 * ends.
 */
import { randomBytes } from "node:crypto";
import { rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { StemmaError } from "../../../shared/errors.js";
import type { DemoFolders } from "./demo-home.js";
import { fromHere, type DemoScript } from "./demo-script.js";

/** Releases that end sooner are signed for longer: a demo may be run again after months. */
const refreshBeforeMs = 30 * 86_400_000;

interface OwnerPart {
  readonly script: DemoScript;
  readonly folders: Pick<DemoFolders, "owner">;
}
/** The roles that sign releases, as `release show` prints them. */
type Roles = readonly { readonly role: string; readonly expires: string }[];

/** Files of the fleet's owner, whose key the server does not have. */
const ownersFiles = ({ owner }: OwnerPart["folders"]): { readonly key: string; readonly phrase: string } => ({
  key: join(owner, "owner.key"),
  phrase: join(owner, "passphrase"),
});

/** Returns where a change of releases goes; an interrupted demo may have left it. */
async function changeFile({ folders }: OwnerPart, name: string): Promise<string> {
  const path = join(folders.owner, `${name.replace(":", "-")}.release`);
  await rm(path, { force: true });
  return fromHere(path);
}

/**
 * Signs the base models before the vehicles are enrolled: they pin the owner's root then, and demand what it signed.
 * @param models as name:version
 * @throws CHECK_FAILED where the owner's key is gone
 */
export async function signReleases(
  demo: OwnerPart,
  models: readonly string[],
  nowMs = Date.now(),
): Promise<void> {
  const { script, folders } = demo;
  script.heading("The owner signs what vehicles may install, with a key that no server has");
  const { key, phrase } = ownersFiles(folders);
  // Nothing is found where no releases have begun.
  const roles = await script.ask<Roles>("release", "show");
  const hasKey = (await stat(key).catch(() => undefined)) !== undefined;
  if (roles !== undefined && !hasKey)
    throw new StemmaError(
      "CHECK_FAILED",
      `${key}, which signed the releases of this demo, is gone. Remove the demo's folder with \`npm start -- --clean\` and run it again.`,
    );
  if (!hasKey) {
    await writeFile(phrase, `${randomBytes(24).toString("base64url")}\n`, { mode: 0o600 });
    await script.run(["release", "key", "create", fromHere(key), "--passphrase-file", fromHere(phrase)]);
  }
  if (roles === undefined) {
    const change = await changeFile(demo, "first");
    await script.run(["release", "init", change, "--key", fromHere(key)], { lines: 1 });
    await signAndPublish(demo, change);
  } else if (roles.some(({ expires }) => Date.parse(expires) - nowMs < refreshBeforeMs)) {
    const change = await changeFile(demo, "refresh");
    await script.run(["release", "refresh", "--file", change], { lines: 1 });
    await signAndPublish(demo, change);
  }
  for (const model of models) await releaseOnce(demo, model);
}

async function signAndPublish({ script, folders }: OwnerPart, change: string): Promise<void> {
  const { key, phrase } = ownersFiles(folders);
  const by = ["--key", fromHere(key), "--passphrase-file", fromHere(phrase)];
  await script.run(["release", "sign", change, ...by], { lines: 1 });
  await script.run(["release", "publish", change], { lines: 2 });
}

/** Releases a version, where that was not done before. */
export async function releaseOnce(demo: OwnerPart, model: string): Promise<void> {
  const { script } = demo;
  const known = await script.ask<readonly { readonly name: string }[]>("release", "list");
  if (known?.some(({ name }) => name === model) === true) return;
  const change = await changeFile(demo, model);
  await script.run(["release", "create", model, "--file", change], { lines: 1 });
  await signAndPublish(demo, change);
}
