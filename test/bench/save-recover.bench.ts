/**
 * Time to save and to recover a model of MobileNetV2's size (or `--model resnet-18`, `resnet-50`, `resnet-152`),
 * stored raw, along a chain of 10 versions, full and partial updates, against the floor of the same run: to save,
 * SHA-256 of all bytes and an fsynced write of the new bytes; to recover, a cached read and SHA-256. Then, for
 * MobileNetV2, the same encoded, as a server receives it (coded-chain.ts), against those floors and the codec's own
 * time. Prints ratios of medians; asserts nothing.
 * `-o json` prints JSON; `node --expose-gc` makes the figures steadier. STEMMA_BENCH_ROUNDS (5) chains are
 * measured. `--quick` measures one short chain of each kind.
 */
import { randomFillSync } from "node:crypto";
import { mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openNodeHome } from "../../server/storage/repository/node-home.js";
import type { FleetRepository } from "../../server/storage/repository/fleet-repository.js";
import { openRepository } from "../../server/storage/repository/open-repository.js";
import { unhashedOpaqueModel } from "../../shared/save/model-source.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { keyframeDepth } from "../../server/fleet/ingest/uploads/coded-tensors.js";
import { codedFigures, measureCodedChain, type CodedStep } from "./coded-chain.js";
import { byteLengthOf, shapesOf } from "./model-shapes.js";
import { median, recoverFloor, saveFloor, timed, type Named } from "./save-floors.js";

const isQuick = process.argv.includes("--quick");
const depth = isQuick ? 3 : 10;
const codedDepth = isQuick ? 2 : keyframeDepth;
const rounds = Number(process.env["STEMMA_BENCH_ROUNDS"] ?? (isQuick ? 1 : 5));
const codedRounds = Math.max(1, Math.ceil(rounds / 2));
const modelName = argumentOf("--model") ?? "mobilenet-v2";
const shapes = shapesOf(modelName);
const asJson = process.argv.includes("json");
const roughNote =
  "these figures are rough: --quick measures one short chain of each kind; run it without --quick to compare";

function argumentOf(option: string): string | undefined {
  const index = process.argv.indexOf(option);
  return index < 0 ? undefined : process.argv[index + 1];
}

function randomBytes(shape: readonly number[]): Uint8Array {
  return randomFillSync(new Uint8Array(byteLengthOf(shape)));
}

interface Times {
  readonly save: number[];
  readonly saveFloor: number[];
  readonly recover: number[][];
  readonly recoverFloor: number[];
}

function randomTensors(): Named[] {
  return shapes.map((shape, index) => ({
    name: `t${String(index).padStart(3, "0")}`,
    dtype: "F32",
    shape,
    bytes: randomBytes(shape),
  }));
}

async function writeTensors(path: string, tensors: readonly Named[]): Promise<void> {
  const file = await open(path, "w");
  for (const { bytes } of tensors) await file.write(bytes);
  await file.close();
}

async function measureChain(folder: string, partial: boolean, times: Times, round: number): Promise<void> {
  const home = await openNodeHome(join(folder, `home-${partial}-${round}`));
  const repository = await openRepository(home, "local");
  const floorFile = join(folder, "cached");
  const versions = await measureSaves({ folder, partial, repository, floorFile, times });
  // Every version is recovered once unmeasured, so that the measured reads are cached and no save still writes.
  for (const versionId of versions) await repository.recover(versionId);
  // Once up and once down the chain, so that no depth is always read first.
  const order = [...versions.entries()];
  for (const [step, versionId] of [...order, ...order.toReversed()]) {
    times.recoverFloor.push(await recoverFloor(floorFile));
    (times.recover[step] ??= []).push(await timed(() => repository.recover(versionId)));
  }
  await repository.close();
  await home.close();
}

interface SavedChain {
  readonly folder: string;
  readonly partial: boolean;
  readonly repository: FleetRepository;
  /** Gets the first version's tensors, whose read is the floor of a recovery. */
  readonly floorFile: string;
  readonly times: Times;
}

/** Saves a base and `depth` updates, and measures the updates. */
async function measureSaves({ folder, partial, repository, floorFile, times }: SavedChain): Promise<Hash[]> {
  let tensors = randomTensors();
  let base = (await repository.save(unhashedOpaqueModel(tensors), { name: "m" })).summary.versionId;
  await writeTensors(floorFile, tensors);
  const versions: Hash[] = [];
  for (let step = 1; step <= depth; step++) {
    tensors = tensors.map((tensor, index) =>
      partial && index < tensors.length - 2 ? tensor : { ...tensor, bytes: randomBytes(tensor.shape) },
    );
    const stored = partial ? tensors.slice(-2) : tensors;
    const floor = (): Promise<number> => saveFloor(folder, tensors, stored);
    // Collects the garbage of generating the tensors first, so that neither side pays for it (--expose-gc).
    globalThis.gc?.();
    const save = (): Promise<number> =>
      timed(async () => {
        base = (await repository.save(unhashedOpaqueModel(tensors), { name: "m", bases: [base] })).summary
          .versionId;
      });
    // Which side is first alternates, so that neither always profits from the other's caches.
    if (step % 2 === 0) {
      times.saveFloor.push(await floor());
      times.save.push(await save());
    } else {
      times.save.push(await save());
      times.saveFloor.push(await floor());
    }
    versions.push(base);
  }
  return versions;
}

const folder = await mkdtemp(join(process.env["STEMMA_BENCH_FOLDER"] ?? tmpdir(), "stemma-bench-"));
const results: Record<string, unknown>[] = [];
try {
  for (const partial of [false, true]) {
    const times: Times = { save: [], saveFloor: [], recover: [], recoverFloor: [] };
    // One chain is not measured: it compiles and fills caches for both sides.
    await measureChain(folder, partial, { save: [], saveFloor: [], recover: [], recoverFloor: [] }, rounds);
    for (let round = 0; round < rounds; round++) await measureChain(folder, partial, times, round);
    const recoverFloorMs = median(times.recoverFloor);
    const ratios = times.recover.map((list) => median(list) / recoverFloorMs);
    results.push({
      update: partial ? "partial" : "full",
      megabytes: shapes.reduce((sum, shape) => sum + byteLengthOf(shape), 0) / 1e6,
      saveMs: median(times.save),
      saveFloorMs: median(times.saveFloor),
      saveRatio: median(times.save) / median(times.saveFloor),
      recoverMs: median(times.recover.flat()),
      recoverFloorMs,
      recoverRatio: median(times.recover.flat()) / recoverFloorMs,
      recoverRatioDepth1: ratios[0],
      [`recoverRatioDepth${depth}`]: ratios.at(-1),
    });
    if (modelName !== "mobilenet-v2") continue;
    const steps: CodedStep[] = [];
    await measureCodedChain(folder, partial, 1);
    for (let round = 0; round < codedRounds; round++)
      steps.push(...(await measureCodedChain(folder, partial, codedDepth)));
    results.push({ update: partial ? "partial, coded" : "full, coded", ...codedFigures(steps) });
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}
if (asJson)
  console.log(
    JSON.stringify(
      {
        bench: "save-recover",
        model: modelName,
        rounds,
        depth,
        ...(isQuick ? { note: roughNote } : {}),
        results,
      },
      undefined,
      2,
    ),
  );
else {
  for (const row of results)
    console.log(
      Object.entries(row)
        .map(([key, value]) => `${key} ${typeof value === "number" ? value.toFixed(2) : String(value)}`)
        .join("  "),
    );
  if (isQuick) console.log(roughNote);
  console.log("aims: saveRatio ≤ 1.5, recoverRatio ≤ 2 at any depth; coded: save and recover ≤ 1.2");
}
