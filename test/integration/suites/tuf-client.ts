/**
 * The client that TUF's conformance suite drives (its CLIENT-CLI.md): fetches metadata over HTTP and hands it to the
 * code of a device that takes metadata from its server. It fetches and writes files; each check is the device's. A
 * device gets a set at once, so what is not fetched yet counts as withheld: the set fails there, and what it proved up
 * to there is trusted.
 */
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isDeepStrictEqual, parseArgs } from "node:util";
import { pinByHand, readPin, type ReleasePin } from "../../../agent/releases/release-pin.js";
import { ReleaseTrust } from "../../../agent/releases/release-trust.js";
import { loadTrusted } from "../../../agent/releases/trusted-file.js";
import { messageOf } from "../../../shared/error-text.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { requireTarget } from "../../../shared/trust/releases/manifest.js";
import { metadataText, releaseRoles, type Metadata } from "../../../shared/trust/releases/metadata.js";
import { partsOf } from "../../../shared/trust/releases/release-set.js";
import {
  freshTargets,
  type MetadataSet,
  type TrustedReleases,
} from "../../../shared/trust/releases/trusted-releases.js";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    "metadata-dir": { type: "string" },
    "metadata-url": { type: "string" },
    "target-name": { type: "string" },
    "target-dir": { type: "string" },
    "target-base-url": { type: "string" },
  },
});

function given(name: keyof typeof values): string {
  const value = values[name];
  if (value === undefined) throw new Error(`--${name} is missing`);
  return value;
}

/** The suite moves the time of a client by a program `faketime`; the suite's test puts one there that sets this. */
const fakeTime = process.env["SUITE_TIME"];
const nowMs = fakeTime === undefined ? Date.now() : Date.parse(fakeTime.replace(" ", "T"));
const files = nodeFiles();
const metadataFolder = given("metadata-dir");
/** The device's folder; the suite looks at the files directly in the metadata's folder only. */
const home = join(metadataFolder, "device");

/** A device, and the set that it was given so far. */
class DeviceUnderTest {
  readonly #taken: { timestamp: string; snapshot: string } = { timestamp: "", snapshot: "" };
  private constructor(
    private readonly trust: ReleaseTrust,
    private readonly pin: ReleasePin,
  ) {}

  static async open(): Promise<DeviceUnderTest> {
    const pin = await readPin(files, home);
    if (pin === undefined) throw new Error("no root is pinned");
    const trust = await ReleaseTrust.open({
      files,
      home,
      pin,
      policy: "required",
      nowMs: () => nowMs,
      onEvent: (_name, text) => {
        throw new Error(text);
      },
    });
    return new DeviceUnderTest(trust, pin);
  }

  /** What it trusts, as it would read it from its disk at its next start. */
  async trusted(): Promise<TrustedReleases> {
    const { file, damage } = await loadTrusted(files, join(home, "releases"), this.pin);
    if (damage !== undefined) throw new Error(damage);
    return file.trusted;
  }

  /** @throws StemmaError as a device refuses the set */
  async #receive(set: MetadataSet): Promise<void> {
    for (const part of partsOf(set)) await this.trust.receive(part);
  }

  /** Gives it the next root, and withholds the rest. @throws StemmaError where it does not take it */
  async takeRoot(text: string): Promise<void> {
    const before = (await this.trusted()).root;
    const refusal = await this.#refusalOf({ roots: [text], timestamp: "", snapshot: "", targets: "" });
    if ((await this.trusted()).root.signed.version === before.signed.version) throw refusal;
  }

  /** As `takeRoot`, after what it took before. */
  async take(role: "timestamp" | "snapshot", text: string): Promise<void> {
    this.#taken[role] = text;
    const refusal = await this.#refusalOf({ ...(await this.#roots()), ...this.#taken, targets: "" });
    if (!isSame(text, (await this.trusted())[role])) throw refusal;
  }

  /** Gives it the complete set. @throws StemmaError where it does not take all of it */
  async takeAll(targets: string): Promise<void> {
    await this.#receive({ ...(await this.#roots()), ...this.#taken, targets });
  }

  async #roots(): Promise<Pick<MetadataSet, "roots">> {
    return { roots: [metadataText((await this.trusted()).root)] };
  }

  async #refusalOf(set: MetadataSet): Promise<Error> {
    try {
      await this.#receive(set);
    } catch (error) {
      return error as Error;
    }
    throw new Error("a set without all of its parts was taken");
  }
}

function isSame(text: string, trusted: Metadata | undefined): boolean {
  try {
    return isDeepStrictEqual((JSON.parse(text) as Metadata).signed, trusted?.signed);
  } catch {
    return false;
  }
}

/** Undefined: the repository does not have it. */
async function fetched(base: string, name: string): Promise<Uint8Array | undefined> {
  const response = await fetch(`${base.replace(/\/$/, "")}/${name}`).catch(() => undefined);
  return response?.ok === true ? new Uint8Array(await response.arrayBuffer()) : undefined;
}

async function metadataOf(name: string): Promise<string | undefined> {
  const bytes = await fetched(given("metadata-url"), `${name}.json`);
  return bytes && new TextDecoder().decode(bytes);
}

async function requiredMetadataOf(name: string): Promise<string> {
  const text = await metadataOf(name);
  if (text === undefined) throw new Error(`the repository has no ${name}`);
  return text;
}

/** A role's metadata, which the role above lists: what the device has already is not fetched again. */
async function listedText(
  { root }: TrustedReleases,
  role: "snapshot" | "targets",
  { listed, present }: { readonly listed: number; readonly present: Metadata | undefined },
): Promise<string> {
  if (present?.signed.version === listed) return metadataText(present);
  return await requiredMetadataOf(root.signed.consistent_snapshot ? `${listed}.${role}` : role);
}

async function refresh(device: DeviceUnderTest): Promise<void> {
  for (;;) {
    const { version } = (await device.trusted()).root.signed;
    const next = await metadataOf(`${version + 1}.root`);
    if (next === undefined) break;
    await device.takeRoot(next);
  }
  await device.take("timestamp", await requiredMetadataOf("timestamp"));
  let now = await device.trusted();
  const snapshot = now.timestamp?.signed.meta["snapshot.json"].version ?? 0;
  await device.take(
    "snapshot",
    await listedText(now, "snapshot", { listed: snapshot, present: now.snapshot }),
  );
  now = await device.trusted();
  const targets = now.snapshot?.signed.meta["targets.json"].version ?? 0;
  await device.takeAll(await listedText(now, "targets", { listed: targets, present: now.targets }));
}

/** Writes what the device trusts to where the suite looks for it. */
async function showTrusted(device: DeviceUnderTest): Promise<void> {
  const trusted = await device.trusted();
  for (const role of releaseRoles) {
    const path = join(metadataFolder, `${role}.json`);
    const metadata = trusted[role];
    if (metadata === undefined) await rm(path, { force: true });
    else await writeFile(path, metadataText(metadata));
  }
}

/** As a device installs: from what it trusts and has not expired, whatever became of the last set. */
async function download(device: DeviceUnderTest): Promise<void> {
  const name = given("target-name");
  const { signed } = freshTargets(await device.trusted(), nowMs);
  const path = join(given("target-dir"), encodeURIComponent(name));
  const present = await readFile(path).catch(() => undefined);
  try {
    requireTarget(signed, name, present ?? new Uint8Array());
    return;
  } catch {
    // It is not there, or another one.
  }
  const hash = signed.targets[name]?.hashes.sha256 ?? "";
  const bytes = await fetched(given("target-base-url"), `${hash}.${name}`);
  if (bytes === undefined) throw new Error(`the repository has no ${name}`);
  requireTarget(signed, name, bytes);
  await mkdir(given("target-dir"), { recursive: true });
  await writeFile(path, bytes);
}

async function run(command: string | undefined): Promise<void> {
  if (command === "init") {
    const root = await readFile(positionals[1] ?? "", "utf8");
    await pinByHand(files, home, { root, policy: "required" }, false);
    await writeFile(join(metadataFolder, "root.json"), root);
    return;
  }
  const device = await DeviceUnderTest.open();
  const refusal = await refresh(device).then(
    () => undefined,
    (error: unknown) => error as Error,
  );
  await showTrusted(device);
  if (command === "download") {
    if (refusal !== undefined) console.error(`refresh: ${messageOf(refusal)}`);
    await download(device);
  } else if (refusal !== undefined) throw refusal;
}

try {
  await run(positionals[0]);
} catch (error) {
  console.error(messageOf(error));
  process.exitCode = 1;
}
