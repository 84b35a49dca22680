/**
 * Writes the tensors of a probe to a file as they come, and at the end as one safetensors file: its header, which names
 * all of them, comes first.
 */
import { closeSync, openSync, readSync, unlinkSync, writeSync } from "node:fs";
import type { Figures, TensorValues } from "../figures.js";
import { bytesOfValues } from "../figures.js";
import { nodeFiles } from "../../files/node-files.js";
import { asyncIterableOf } from "../../tensor/async-iterable.js";
import { writeSafetensors } from "../../tensor/safetensors.js";
import { maxChunkBytes, type TensorHeader } from "../../tensor/tensor.js";

export class TensorSpool {
  readonly #path: string;
  readonly #file: number;
  readonly #entries: (TensorHeader & {
    readonly name: string;
    readonly at: number;
    readonly length: number;
  })[] = [];
  #length = 0;

  constructor(path: string) {
    this.#path = `${path}.part`;
    this.#file = openSync(this.#path, "w+");
  }

  /** Values are read while a layer runs, which does not wait. */
  add(name: string, { dtype, shape }: Figures, values: TensorValues): void {
    const bytes = bytesOfValues(values);
    for (let done = 0; done < bytes.length;)
      done += writeSync(this.#file, bytes, done, bytes.length - done, this.#length + done);
    this.#entries.push({ name, dtype, shape, at: this.#length, length: bytes.length });
    this.#length += bytes.length;
  }

  async finish(path: string): Promise<void> {
    const file = await nodeFiles().open(path, "create");
    try {
      await writeSafetensors(
        file,
        this.#entries.map(({ name, dtype, shape, at, length }) => ({
          name,
          source: { dtype, shape, byteLength: length, chunks: () => asyncIterableOf(this.#read(at, length)) },
        })),
      );
    } finally {
      await file.close();
      closeSync(this.#file);
      unlinkSync(this.#path);
    }
  }

  *#read(at: number, length: number): Generator<Uint8Array> {
    for (let done = 0; done < length;) {
      const bytes = new Uint8Array(Math.min(maxChunkBytes, length - done));
      const read = readSync(this.#file, bytes, 0, bytes.length, at + done);
      yield bytes.subarray(0, read);
      done += read;
    }
  }
}
