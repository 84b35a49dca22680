/**
 * Foreign files of real tools come back byte for byte from their tensors and the rest of the file; a rest that lies
 * gives the very file, or nothing.
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { describe, it, type TestContext } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import { openModelFile } from "../../../../shared/forms/model-file.js";
import { decodeRest, encodeRest, maxRestBytes } from "../../../../shared/model/rest-of-file.js";
import { originalFileOf } from "../../../../shared/recover/original-file.js";
import { modelSourceOfSafetensors } from "../../../../shared/save/model-source.js";
import type { ModelSource } from "../../../../shared/model/model.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { collectBytes } from "../../../helpers/agent-fixtures.js";
import { testSeed } from "../../../helpers/crash-states.js";
import { vectorFolder } from "../../../helpers/foreign-models.js";
import { seededNumbers } from "../../../helpers/manual-clock.js";

interface Opened {
  readonly model: ModelSource;
  readonly rest: Uint8Array | undefined;
  readonly original: Buffer;
}

async function opened(t: TestContext, name: string): Promise<Opened> {
  const path = fileURLToPath(new URL(name, vectorFolder));
  const file = await openModelFile(path);
  t.after(() => file.close());
  const { architecture } = file;
  const modelJson = architecture === undefined ? {} : { modelJson: Buffer.from(architecture) };
  const model = await modelSourceOfSafetensors(file.file, path, modelJson);
  return { model, rest: await file.rest(), original: await readFile(path) };
}

/** The file that a rest gives; undefined where it is refused. */
async function fileOf(model: ModelSource, rest: Uint8Array): Promise<Uint8Array | undefined> {
  try {
    return await collectBytes(originalFileOf(model, rest).chunks);
  } catch (error) {
    if (isStemmaError(error, "MODEL_FILE_MALFORMED") || isStemmaError(error, "ROOT_MISMATCH"))
      return undefined;
    throw error;
  }
}

describe("the very file that a model came from", () => {
  for (const name of [
    "state.pt",
    "cnn-2.h5",
    "cnn-3.keras",
    "gru-3.weights.h5",
    "lstm-3.keras",
    "two-3.h5",
    "two-2.keras",
  ])
    it(`is ${name} byte for byte`, async (t) => {
      const { model, rest, original } = await opened(t, name);
      assert.ok(rest !== undefined);
      assert.deepEqual(Buffer.from((await fileOf(model, rest)) ?? []), original);
      assert.equal(originalFileOf(model, rest).byteLength, original.length);
    });

  it("is not kept of safetensors, which come back by themselves, and of several files", async (t) => {
    for (const name of ["state.safetensors", "pytorch_model.bin.index.json"])
      assert.equal((await opened(t, name)).rest, undefined);
  });

  it("is given exactly or not at all by a rest that was changed, 2,000 times", async (t) => {
    const { model, rest, original } = await opened(t, "state.pt");
    assert.ok(rest !== undefined);
    const random = seededNumbers(testSeed());
    const below = (bound: number): number => Math.floor(random() * bound);
    let refused = 0;
    for (let n = 0; n < 2000; n++) {
      const changed: Buffer = Buffer.from(rest);
      const kind = below(4);
      const at = kind === 0 ? below(changed.length) : below(400);
      if (kind < 2) changed[at] = (changed[at] ?? 0) ^ (1 << below(8));
      const digit = changed.subarray(16).findIndex((byte, i) => i > at && byte >= 48 && byte <= 57);
      if (kind === 2 && digit >= 0) changed[16 + digit] = 48 + below(10);
      const cut = kind === 3 ? changed.subarray(0, below(changed.length)) : changed;
      const file = await fileOf(model, cut);
      if (file === undefined) refused++;
      else assert.deepEqual(Buffer.from(file), original);
    }
    assert.ok(refused > 1000);
  });

  it("is refused for pieces that are not those of a file", () => {
    const sha256 = "0".repeat(64) as Hash;
    const encoded = (more: object): Uint8Array =>
      encodeRest({
        name: "a.pt",
        sha256,
        byteLength: 13,
        pieces: [1, 0, 2],
        bytes: Buffer.from("abc"),
        ...more,
      }) ?? new Uint8Array(0);
    assert.equal(decodeRest(encoded({}), [10]).byteLength, 13);
    for (const [more, tensorBytes] of [
      [{}, [9]],
      [{}, []],
      [{ pieces: [1, 1, 2] }, [10]],
      [{ pieces: [1, 0, 1, 0, 1], byteLength: 23 }, [10]],
      [{ pieces: [1, 0, 1] }, [10]],
      [{ pieces: [1, 0, 2, 0], byteLength: 13 }, [10]],
      [{ pieces: [-1, 0, 4] }, [10]],
      [{ pieces: [2 ** 53, 0, 2] }, [10]],
      [{ pieces: [] }, [10]],
      [{ byteLength: 14 }, [10]],
      [{ name: "../../x" }, [10]],
      [{ name: "a\nb" }, [10]],
      [{ sha256: "x" }, [10]],
    ] as const)
      assert.throws(
        () => decodeRest(encoded(more), tensorBytes),
        (error) => isStemmaError(error, "MODEL_FILE_MALFORMED"),
        JSON.stringify(more),
      );
    assert.throws(
      () => decodeRest(new Uint8Array(maxRestBytes + 1), []),
      (error) => isStemmaError(error, "MODEL_FILE_MALFORMED"),
    );
    assert.equal(encoded({ bytes: new Uint8Array(maxRestBytes), pieces: [maxRestBytes] }).length, 0);
  });
});
