/** Plans store what follows from another tensor as what it follows from. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { encodingCodes } from "../../../../../shared/delta/encoded.js";
import { derive, type Derivation } from "../../../../../shared/delta/derived/derivation.js";
import { planArchive } from "../../../../../server/storage/archive/plan-archive.js";
import { nodeClock } from "../../../../../shared/adapters/node-ports.js";
import {
  alteredModels,
  applyToFleet,
  planFleet,
  testRates,
  type FleetModel,
} from "../../../../helpers/archive-fleet.js";
import { loadDeltaCodec } from "../../../../../shared/delta/load.js";
import type { DeltaCodec } from "../../../../../shared/delta/codec.js";
import { noiseBytes } from "../../../../helpers/noise-bytes.js";
import { fineTuned, weights } from "../../../../helpers/related-tensors.js";
import { floatsOf, groups, inBytes, singles, symmetric } from "../../../../helpers/quantised-tensors.js";
import { memoryFleet } from "./memory-fleet.js";

const dense = weights([96, 64], 1);
const child = (how: Partial<Derivation>): ReturnType<typeof derive> =>
  derive([dense], { averaged: 1, dtype: "F32", ...how });
const models: readonly FleetModel[] = [
  { name: "base", tensors: [{ name: "w", ...dense }] },
  { name: "half", base: "base", tensors: [{ name: "w", ...child({ dtype: "BF16" }) }] },
  { name: "turned", base: "base", tensors: [{ name: "w", ...child({ axes: [1, 0] }) }] },
];

it("a cast and a transposed tensor take a few bytes, stay so, and every model is given back", async () => {
  const { repository, ids } = await memoryFleet(models);
  const report = await applyToFleet(repository, await planFleet(repository, { ratio: null }));
  assert.deepEqual(report.failed, []);
  for (const name of ["half", "turned"]) {
    const [leaf] = await repository.leaves(ids.get(name)!);
    const encoding = repository.objects.encodingOf(leaf!.tensor) ?? assert.fail();
    assert.equal(encoding.code, encodingCodes.derived, name);
    assert.ok(encoding.storedBytes < 10, `${name}: ${encoding.storedBytes} bytes`);
  }
  assert.deepEqual(await alteredModels(repository, models, ids), []);
  const again = await planFleet(repository, { ratio: null });
  assert.ok(again.plan.vertices.every(({ kind }) => kind === "current"));
});

it("the average of a federated round is stored as that, and given back after its models were rewritten", async () => {
  const clients = [1, 2, 3, 4].map((client) => fineTuned(dense, 1e-3, client));
  const average = derive(clients, {
    averaged: 4,
    weighting: { form: "single", counts: [312, 1200, 77, 911], total: 2500 },
    dtype: "F32",
  });
  const round: readonly FleetModel[] = [
    models[0]!,
    ...clients.map((own, i) => ({ name: `client-${i}`, base: "base", tensors: [{ name: "w", ...own }] })),
    { name: "average", base: "base", tensors: [{ name: "w", ...average }] },
  ];
  const { repository, ids } = await memoryFleet(round);
  const report = await applyToFleet(repository, await planFleet(repository, { ratio: null }));
  assert.deepEqual(report.failed, []);
  const [leaf] = await repository.leaves(ids.get("average")!);
  const encoding = repository.objects.encodingOf(leaf!.tensor) ?? assert.fail();
  assert.equal(encoding.code, encodingCodes.derived);
  assert.equal(encoding.others?.length, 2);
  assert.ok(encoding.storedBytes < 64, `${encoding.storedBytes} bytes`);
  assert.deepEqual(await alteredModels(repository, round, ids), []);
  const again = await planFleet(repository, { ratio: null });
  assert.ok(again.plan.vertices.every(({ kind }) => kind === "current"));
});

it("scales that a model has as tensors are named instead of stored", async () => {
  const rows = groups.rows(64);
  const made = symmetric(floatsOf(dense), rows, { divisor: 127, min: -127, max: 127 });
  const scales = made.scales.map((scale, row) => Math.fround(scale * (0.8 + 0.002 * ((row * 7) % 96))));
  const codes = Int16Array.from(floatsOf(dense), (value, i) =>
    Math.min(127, Math.max(-127, Math.round(value / scales[rows(i)]!))),
  );
  const both: readonly FleetModel[] = [
    models[0]!,
    {
      name: "int8",
      base: "base",
      tensors: [
        { name: "w", ...inBytes("I8", [96, 64], codes) },
        { name: "w_scale", ...singles([96], scales) },
      ],
    },
  ];
  const { repository, ids } = await memoryFleet(both);
  const report = await applyToFleet(repository, await planFleet(repository, { ratio: null }));
  assert.deepEqual(report.failed, []);
  const leaves = await repository.leaves(ids.get("int8")!);
  const encodings = leaves.map(({ tensor }) => repository.objects.encodingOf(tensor) ?? assert.fail());
  const own = encodings.find(({ code }) => code === encodingCodes.derived) ?? assert.fail();
  assert.ok(own.previous !== undefined && own.storedBytes < 64, `${own.storedBytes} bytes`);
  assert.deepEqual(await alteredModels(repository, both, ids), []);
});

it("relatives are found in other lines, under other names, and without lineage", async () => {
  const turned = derive([dense], { averaged: 1, axes: [1, 0], dtype: "BF16" });
  const made = symmetric(floatsOf(dense), groups.rows(64), { divisor: 127, min: -127, max: 127 });
  const order = Array.from({ length: 96 }, (_, row) => ({ from: (row * 35) % 96, length: 1 }));
  const permuted = derive([dense], { averaged: 1, taken: { axis: 0, runs: order }, dtype: "F32" });
  const strangers: readonly FleetModel[] = [
    models[0]!,
    { name: "head", tensors: [{ name: "encoder.output.kernel", ...turned }] },
    { name: "edge", tensors: [{ name: "q", ...inBytes("I8", [96, 64], made.codes) }] },
    { name: "sorted", tensors: [{ name: "s", ...permuted }] },
    { name: "alone", tensors: [{ name: "other", ...weights([96, 64], 9) }] },
  ];
  const { repository, ids } = await memoryFleet(strangers);
  const report = await applyToFleet(repository, await planFleet(repository, { ratio: null }));
  assert.deepEqual(report.failed, []);
  for (const name of ["head", "edge", "sorted"]) {
    const [leaf] = await repository.leaves(ids.get(name)!);
    const { storedBytes } = repository.objects.encodingOf(leaf!.tensor) ?? assert.fail();
    assert.ok(storedBytes < 400, `${name}: ${storedBytes} bytes`);
  }
  assert.deepEqual(await alteredModels(repository, strangers, ids), []);
});

it("whether files follow from each other is searched off the event loop", async () => {
  const file = (...bytes: readonly Uint8Array[]): FleetModel["tensors"][number] => {
    const all = Buffer.concat(bytes);
    return { name: "file", dtype: "U8", shape: [all.length], bytes: all };
  };
  const files: readonly FleetModel[] = [
    { name: "first", tensors: [file(noiseBytes(40_000, 1))] },
    { name: "moved", base: "first", tensors: [file(noiseBytes(300, 2), noiseBytes(40_000, 1))] },
  ];
  const { repository } = await memoryFleet(files);
  const codec = await loadDeltaCodec();
  const onSamples: DeltaCodec = {
    ...codec,
    encodeTensor: (header, bytes, ...others) => {
      assert.ok(bytes.length < 40_000, "a complete file is encoded here");
      return codec.encodeTensor(header, bytes, ...others);
    },
  };
  const { plan } = await planArchive(
    repository.fleet,
    repository,
    { codec: onSamples, rates: testRates, clock: nodeClock() },
    { ratio: null, timeLimitMs: 500 },
  );
  assert.equal(plan.vertices.filter(({ kind }) => kind === "delta").length, 1);
});
