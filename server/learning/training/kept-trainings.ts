/**
 * The work folders of trainings on the server. The folder of a training that was cut short (Ctrl-C, a server that
 * stopped, no power) stays, and the same request continues in it: with the same seed, even if that was drawn at random,
 * and from the state that the engine saved. A folder that nobody came back to is removed after a week.
 */
import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import type { TrainingJob } from "../../../shared/train/training.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { Home } from "../../storage/repository/home.js";
import { workFolderOf } from "../../services/context/work-folder.js";

/** The members by which two requests are for the same training. */
export interface TrainingIdentity extends Pick<
  TrainingJob,
  "recipe" | "parameters" | "dataset" | "invocation"
> {
  readonly fleet: string;
  readonly name: string;
  readonly base: Hash | null;
  /** null where the request leaves it to the server. */
  readonly seed: string | null;
}

/** The members by which two requests are for the same evaluation of a query. */
export interface EvaluationIdentity extends Pick<TrainingIdentity, "fleet" | "seed"> {
  /** The query. */
  readonly evaluate: string;
  readonly config: Readonly<Record<string, unknown>> | null;
  /** Weights by which models are chosen that new layers come from; absent: none. */
  readonly rank?: string;
  /** The line of the devices that train; absent: the server trains. */
  readonly line?: string;
  /** The program of the caller's own that trains, with its settings; absent: none. */
  readonly program?: string;
}

export interface KeptTraining {
  readonly folder: string;
  readonly seed: string;
  /** True if an interruption may be continued: false where an equal training runs already. */
  readonly canContinue: boolean;
  /** Ends the use of the folder. It stays only if the training was cut short. */
  release(wasCutShort: boolean): Promise<void>;
}

const keptMs = 7 * 24 * 3_600_000;
/** Folders in which a training of this process runs. */
const busy = new Set<string>();

/** Opens the folder of a training, or a new one. */
export async function openTraining(
  home: Home,
  identity: TrainingIdentity | EvaluationIdentity,
): Promise<KeptTraining> {
  const root = join(home.path, "run", "trainings");
  await mkdir(root, { recursive: true });
  await removeOld(root, home.ports.clock.now());
  const key = createHash("sha256").update(JSON.stringify(identity)).digest("hex").slice(0, 32);
  const folder = join(root, key);
  const seed = identity.seed ?? drawSeed(home.ports.random.bytes(8));
  if (busy.has(folder)) {
    await mkdir(workFolderOf(home), { recursive: true });
    const own = await mkdtemp(join(workFolderOf(home), "train-"));
    return {
      folder: own,
      seed,
      canContinue: false,
      release: () => rm(own, { recursive: true, force: true }),
    };
  }
  busy.add(folder);
  try {
    return {
      folder,
      seed: await seedOf(folder, seed),
      canContinue: true,
      async release(wasCutShort) {
        busy.delete(folder);
        if (!wasCutShort) await rm(folder, { recursive: true, force: true });
      },
    };
  } catch (error) {
    busy.delete(folder);
    throw error;
  }
}

/** Folders of trainings that were cut short, where none of this process goes on. */
export async function foldersCutShort(home: Pick<Home, "path">): Promise<readonly string[]> {
  const root = join(home.path, "run", "trainings");
  const names = await readdir(root).catch(() => []);
  return names.map((name) => join(root, name)).filter((folder) => !busy.has(folder));
}

/** The seed with which the training in a folder began; writes it for one that begins. */
async function seedOf(folder: string, fresh: string): Promise<string> {
  const path = join(folder, "seed");
  const kept = await readFile(path, "utf8").catch(() => "");
  if (/^(0|[1-9][0-9]{0,19})$/.test(kept)) return kept;
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  await writeDurably(nodeFiles(), path, Buffer.from(fresh));
  return fresh;
}

/** 63 random bits in decimal, which signed and unsigned 64-bit readers both accept. */
export function drawSeed(bytes: Uint8Array): string {
  return (Buffer.from(bytes).readBigUInt64LE(0) >> 1n).toString();
}

async function removeOld(root: string, nowMs: number): Promise<void> {
  for (const name of await readdir(root)) {
    const folder = join(root, name);
    if (busy.has(folder)) continue;
    const found = await stat(folder).catch(() => undefined);
    if (found !== undefined && nowMs - found.mtimeMs > keptMs)
      await rm(folder, { recursive: true, force: true });
  }
}
