// Reduced models: they are versions of their own, are recovered bit for bit, and every operation keeps them
// apart from exact models.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { connectOperations } from "../../../../../server/interface/http/client.js";
import { openLocalOperations } from "../../../../../server/operations/local-operations.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { reduceTensor } from "../../../../../shared/schemes/reduce.js";
import { parseScheme, schemeCodes } from "../../../../../shared/schemes/scheme.js";
import { fileOfBytes, readSafetensors, safetensorsChunks } from "../../../../../shared/tensor/safetensors.js";
import { sourceOfTensor, tensorOfSource, type Tensor } from "../../../../../shared/tensor/tensor.js";
import { fineTuned, noiseTensor, weights } from "../../../../helpers/related-tensors.js";
import { startTestServer, testFleet } from "../../../../helpers/test-server.js";

type Named = Readonly<Record<string, Tensor>>;
/** Two matrices of equal content, a vector, counters; NaN and −0 among the numbers. */
function exactModel(): Named {
  const kernel = weights([40, 60], 3);
  const words = new Uint32Array(kernel.bytes.buffer);
  words.set([0x80000000, 0x7f800001, 0xff800000, 1]);
  return {
    "a.kernel": kernel,
    "a.twin": kernel,
    "b.kernel": weights([30, 4, 4], 4),
    bias: weights([60], 5),
    steps: noiseTensor("I64", [3, 2], 6),
  };
}

async function importModel(
  operations: ServerOperations,
  model: Named,
  names: { readonly fleet: string; readonly name: string; readonly base?: string },
): Promise<void> {
  const pieces: Uint8Array[] = [];
  for await (const chunk of safetensorsChunks(
    Object.entries(model).map(([each, tensor]) => ({ name: each, source: sourceOfTensor(tensor) })),
  ))
    pieces.push(Buffer.from(chunk));
  const bytes = Buffer.concat(pieces);
  await operations.import(
    {
      byteLength: bytes.length,
      chunks: (async function* () {
        yield bytes;
      })(),
    },
    names,
  );
}

async function recovered(operations: ServerOperations, fleet: string, model: string): Promise<Named> {
  const stream = await operations.recover({ fleet, model });
  const pieces: Uint8Array[] = [];
  for await (const chunk of stream.chunks) pieces.push(Buffer.from(chunk));
  await stream.report;
  const file = await readSafetensors(fileOfBytes(Buffer.concat(pieces)), model);
  return Object.fromEntries(
    await Promise.all(
      file.tensors.map(async (entry) => [entry.name, await tensorOfSource(file.source(entry))] as const),
    ),
  );
}

const plain = (tensor: Tensor | undefined): object => ({
  dtype: tensor?.dtype,
  shape: tensor?.shape,
  bytes: Buffer.from(tensor?.bytes ?? []).toString("hex"),
});

describe("model reduce", () => {
  it("recovers each matrix as the scheme reduced it and everything else exactly, also after a restart and a collection", async () => {
    const home = await mkdtemp(join(tmpdir(), "stemma-reduce-"));
    const fleet = "local";
    const exact = exactModel();
    let operations = await openLocalOperations({ home });
    try {
      await importModel(operations, exact, { fleet, name: "exact" });
      const schemes = [
        "float16",
        "bfloat16",
        "fixed:6",
        "normalized:12",
        "quantize-uniform:5",
        "quantize-random:5",
      ];
      for (const scheme of schemes) {
        const dry = await operations.reduce({
          fleet,
          model: "exact",
          scheme,
          name: `small-${scheme.replace(":", "-")}`,
          seed: "9",
          dryRun: true,
        });
        assert.deepEqual([dry.summary, dry.packBytes], [null, 0]);
        const report = await operations.reduce({
          fleet,
          model: "exact",
          scheme,
          name: `small-${scheme.replace(":", "-")}`,
          seed: "9",
        });
        assert.deepEqual({ ...report, summary: null, packBytes: 0 }, dry, "a dry run predicts the result");
        assert.equal(report.summary?.record.scheme, scheme);
        assert.deepEqual([report.tensors, report.reducedTensors], [5, 3]);
        assert.equal(report.rawBytes, 40 * 60 * 4 + 30 * 16 * 4 + 60 * 4 + 48, "twins count once");
        assert.ok(report.ratio > 1.5 && report.packBytes < report.rawBytes, scheme);
        assert.ok(report.difference.largest > 0 && report.difference.mean <= report.difference.largest);
        assert.deepEqual(report.summary.record.bases, [
          (await operations.model({ fleet, model: "exact" })).versionId,
        ]);
      }
      await operations.close();
      operations = await openLocalOperations({ home });
      await operations.collect({ fleet, ...(await operations.planCollection({ fleet })) });
      for (const scheme of schemes) {
        const back = await recovered(operations, fleet, `small-${scheme.replace(":", "-")}`);
        for (const [name, tensor] of Object.entries(exact))
          assert.deepEqual(
            plain(back[name]),
            plain({
              ...tensor,
              bytes: reduceTensor(parseScheme(scheme), tensor, tensor.bytes, { seed: "9" }).reduced,
            }),
            `${scheme} ${name}`,
          );
        const { expected } = await operations.recover({
          fleet,
          model: `small-${scheme.replace(":", "-")}`,
        });
        assert.equal(expected.scheme, scheme);
      }
      assert.deepEqual(
        Object.fromEntries(
          Object.entries(await recovered(operations, fleet, "exact")).map(([name, tensor]) => [
            name,
            plain(tensor),
          ]),
        ),
        Object.fromEntries(Object.entries(exact).map(([name, tensor]) => [name, plain(tensor)])),
        "the exact model is as it was",
      );
      assert.equal((await operations.recover({ fleet, model: "exact" })).expected.scheme, undefined);
      assert.deepEqual((await operations.check({ fleet })).problems, []);

      // The exact model may be removed; the reduced one keeps the tensors that they share.
      await operations.retire({ fleet, model: "exact", because: "small is enough" });
      await operations.collect({ fleet, ...(await operations.planCollection({ fleet })) });
      assert.equal((await operations.verify({ fleet, model: "small-fixed-6" })).scheme, "fixed:6");
    } finally {
      await operations.close();
      await rm(home, { recursive: true, force: true });
    }
  });

  it("stays compact and exact when a storage plan is applied, in either layout", async () => {
    const home = await mkdtemp(join(tmpdir(), "stemma-reduce-"));
    const fleet = "local";
    try {
      let operations = await openLocalOperations({ home });
      await importModel(
        operations,
        { kernel: weights([64, 64], 3), bias: weights([64], 4) },
        { fleet, name: "exact" },
      );
      await importModel(
        operations,
        { kernel: fineTuned(weights([64, 64], 3), 1e-4, 5), bias: weights([64], 4) },
        { fleet, name: "exact", base: "exact:1" },
      );
      const { summary } = await operations.reduce({
        fleet,
        model: "exact:2",
        scheme: "fixed:8",
        name: "small",
      });
      for (const layout of ["packed", "planes"] as const) {
        await operations.applyStorage({
          fleet,
          ratio: 1,
          scheme: "independent",
          layout,
          timeLimitMs: 500,
          readBytesPerSecond: 1e8,
        });
        assert.equal((await operations.verify({ fleet, model: "small" })).root, summary?.record.root);
        await operations.close();
        const opened = await openNodeHome(home);
        const repository = await openRepository(opened, fleet);
        try {
          const [kernel] = (await repository.leaves(repository.resolve("small").versionId)).filter(
            ({ path }) => path === "kernel",
          );
          assert.equal(repository.objects.encodingOf(kernel!.tensor)?.code, schemeCodes.fixed, layout);
        } finally {
          await repository.close();
          await opened.close();
        }
        operations = await openLocalOperations({ home });
      }
      await operations.close();
    } finally {
      await rm(home, { recursive: true, force: true });
    }
  });

  it("refuses operations that would mix exact and reduced models, through a server too", async () => {
    const server = await startTestServer();
    const fleet = testFleet;
    try {
      const operations = connectOperations({ socketPath: server.handle.socketPath });
      await importModel(operations, exactModel(), { fleet, name: "exact" });
      const reduced = await operations.reduce({ fleet, model: "exact", scheme: "fixed:8", name: "small" });
      assert.equal(reduced.summary?.name, "small");
      assert.equal((await operations.recover({ fleet, model: "small" })).expected.scheme, "fixed:8");
      await assert.rejects(operations.reduce({ fleet, model: "small", scheme: "fixed:4", name: "smaller" }), {
        code: "MODEL_REDUCED",
      });
      await assert.rejects(operations.reduce({ fleet, model: "exact", scheme: "fixed:4", name: "exact" }), {
        code: "MODEL_REDUCED",
      });
      await assert.rejects(importModel(operations, exactModel(), { fleet, name: "small" }), {
        code: "MODEL_REDUCED",
      });
      assert.equal(
        (await operations.reduce({ fleet, model: "exact", scheme: "fixed:4", name: "small" })).summary
          ?.version,
        2,
        "among reduced ones it may be",
      );
      for (const wrong of [
        { scheme: "float8" },
        { scheme: "fixed:8", seed: "-1" },
        { scheme: "quantize-uniform:9" },
      ])
        await assert.rejects(operations.reduce({ fleet, model: "exact", name: "other", ...wrong }), {
          code: "USAGE",
        });
      await assert.rejects(operations.reduce({ fleet, model: "nothing", scheme: "float16", name: "other" }), {
        code: "MODEL_NOT_FOUND",
      });
      await assert.rejects(operations.reduce({ fleet, model: "exact", scheme: "float16", name: "a:b" }), {
        code: "NAME_INVALID",
      });

      await server.enroll("van", ["line"]);
      await assert.rejects(operations.assign({ fleet, device: "van", line: "line", model: "small" }), {
        code: "MODEL_REDUCED",
      });
      await assert.rejects(
        operations.enroll({
          fleet,
          device: "bus",
          lines: ["line"],
          profile: "generic",
          initial: { line: "small" },
        }),
        { code: "MODEL_REDUCED" },
      );
      assert.equal(
        (await operations.assign({ fleet, device: "van", line: "line", model: "exact" })).name,
        "exact",
      );
      assert.equal(
        (
          await operations.assign({
            fleet,
            device: "van",
            line: "line",
            model: "small:1",
            allowReduced: true,
          })
        ).record.scheme,
        "fixed:8",
      );
      await operations.enroll({
        fleet,
        device: "bus",
        lines: ["line"],
        profile: "generic",
        initial: { line: "small" },
        allowReduced: true,
      });
    } finally {
      await server.remove();
    }
  });
});
