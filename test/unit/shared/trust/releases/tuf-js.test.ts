/** Metadata of releases as an independent client of TUF 1.0 reads it: tuf-js, from files in memory. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { describe, it } from "node:test";
import { BaseFetcher, Updater } from "tuf-js";
import { DownloadHTTPError } from "tuf-js/dist/error.js";
import type { MetadataSet } from "../../../../../shared/trust/releases/trusted-releases.js";
import { fleetOwner, manifestFor } from "../../../../helpers/release-owner.js";

/** tuf-js ends its search for roots at any failed request. */
class MemoryFetcher extends BaseFetcher {
  constructor(private readonly files: ReadonlyMap<string, Uint8Array>) {
    super();
  }
  override async fetch(url: string): Promise<NodeJS.ReadableStream> {
    const bytes = this.files.get(new URL(url).pathname.slice(1));
    if (bytes === undefined) throw new DownloadHTTPError(`404 ${url}`, 404);
    return Promise.resolve(Readable.from([Buffer.from(bytes)]));
  }
}

function filesOf(set: MetadataSet, target: Uint8Array): Map<string, Uint8Array> {
  const versionOf = (text: string): number =>
    (JSON.parse(text) as { signed: { version: number } }).signed.version;
  const entries: [string, string][] = [
    ...set.roots.map((text): [string, string] => [`m/${versionOf(text)}.root.json`, text]),
    ["m/timestamp.json", set.timestamp],
    [`m/${versionOf(set.snapshot)}.snapshot.json`, set.snapshot],
    [`m/${versionOf(set.targets)}.targets.json`, set.targets],
  ];
  const targets = JSON.parse(set.targets) as {
    signed: { targets: Record<string, { hashes: { sha256: string } }> };
  };
  const hash = targets.signed.targets["winter"]?.hashes.sha256 ?? "";
  return new Map([
    ...entries.map(([name, text]): [string, Uint8Array] => [name, Buffer.from(text)]),
    [`t/${hash}.winter`, target],
  ]);
}

async function readByTufJs(
  pinned: string,
  files: ReadonlyMap<string, Uint8Array>,
): Promise<Uint8Array | undefined> {
  const folder = await mkdtemp(join(tmpdir(), "stemma-tuf-"));
  try {
    await writeFile(join(folder, "root.json"), pinned);
    const updater = new Updater({
      metadataDir: folder,
      metadataBaseUrl: "http://memory/m",
      targetDir: folder,
      targetBaseUrl: "http://memory/t",
      fetcher: new MemoryFetcher(files),
    });
    await updater.refresh();
    const info = await updater.getTargetInfo("winter");
    if (info === undefined) return undefined;
    return await readFile(await updater.downloadTarget(info));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

describe("releases as tuf-js reads them", () => {
  it("finds the release through a rotation of keys, and its manifest by length and hash", async () => {
    const owner = fleetOwner();
    owner.release("winter", manifestFor("1"));
    const set = owner.rotate({ root: ["a", "e"], targets: ["e"], online: ["f"] });
    const bytes = owner.manifestBytes("winter");
    const read = await readByTufJs(owner.roots[0] ?? "", filesOf(set, bytes));
    assert.deepEqual(read && Buffer.from(read), Buffer.from(bytes));
  });

  it("refuses what was changed after it was signed", async () => {
    const owner = fleetOwner();
    const set = owner.release("winter", manifestFor("1"));
    const files = filesOf(set, owner.manifestBytes("winter"));
    const changed = { ...set, targets: set.targets.replaceAll("1".repeat(64), "2".repeat(64)) };
    await assert.rejects(readByTufJs(owner.roots[0] ?? "", filesOf(changed, Buffer.alloc(1))));
    const [name] = [...files.keys()].filter((one) => one.startsWith("t/"));
    files.set(name ?? "", Buffer.from("{}"));
    await assert.rejects(readByTufJs(owner.roots[0] ?? "", files));
  });
});
