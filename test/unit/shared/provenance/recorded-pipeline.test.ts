/** The bytes of input pipelines: releases name them by their hash, so that they never change. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { makeProvenance } from "../../../../shared/provenance/make-provenance.js";
import { openProvenance } from "../../../../shared/provenance/openings.js";
import { recordedPipeline } from "../../../../shared/provenance/recorded-pipeline.js";
import { tookSamplesAsGiven } from "../../../../shared/provenance/samples-as-given.js";
import { objectId, sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

interface Vector {
  readonly description: Readonly<Record<string, unknown>>;
  readonly pipeline: string;
  readonly id: Hash;
}
const path = "../../../../../test/vectors/provenance/pipelines-1.json";
const vectors = JSON.parse(
  readFileSync(fileURLToPath(new URL(path, import.meta.url)), "utf8"),
) as readonly Vector[];

/** A record of a training on data with this description. */
function recordOf(description: unknown, isOpen = true) {
  const made = makeProvenance(
    {
      engine: undefined,
      recipe: undefined,
      exactness: "none",
      bases: [],
      data: [sha256("data")],
      environment: sha256("environment"),
    },
    { data: [description] } as never,
    { bytes: (count) => new Uint8Array(count) },
  );
  return openProvenance(made.provenance, isOpen ? made.openings : undefined);
}

for (const { description, pipeline, id } of vectors)
  test(`the pipeline of ${String(description["reader"])} has the golden bytes`, () => {
    const made = recordedPipeline(recordOf(description));
    assert.equal(Buffer.from(made?.bytes ?? []).toString("utf8"), pipeline);
    assert.equal(made?.id, id);
    assert.equal(objectId("pipeline", Buffer.from(pipeline)), id);
  });

test("none is made of a redacted record, of data of another kind, and of what is too long", () => {
  const [{ description }] = vectors as [Vector];
  assert.equal(recordedPipeline(recordOf(description, false)), undefined);
  assert.equal(recordedPipeline(recordOf({ reader: "idx" })), undefined);
  // The record is within its limit, its pipeline as a file is not.
  const columns = Array.from({ length: 4000 }, (_, column) => ({
    name: `${"a".repeat(200)}${column}`,
    role: "input",
    kind: "number",
  }));
  const table = { reader: "csv", parameters: {} };
  assert.ok(recordedPipeline(recordOf({ ...table, columns: columns.slice(0, 3000) })) !== undefined);
  assert.equal(recordedPipeline(recordOf({ ...table, columns })), undefined);
});

test("samples that an application gave are told from data that a reader read", () => {
  const answers = [
    { reader: "samples" },
    ...vectors.map(({ description }) => description),
    null,
    "samples",
  ].map((description) => tookSamplesAsGiven(recordOf(description)));
  assert.deepEqual(answers, [true, ...vectors.map(() => false), false, false]);
});
