/**
 * Reads and writes the file with the progress of a pass over samples. It is "STEMPAS1" ‖ header length u32 ‖
 * header (JSON) ‖ sums as float64 ‖ SHA-256 of all that. Numbers are little-endian.
 */
import { createHash } from "node:crypto";
import { StemmaError } from "../../errors.js";
import type { Files } from "../../ports.js";
import type { Hash } from "../../tensor/tensor.js";
import type { SavedPass } from "../run-training.js";
import { passMagic, type Effort, type PassId } from "../training-state.js";

/** The pass that a file belongs to. */
export interface PassContext extends PassId {
  readonly engine: Hash;
  /** Identifies the training: see stateKeyOf in run-training.ts. */
  readonly key: Hash;
}

interface Header extends PassContext, Effort {
  readonly format: 1;
  readonly samples: number;
}

const prefixBytes = 12;
const hashBytes = 32;

/** The bytes of a pass file. */
export function encodePass(context: PassContext, { sums, ...progress }: SavedPass): Uint8Array {
  const header = Buffer.from(JSON.stringify({ format: 1, ...context, ...progress } satisfies Header), "utf8");
  const prefix = Buffer.alloc(prefixBytes);
  prefix.write(passMagic, "latin1");
  prefix.writeUInt32LE(header.length, 8);
  const numbers = new Uint8Array(sums.buffer, sums.byteOffset, sums.byteLength);
  const content = Buffer.concat([prefix, header, numbers]);
  return Buffer.concat([content, createHash("sha256").update(content).digest()]);
}

/**
 * Reads a pass file and checks its hash.
 * @returns undefined when there is none, or when it belongs to another pass
 * @throws FILE_FAILED for a file that is damaged or half written
 */
export async function readPass(
  files: Files,
  path: string,
  context: PassContext,
): Promise<SavedPass | undefined> {
  if ((await files.stat(path)) === undefined) return undefined;
  const bytes = Buffer.from(await files.read(path));
  const refuse = (problem: string): StemmaError =>
    new StemmaError("FILE_FAILED", `The progress of a pass in ${path} cannot be used: ${problem}.`, { path });
  const content = bytes.subarray(0, Math.max(0, bytes.length - hashBytes));
  if (!createHash("sha256").update(content).digest().equals(bytes.subarray(content.length)))
    throw refuse("its hash differs; it is damaged or was only half written");
  if (content.toString("latin1", 0, 8) !== passMagic) throw refuse("it is not the progress of a pass");
  const sumsAt = prefixBytes + content.readUInt32LE(8);
  const { samples, spentMs, continuations, ...found } = JSON.parse(
    content.toString("utf8", prefixBytes, sumsAt),
  ) as Header;
  const isSame =
    (found.format as number) === 1 &&
    found.engine === context.engine &&
    found.key === context.key &&
    found.stage === context.stage &&
    found.iteration === context.iteration;
  if (!isSame) return undefined;
  const sums = new Float64Array(new Uint8Array(content.subarray(sumsAt)).buffer);
  return { samples, spentMs, continuations, sums };
}
