/**
 * Recovers versions picked at random, old ones among them, and compares every bit with what the device kept.
 */
import { createHash, randomInt } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { isStemmaError } from "../../shared/errors.js";
import type { VersionSummary } from "../repository/fleet-repository.js";
import type { RecoveryReport } from "../api/version-schemas.js";
import type { ServerOperations } from "../api/server-operations.js";
import type { DemoFolders } from "./demo-home.js";
import { demoFleet, type DemoPlan } from "./demo-plan.js";
import type { FleetWatch } from "./fleet-watch.js";

export interface Proof {
  readonly versionId: string;
  readonly exact: boolean;
  /** What the bits were compared with. */ readonly comparedWith:
    "the device's own file" | "the recorded root";
  readonly report?: RecoveryReport;
  readonly problem?: string;
}

/** The newest version of every line, the oldest ones, and some at random. */
export function pickVersions(
  models: readonly VersionSummary[],
  random: (below: number) => number,
  extra: number,
): VersionSummary[] {
  const picked = new Map<string, VersionSummary>();
  const byLine = new Map<string, VersionSummary[]>();
  for (const model of models)
    byLine.set(`${model.record.device}/${model.record.line}/${model.name}`, [
      ...(byLine.get(`${model.record.device}/${model.record.line}/${model.name}`) ?? []),
      model,
    ]);
  for (const versions of byLine.values())
    for (const version of [versions[0], versions.at(-1)])
      if (version !== undefined) picked.set(version.versionId, version);
  const rest = models.filter((model) => !picked.has(model.versionId));
  for (let count = 0; count < extra && rest.length > 0; count++) {
    const [version] = rest.splice(random(rest.length), 1);
    if (version !== undefined) picked.set(version.versionId, version);
  }
  return models.filter((model) => picked.has(model.versionId));
}

export async function proveRecoveries(
  operations: ServerOperations,
  plan: DemoPlan,
  folders: DemoFolders,
  watch: FleetWatch,
): Promise<Proof[]> {
  const models = await operations.models({ fleet: demoFleet });
  const proofs: Proof[] = [];
  for (const model of pickVersions(models, (below) => randomInt(below), 4)) {
    const own = await tensorsOnDevice(folders, model);
    try {
      const stream = await operations.recover({ fleet: demoFleet, model: model.versionId });
      // The report may reject while the stream is read; the await below sees it.
      stream.report.catch(() => undefined);
      const recovered = await tensorDigest(stream.chunks);
      const report = await stream.report;
      const exact = own === undefined ? report.root === model.record.root : recovered === own;
      proofs.push({
        versionId: model.versionId,
        exact,
        comparedWith: own === undefined ? "the recorded root" : "the device's own file",
        report,
        problem: exact ? undefined : "bits differ",
      });
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      proofs.push({
        versionId: model.versionId,
        exact: false,
        comparedWith: "the recorded root",
        problem: `${error.message} [${error.code}]`,
      });
      watch.say(`${model.name}:${model.version} was not recovered: ${error.message}`);
    }
  }
  return proofs;
}

/**
 * SHA-256 of a safetensors stream's tensor bytes in file order, past its header (which names may differ in).
 */
async function tensorDigest(chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<string> {
  const hash = createHash("sha256");
  let head = Buffer.alloc(0);
  let skip: number | undefined;
  for await (const chunk of chunks) {
    let rest: Uint8Array = chunk;
    if (skip === undefined) {
      head = Buffer.concat([head, chunk]);
      if (head.length < 8) continue;
      skip = 8 + Number(head.readBigUInt64LE(0));
      rest = head;
    }
    if (skip > 0) {
      const drop = Math.min(skip, rest.length);
      rest = rest.subarray(drop);
      skip -= drop;
    }
    hash.update(rest);
  }
  return hash.digest("hex");
}

/** The same of the file that the device itself keeps of a version, while it keeps it. */
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
