/** LoRA adapters: merged as their library does, the same bits for any pieces; everything else refused by name. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import fc from "fast-check";
import { isStemmaError, StemmaError, type ErrorCode } from "../../../../../shared/errors.js";
import { valuesOf } from "../../../../../shared/delta/derived/float-numbers.js";
import { readAdapterConfig } from "../../../../../shared/forms/peft/adapter-config.js";
import { mergedChunks, type AdapterTensor } from "../../../../../shared/forms/peft/merge-lora.js";
import { parseSafetensorsHeader } from "../../../../../shared/tensor/safetensors-header.js";
import { floats, safetensors, vectorFolder } from "../../../../helpers/foreign-models.js";

const vector = (name: string): Buffer => readFileSync(new URL(name, vectorFolder));

function tensorsIn(file: Buffer): readonly AdapterTensor[] {
  const start = 8 + Number(file.readBigUInt64LE(0));
  return parseSafetensorsHeader(file.subarray(8, start), file.length - start, "it").tensors.map(
    ({ begin, end, ...header }) => ({ ...header, bytes: file.subarray(start + begin, start + end) }),
  );
}

async function* piecesOf(file: Buffer, pieceBytes: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < file.length; at += pieceBytes) yield file.subarray(at, at + pieceBytes);
  await Promise.resolve();
}

async function merge(
  base: Buffer,
  adapter: readonly AdapterTensor[],
  { config = { rank: 5, scale: 7 / 5 }, pieceBytes = 1 << 20 } = {},
): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  const input = { base: piecesOf(base, pieceBytes), byteLength: base.length, adapter, config };
  for await (const chunk of mergedChunks({ ...input, onPairs: () => undefined })) chunks.push(chunk);
  return Buffer.concat(chunks);
}

const refused =
  (pattern: RegExp, code: ErrorCode) =>
  (error: unknown): boolean => {
    assert.ok(isStemmaError(error, code), String(error));
    assert.match(error.message, pattern);
    return true;
  };

/** Numbers of the merged file in order, with those that peft wrote. */
async function comparedWithPeft(name: string): Promise<readonly (readonly [number, number])[]> {
  const config = readAdapterConfig(vector(`${name}-adapter.json`), "it");
  const merged = await merge(
    vector(`${name}-base.safetensors`),
    tensorsIn(vector(`${name}-adapter.safetensors`)),
    {
      config,
    },
  );
  const byPeft = new Map(tensorsIn(vector(`${name}-merged.safetensors`)).map((each) => [each.name, each]));
  return tensorsIn(merged).flatMap((tensor) => {
    const other = valuesOf(byPeft.get(tensor.name) as AdapterTensor);
    return Array.from(valuesOf(tensor), (value, i) => [value, other[i] as number] as const);
  });
}

describe("a merged adapter", () => {
  test("is what peft merged, to the last bits of float32", async () => {
    for (const [value, other] of await comparedWithPeft("lora"))
      assert.ok(Math.abs(value - other) <= 2 ** -22 * Math.max(1, Math.abs(other)), `${value} ${other}`);
  });

  test("of bfloat16, with the root of the rank, is what peft merged but for the last bit", async () => {
    for (const [value, other] of await comparedWithPeft("rslora"))
      assert.ok(Math.abs(value - other) <= 2 ** -7 * Math.max(1, Math.abs(other)), `${value} ${other}`);
  });

  test("is not completed after an interrupt, and its base is closed", async () => {
    const base = vector("lora-base.safetensors");
    const abort = new AbortController();
    let isClosed = false;
    const pieces = async function* (): AsyncGenerator<Uint8Array> {
      try {
        yield* piecesOf(base, 900);
      } finally {
        isClosed = true;
      }
    };
    const chunks = mergedChunks({
      ...{ base: pieces(), byteLength: base.length, config: { rank: 5, scale: 1 }, signal: abort.signal },
      adapter: tensorsIn(vector("lora-adapter.safetensors")),
      onPairs: () => undefined,
    });
    await chunks.next();
    abort.abort(new StemmaError("INTERRUPTED", "Interrupted."));
    await assert.rejects(chunks.next(), refused(/Interrupted/, "INTERRUPTED"));
    assert.ok(isClosed);
  });

  const hexOf = (file: Buffer): string => file.toString("hex");
  const bits = (values: readonly number[]): readonly number[] => Array.from(Float32Array.from(values));
  const number = fc.float({ noNaN: true, min: -1e4, max: 1e4 });

  test("has the numbers of the formula, and the same bits for any pieces", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          out: fc.integer({ min: 1, max: 4 }),
          width: fc.integer({ min: 1, max: 4 }),
          rank: fc.integer({ min: 1, max: 4 }),
        }),
        fc.array(number, { minLength: 48, maxLength: 48 }),
        fc.integer({ min: 1, max: 40 }),
        async ({ out, width, rank }, numbers, pieceBytes) => {
          let taken = 0;
          const take = (count: number): readonly number[] => bits(numbers.slice(taken, (taken += count)));
          const [w, a, b] = [take(out * width), take(rank * width), take(out * rank)];
          const base = safetensors([
            ["l.bias", "F32", [1], floats(1)],
            ["l.weight", "F32", [out, width], floats(...w)],
            ["z", "U8", [1], Buffer.from([7])],
          ]);
          const adapter = tensorsIn(
            safetensors([
              ["base_model.model.l.lora_B.weight", "F32", [out, rank], floats(...b)],
              ["base_model.model.l.lora_A.weight", "F32", [rank, width], floats(...a)],
            ]),
          );
          const scale = 0.3;
          const expected = w.map((value, at) => {
            let sum = 0;
            for (let k = 0; k < rank; k++)
              sum = Math.fround(
                sum +
                  Math.fround(
                    (b[Math.floor(at / width) * rank + k] as number) *
                      (a[k * width + (at % width)] as number),
                  ),
              );
            return Math.fround(value + Math.fround(sum * Math.fround(scale)));
          });
          const whole = await merge(base, adapter, { config: { rank, scale } });
          const found = tensorsIn(whole).find(({ name }) => name === "l.weight") as AdapterTensor;
          assert.equal(hexOf(Buffer.from(found.bytes)), hexOf(floats(...expected)));
          assert.equal(
            hexOf(await merge(base, adapter, { config: { rank, scale }, pieceBytes })),
            hexOf(whole),
          );
        },
      ),
      { numRuns: 50 },
    );
  });
});

describe("an adapter that cannot be merged exactly is refused with the name of what it has", () => {
  const settings = JSON.parse(String(vector("lora-adapter.json"))) as Record<string, unknown>;
  for (const [changed, pattern] of [
    [{ peft_type: "IA3" }, /peft_type is "IA3"/],
    [{ use_dora: true }, /not supported: "use_dora" \(true\)/],
    [{ fan_in_fan_out: true }, /"fan_in_fan_out"/],
    [{ rank_pattern: { first: 3 } }, /"rank_pattern"/],
    [{ alpha_pattern: { first: 3 } }, /"alpha_pattern"/],
    [{ modules_to_save: ["last"] }, /"modules_to_save"/],
    [{ bias: "all" }, /"bias" \("all"\)/],
    [{ init_lora_weights: "pissa" }, /"init_lora_weights" \("pissa"\)/],
    [{ of_tomorrow: 1 }, /"of_tomorrow" \(1\)/],
    [{ r: 0 }, /r is 0/],
    [{ lora_alpha: "8" }, /lora_alpha is "8"/],
  ] as const)
    test(JSON.stringify(changed), () => {
      const bytes = Buffer.from(JSON.stringify({ ...settings, ...changed }));
      assert.throws(() => readAdapterConfig(bytes, "it"), refused(pattern, "MODEL_FILE_MALFORMED"));
    });

  const base = safetensors([
    ["l.weight", "F32", [2, 3], floats(1, 2, 3, 4, 5, 6)],
    ["whole.weight", "I32", [2, 3], floats(1, 2, 3, 4, 5, 6)],
    ["vector.weight", "F32", [2], floats(1, 2)],
  ]);
  const a = ["l.lora_A.weight", "F32", [1, 3], floats(1, 2, 3)] as const;
  const b = ["l.lora_B.weight", "F32", [2, 1], floats(1, 2)] as const;
  for (const [tensors, pattern] of [
    [[a], /only one of lora_A and lora_B for "l.weight"/],
    [[a, b, ["base_model.model.l.lora_A.weight", "F32", [1, 3], floats(1, 2, 3)]], /two tensors for/],
    [
      [["l.lora_A.weight", "F32", [3, 1], floats(1, 2, 3)], b],
      /"l.lora_A.weight" F32 \[3, 1\] has to be \[1, 3\]/,
    ],
    [[a, ["l.lora_B.weight", "F32", [1], floats(1)]], /has to be \[2, 1\]/],
    [[a, b, ["l.lora_magnitude_vector", "F32", [2], floats(1, 2)]], /neither lora_A nor lora_B/],
    [
      [
        ["m.lora_A.weight", ...a.slice(1)],
        ["m.lora_B.weight", ...b.slice(1)],
      ],
      /its base has no tensor "m.weight"/,
    ],
    [
      [
        ["whole.lora_A.weight", ...a.slice(1)],
        ["whole.lora_B.weight", ...b.slice(1)],
      ],
      /I32 \[2, 3\] is not of F32/,
    ],
    [
      [
        ["vector.lora_A.weight", ...a.slice(1)],
        ["vector.lora_B.weight", ...b.slice(1)],
      ],
      /is not a matrix/,
    ],
  ] as const)
    test(String(pattern), async () => {
      const adapter = tensorsIn(safetensors(tensors as unknown as Parameters<typeof safetensors>[0]));
      await assert.rejects(
        merge(base, adapter, { config: { rank: 1, scale: 1 } }),
        refused(pattern, "ARCHITECTURE_MISMATCH"),
      );
    });
});
