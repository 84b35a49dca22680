/** Recovers the oldest, the newest and some random versions, and compares them with the devices' files. */
import { createHash, randomInt } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { messageWithCode } from "../../../shared/error-text.js";
import { isStemmaError } from "../../../shared/errors.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { RecoveryReport } from "../../interface/api/models/version-schemas.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import type { DemoFolders } from "./demo-home.js";
import { demoFleet } from "./demo-plan.js";
import type { FleetWatch } from "./fleet-watch.js";

export interface Proof {
  readonly versionId: string;
  readonly exact: boolean;
  /** What the bits were compared with. */
  readonly comparedWith: "the device's own file" | "the recorded root";
  readonly report?: RecoveryReport;
  readonly problem?: string;
}

/**
 * The oldest and the newest version of every line, and some at random.
 * @param random returns an integer from 0 to below its argument
 */
export function pickVersions(
  models: readonly VersionSummary[],
  random: (below: number) => number,
  extra: number,
): VersionSummary[] {
  const picked = new Map<string, VersionSummary>();
  const byLine = new Map<string, VersionSummary[]>();
  for (const model of models) {
    const key = `${model.record.device}/${model.record.line}/${model.name}`;
    byLine.set(key, [...(byLine.get(key) ?? []), model]);
  }
  for (const versions of byLine.values())
    for (const version of [versions[0], versions.at(-1)])
      if (version !== undefined) picked.set(version.versionId, version);
  const others = models.filter((model) => !picked.has(model.versionId));
  for (let count = 0; count < extra && others.length > 0; count++) {
    const [version] = others.splice(random(others.length), 1);
    if (version !== undefined) picked.set(version.versionId, version);
  }
  return models.filter((model) => picked.has(model.versionId));
}

/** @throws what a recovery throws once the signal has aborted: the server is stopped then */
export async function proveRecoveries(
  operations: ServerOperations,
  folders: DemoFolders,
  watch: FleetWatch,
  signal: AbortSignal,
): Promise<Proof[]> {
  const models = await operations.models({ fleet: demoFleet });
  const proofs: Proof[] = [];
  for (const model of pickVersions(models, (below) => randomInt(below), 4)) {
    const own = await tensorsOnDevice(folders, model);
    try {
      const stream = await operations.recover({ fleet: demoFleet, model: model.versionId });
      // The report may reject while the stream is read; the await below handles it.
      stream.report.catch(() => undefined);
      const recovered = await tensorDigest(stream.chunks);
      const report = await stream.report;
      const isExact = own === undefined ? report.root === model.record.root : recovered === own;
      proofs.push({
        versionId: model.versionId,
        exact: isExact,
        comparedWith: own === undefined ? "the recorded root" : "the device's own file",
        report,
        ...(isExact ? {} : { problem: "bits differ" }),
      });
    } catch (error) {
      if (signal.aborted || !isStemmaError(error)) throw error;
      proofs.push({
        versionId: model.versionId,
        exact: false,
        comparedWith: "the recorded root",
        problem: messageWithCode(error),
      });
      watch.printLine(`${model.name}:${model.version} was not recovered: ${error.message}`);
    }
  }
  return proofs;
}

/** SHA-256 of a safetensors stream's tensor bytes in file order, without the header: its names may differ. */
async function tensorDigest(chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<string> {
  const hash = createHash("sha256");
  let head = Buffer.alloc(0);
  let skip: number | undefined;
  for await (const chunk of chunks) {
    let remaining: Uint8Array = chunk;
    if (skip === undefined) {
      head = Buffer.concat([head, chunk]);
      if (head.length < 8) continue;
      skip = 8 + Number(head.readBigUInt64LE(0));
      remaining = head;
    }
    if (skip > 0) {
      const drop = Math.min(skip, remaining.length);
      remaining = remaining.subarray(drop);
      skip -= drop;
    }
    hash.update(remaining);
  }
  return hash.digest("hex");
}

/** The same digest of the device's own file of a version; undefined where it no longer has one. */
async function tensorsOnDevice(folders: DemoFolders, model: VersionSummary): Promise<string | undefined> {
  if (model.record.device === "") return undefined;
  const versions = join(folders.agents, model.record.device, "versions");
  const name = (await readdir(versions).catch(() => [] as string[])).find((entry) =>
    entry.startsWith(model.versionId),
  );
  if (name === undefined) return undefined;
  const bytes = await readFile(join(versions, name, "model.safetensors")).catch(() => undefined);
  return bytes === undefined ? undefined : tensorDigest([bytes]);
}
