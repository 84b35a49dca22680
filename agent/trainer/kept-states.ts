/**
 * Keeps the states of each line's newest training that the server may ask for: `states/<line>/<version id>/`. They are
 * worth less than anything else in the home, and go as soon as that needs their place.
 */
import { join } from "node:path";
import * as z from "zod";
import { StemmaError } from "../../shared/errors.js";
import { writeDurably } from "../../shared/files/durable-write.js";
import type { Files } from "../../shared/ports.js";
import { isHash } from "../../shared/tensor/hash.js";
import { parseJson } from "../../shared/trust/keys.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { keptStateName } from "../../shared/train/training.js";
import {
  keptStatePartBytes,
  type KeptStatePart,
  type KeptStateRequest,
} from "../../shared/wire/kept-states.js";
import type { BegunTraining } from "../outbox/outbox-state.js";
import { judgeDisk, type DiskUse } from "../resources/disk-budget.js";
import type { Profile } from "../settings/profile.js";

/** The training that left the states. */
export type KeptTraining = Pick<BegunTraining, "invocation" | "job">;

const trainingFile = "training.json";
const trainingSchema = z.object({ invocation: z.number(), job: z.looseObject({}) });

const notKept = (versionId: Hash): StemmaError =>
  new StemmaError(
    "NOT_FOUND",
    `The states of the training of ${versionId.slice(0, 12)} are not kept here: a later training of the line ` +
      "took their place, the disk was needed, or they are damaged. Check a newer model of the line.",
    { versionId },
  );

export interface KeptStatesOptions {
  readonly files: Files;
  readonly home: string;
}

export class KeptStates {
  constructor(private readonly options: KeptStatesOptions) {}

  get #folder(): string {
    return join(this.options.home, "states");
  }

  /** Removes those of lines that do not commit to their states any more. */
  async tidy(lines: readonly string[]): Promise<void> {
    const { files } = this.options;
    for (const line of await files.list(this.#folder))
      if (!lines.includes(line)) await files.remove(join(this.#folder, line));
  }

  async bytes(): Promise<number> {
    const { files } = this.options;
    let bytes = 0;
    for (const line of await files.list(this.#folder))
      for (const version of await files.list(join(this.#folder, line))) {
        const folder = join(this.#folder, line, version);
        for (const name of await files.list(folder))
          bytes += (await files.stat(join(folder, name)))?.size ?? 0;
      }
    return bytes;
  }

  /** Takes the states that a training left in a folder, in the place of those of the line before it. */
  async replace(
    line: string,
    versionId: Hash,
    { from, training }: { readonly from: string; readonly training: KeptTraining },
  ): Promise<void> {
    const { files } = this.options;
    const folder = join(this.#folder, line);
    await files.remove(folder);
    await files.makeFolder(folder);
    await files.makeFolder(from);
    const { invocation, job } = training;
    await writeDurably(files, join(from, trainingFile), Buffer.from(JSON.stringify({ invocation, job })));
    await files.rename(from, join(folder, versionId));
    await files.syncFolder(folder);
  }

  /** Finds the training of a version whose states are kept. @throws NOT_FOUND */
  async of(
    versionId: Hash,
  ): Promise<{ readonly line: string; readonly folder: string; readonly training: KeptTraining }> {
    const { files } = this.options;
    for (const line of await files.list(this.#folder)) {
      const folder = join(this.#folder, line, versionId);
      const path = join(folder, trainingFile);
      if ((await files.stat(path)) === undefined) continue;
      const { success, data } = trainingSchema.safeParse(parseJson(await files.read(path)));
      if (success) return { line, folder, training: data as unknown as KeptTraining };
    }
    throw notKept(versionId);
  }

  /** Gives a part of a state. @throws NOT_FOUND where it is not kept, or not any more */
  async part({ versionId, step, at }: KeptStateRequest): Promise<KeptStatePart> {
    const { files } = this.options;
    for (const line of isHash(versionId) ? await files.list(this.#folder) : []) {
      const path = join(this.#folder, line, versionId, keptStateName(step));
      if ((await files.stat(path)) === undefined) continue;
      const file = await files.open(path, "read");
      try {
        const bytes = await file.size();
        const data = Buffer.alloc(Math.max(0, Math.min(keptStatePartBytes, bytes - at)));
        const read = await file.read(data, at);
        return { bytes, data: data.subarray(0, read).toString("base64") };
      } finally {
        await file.close();
      }
    }
    throw notKept(versionId);
  }

  /** Measures the home; first removes these states where they take the place of a training. */
  async yielding(disk: Profile["disk"], measure: () => Promise<DiskUse>): Promise<DiskUse> {
    const use = await measure();
    if (use.states === 0 || judgeDisk(disk, use, "train", use.states).allowed) return use;
    await this.options.files.remove(this.#folder);
    return await measure();
  }
}
