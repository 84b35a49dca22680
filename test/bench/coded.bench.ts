/**
 * Time to save and to recover a delta-encoded model, against the time for the same model raw plus its bytes
 * divided by the codec's rate, all in the same run: `stemma bench coded [--quick] [-o json] [BASE CHILD]`
 * (safetensors files; without them a random model of MobileNetV2's size and a random fine-tune of it). By the
 * clock, and by processor time of all threads, which other work on the machine disturbs less; medians of
 * STEMMA_BENCH_ROUNDS (9) rounds.
 *
 * recover: the model by `model recover`, every tensor encoded against a base that is stored raw. Cold: the
 *          store was newly opened, so the base is read too. Warm: the base is cached.
 * save:    what a server does with a received model: it writes encoded tensors into a pack, decodes each and
 *          compares its id.
 *
 * Each is compared with the same for raw tensors + bytes ÷ decoding rate. Asserts nothing; the aim is 1.2.
 */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";
import { openNodeHome } from "../../server/storage/repository/node-home.js";
import { openRepository } from "../../server/storage/repository/open-repository.js";
import { renderTable } from "../../shared/cli/table.js";
import type { DeltaCodec } from "../../shared/delta/codec.js";
import { loadDeltaCodec } from "../../shared/delta/load.js";
import type { CodedTensor, ObjectWriter } from "../../shared/objects/object-store.js";
import { opaqueModelSource } from "../../shared/save/model-source.js";
import { tensorId } from "../../shared/tensor/hash.js";
import { fileOfBytes, readSafetensors } from "../../shared/tensor/safetensors.js";
import { sourceOfTensor, tensorOfSource, type Hash, type Tensor } from "../../shared/tensor/tensor.js";
import { fineTuned, weights } from "../helpers/related-tensors.js";
import { writePack } from "../helpers/coded-tensors.js";
import { median, spent, type Cost } from "./save-floors.js";

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    output: { type: "string", short: "o", default: "table" },
    quick: { type: "boolean", default: false },
  },
});
const warmUpRounds = options.quick ? 1 : 4;
const rounds = Number(process.env["STEMMA_BENCH_ROUNDS"] ?? (options.quick ? 2 : 9));

type Named = Tensor & { readonly name: string };
interface Pair {
  readonly name: string;
  readonly base: readonly Named[];
  readonly child: readonly Named[];
}

async function readModel(path: string): Promise<readonly Named[]> {
  const file = await readSafetensors(fileOfBytes(await readFile(path)), path);
  const tensors: Named[] = [];
  for (const entry of file.tensors)
    tensors.push({ name: entry.name, ...(await tensorOfSource(file.source(entry))) });
  return tensors;
}

function generatedPair(): Pair {
  const shapes = Array.from({ length: options.quick ? 6 : 40 }, (_, i) =>
    i % 4 === 0 ? [320, 960] : i % 4 === 1 ? [960] : [96, 192],
  );
  const base = shapes.map((shape, i): Named => ({
    name: `t${String(i).padStart(3, "0")}`,
    ...weights(shape, i),
  }));
  return {
    name: "drawn",
    base,
    child: base.map((tensor, i) => ({ ...tensor, ...fineTuned(tensor, 1e-4, 100 + i) })),
  };
}

interface Times {
  readonly decode: Cost[];
  readonly rawCold: Cost[];
  readonly rawWarm: Cost[];
  readonly recoverCold: Cost[];
  readonly recoverWarm: Cost[];
  readonly saveRaw: Cost[];
  readonly saveCoded: Cost[];
}

/** Encodes the child's tensors, each once, against the base's tensor of the same name. */
function encodeChild(
  codec: DeltaCodec,
  { base, child }: Pair,
): readonly { readonly coded: CodedTensor; readonly base: Tensor; readonly byteLength: number }[] {
  const bases = new Map(base.map((tensor) => [tensor.name, tensor]));
  const seen = new Set<Hash>();
  return child.flatMap((tensor) => {
    const from = bases.get(tensor.name);
    const id = tensorId(tensor, tensor.bytes);
    if (from === undefined || seen.has(id) || tensorId(from, from.bytes) === id) return [];
    seen.add(id);
    const { code, bytes, against } = codec.encodeTensor(tensor, tensor.bytes, { base: from });
    return [
      {
        coded: {
          id,
          header: { dtype: tensor.dtype, shape: tensor.shape },
          code,
          bytes: bytes.slice(),
          ...(against.base && { base: tensorId(from, from.bytes) }),
        },
        base: from,
        byteLength: tensor.bytes.length,
      },
    ];
  });
}

async function measure(pair: Pair, folder: string): Promise<Record<string, unknown>> {
  const codec = await loadDeltaCodec();
  const parts = encodeChild(codec, pair);
  const times: Times = {
    decode: [],
    rawCold: [],
    rawWarm: [],
    recoverCold: [],
    recoverWarm: [],
    saveRaw: [],
    saveCoded: [],
  };
  const homes = {
    raw: await openNodeHome(join(folder, `${pair.name}-raw`)),
    coded: await openNodeHome(join(folder, `${pair.name}-coded`)),
  };
  let raw = await openRepository(homes.raw, "local");
  let coded = await openRepository(homes.coded, "local");
  const [rawChild, codedChild] = (await Promise.all(
    [raw, coded].map(async (repository) => {
      const base = (await repository.save(opaqueModelSource(pair.base), { name: "m" })).summary.versionId;
      return (await repository.save(opaqueModelSource(pair.child), { name: "m", bases: [base] })).summary
        .versionId;
    }),
  )) as [Hash, Hash];
  await writePack(
    coded.objects,
    parts.map((part) => part.coded),
    { recode: true },
  );
  // The first rounds are not counted: they compile and fill caches for both sides.
  for (let round = -warmUpRounds; round < rounds; round++) {
    if (round === 0) for (const list of Object.values(times) as Cost[][]) list.length = 0;
    times.decode.push(
      await spent(() => {
        for (const {
          coded: { header, code, bytes: stored },
          base,
          byteLength,
        } of parts)
          codec.decodeTensor(header, { code, bytes: stored }, { base }, byteLength);
      }),
    );
    await raw.close();
    raw = await openRepository(homes.raw, "local");
    times.rawCold.push(await spent(() => raw.recover(rawChild)));
    times.rawWarm.push(await spent(() => raw.recover(rawChild)));
    await coded.close();
    coded = await openRepository(homes.coded, "local");
    times.recoverCold.push(await spent(() => coded.recover(codedChild)));
    times.recoverWarm.push(await spent(() => coded.recover(codedChild)));
    times.saveRaw.push(
      await writeAgain(
        raw.objects,
        parts.map(({ coded: { id } }) => pair.child.find((tensor) => tensorId(tensor, tensor.bytes) === id)!),
      ),
    );
    times.saveCoded.push(
      await writeAgain(
        coded.objects,
        parts.map((part) => part.coded),
      ),
    );
  }
  for (const repository of [raw, coded]) await repository.close();
  for (const home of Object.values(homes)) await home.close();
  return figuresOf(pair.name, parts, times);
}

function figuresOf(
  name: string,
  parts: ReturnType<typeof encodeChild>,
  times: Times,
): Record<string, unknown> {
  const bytes = parts.reduce((sum, { byteLength }) => sum + byteLength, 0);
  // A round measures everything one after the other, so that other work on this machine slows all alike.
  const ratio = (coded: readonly Cost[], raw: readonly Cost[], by: keyof Cost): number =>
    median(coded.map((cost, i) => cost[by] / (raw[i]![by] + times.decode[i]![by])));
  const ratios = (by: keyof Cost, suffix: string): Record<string, number> => ({
    [`recoverCold${suffix}`]: ratio(times.recoverCold, times.rawCold, by),
    [`recoverWarm${suffix}`]: ratio(times.recoverWarm, times.rawWarm, by),
    [`save${suffix}`]: ratio(times.saveCoded, times.saveRaw, by),
  });
  return {
    model: name,
    megabytes: bytes / 1e6,
    share: parts.reduce((sum, part) => sum + part.coded.bytes.length, 0) / bytes,
    decodeMBs: bytes / 1e3 / median(times.decode.map(({ clockMs }) => clockMs)),
    ...Object.fromEntries(
      Object.entries(times).map(([key, list]) => [
        `${key}Ms`,
        median((list as readonly Cost[]).map(({ clockMs }) => clockMs)),
      ]),
    ),
    ...ratios("clockMs", ""),
    ...ratios("processorMs", "Processor"),
  };
}

/** Writes these tensors again, which takes as long as a first save. */
async function writeAgain(objects: ObjectWriter, tensors: readonly (Tensor | CodedTensor)[]): Promise<Cost> {
  return spent(async () => {
    const pack = await objects.begin({ recode: true });
    await Promise.all(
      tensors.map((tensor) =>
        "code" in tensor ? pack.putCoded(tensor) : pack.putTensor(sourceOfTensor(tensor)),
      ),
    );
    await pack.commit();
  });
}

const folder = await mkdtemp(join(process.env["STEMMA_BENCH_FOLDER"] ?? tmpdir(), "stemma-bench-"));
try {
  const [base, child] = positionals;
  const pair =
    base === undefined || child === undefined
      ? generatedPair()
      : { name: basename(child, ".safetensors"), base: await readModel(base), child: await readModel(child) };
  const result = await measure(pair, folder);
  if (options.output === "json")
    console.log(JSON.stringify({ bench: "coded", rounds, results: [result] }, undefined, 2));
  else {
    process.stdout.write(
      renderTable(
        Object.entries(result).map(([figure, value]) => ({
          figure,
          value: typeof value === "number" ? value.toFixed(3) : String(value),
        })),
        [
          { title: "FIGURE", value: (row) => row.figure },
          { title: "", value: (row) => row.value },
        ],
      ),
    );
    console.log(
      "recoverCold, recoverWarm, save: ratios to the time of raw tensors + bytes ÷ decoding rate; the aim is 1.2",
    );
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}
