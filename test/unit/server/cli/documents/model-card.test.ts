/** A model card says what is recorded and how it is known, and "not recorded" of all else. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { cardText } from "../../../../../server/cli/documents/card-text.js";
import type { DocumentSource } from "../../../../../server/cli/documents/document-source.js";
import { modelCard } from "../../../../../server/cli/documents/model-card.js";
import type { Statement } from "../../../../../server/cli/documents/statement.js";
import { documentVectors, trainedSource } from "../../../../helpers/document-examples.js";
import { describedVersion, idOf } from "../../../../helpers/page-examples.js";

function statementsOf(source: DocumentSource): readonly Statement[] {
  return modelCard(source).sections.flatMap(({ statements }) => statements);
}

function find(source: DocumentSource, name: string): Statement {
  const [found] = statementsOf(source).filter((each) => each.name === name);
  assert.ok(found, name);
  return found;
}

type Tree = Record<string, unknown>;
const metadata = (source: Tree): Tree => (source["described"] as Tree)["metadata"] as Tree;
const described = (source: Tree): Tree => source["described"] as Tree;
const record = (source: Tree): Tree => described(source)["record"] as Tree;
const provenance = (source: Tree): Tree => described(source)["provenance"] as Tree;
const random = (source: Tree): Tree => provenance(source)["random"] as Tree;
const times = (source: Tree): Tree => provenance(source)["times"] as Tree;
const data = (source: Tree): Tree => (provenance(source)["data"] as Tree[])[0] as Tree;
const samples = (source: Tree): Tree => data(source)["samples"] as Tree;

/** The trained version with what people can add, so that each place has something. */
function fullSource(): DocumentSource {
  const source = trainedSource() as unknown as Tree;
  Object.assign(metadata(source), {
    license: "Apache-2.0",
    "intended-use": "cells of pack 7",
    factors: "temperature",
    "ethical-considerations": "none known",
    caveats: "above 45 degrees untested",
    shift: "night",
  });
  described(source)["derived"] = [{ versionId: idOf(4), name: "lin", version: 3 }];
  return source as unknown as DocumentSource;
}

/** The statement of each member, where it is, and the member's name there. */
const members: readonly (readonly [statement: string, within: (source: Tree) => Tree, member: string])[] = [
  ["device", record, "device"],
  ["line", record, "line"],
  ["latest replay", described, "replayed"],
  ["engine", provenance, "engine"],
  ["exactness class", provenance, "exactness"],
  ["recipe", provenance, "recipe"],
  ["generator of random numbers", random, "generator"],
  ["seed", random, "seed"],
  ["invocation", random, "invocation"],
  ["random streams", random, "streams"],
  ["state before", provenance, "state"],
  ["course", provenance, "course"],
  ["training ended", times, "endedAtMs"],
  ["milliseconds of work", times, "workMs"],
  ["trained by", provenance, "by"],
  ["data set", data, "name"],
  ["content hash", provenance, "dataHashes"],
  ["reader", data, "reader"],
  ["parameters of the reader", data, "parameters"],
  ["file format", data, "format"],
  ["columns", data, "columns"],
  ["transformations", data, "transformations"],
  ["split", data, "split"],
  ["training samples", samples, "train"],
  ["validation samples", samples, "validation"],
  ["held-out samples of the training's data", samples, "heldOut"],
  ["metric of the training", metadata, "metric.name"],
  ["unit", metadata, "metric.unit"],
  ["better is", metadata, "metric.lowerIsBetter"],
  ["metric before the training", metadata, "metric.before"],
  ["metric after the training", metadata, "metric.after"],
  ["license", metadata, "license"],
  ["intended use", metadata, "intended-use"],
  ["factors", metadata, "factors"],
  ["ethical considerations", metadata, "ethical-considerations"],
  ["caveats", metadata, "caveats"],
  ["course of the training", described, "measurements"],
];
/** Lists and maps that are empty where nothing is recorded. */
const emptied: readonly (readonly [
  statement: string,
  within: (source: Tree) => Tree,
  member: string,
  value: unknown,
])[] = [
  ["trained from", described, "bases", []],
  ["derived from it", described, "derived", []],
  ["owner of tensors", described, "leaves", []],
  ["parameter", provenance, "parameters", {}],
  ["stored objects", described, "uses", []],
  ["environment", described, "environment", {}],
  ["evaluation", (source) => source, "evaluations", []],
  ["metrics of evaluations", (source) => source, "evaluations", []],
  ["data of evaluations", (source) => source, "evaluations", []],
  ["layers", record, "kind", "opaque"],
];

test("a trained version has its card, with the nine sections of the paper", () => {
  const card = modelCard(trainedSource());
  assert.equal(`${cardText(card)}\n`, readFileSync(join(documentVectors, "card.md"), "utf8"));
  assert.deepEqual(
    card.sections.map(({ title }) => title),
    [
      "Model details",
      "Intended use",
      "Factors",
      "Metrics",
      "Evaluation data",
      "Training data",
      "Quantitative analyses",
      "Ethical considerations",
      "Caveats and recommendations",
    ],
  );
});

test("each member that is taken away is not recorded, in its place and nowhere else", () => {
  for (const [name, within, member, value] of [
    ...members.map((row) => [...row, undefined] as const),
    ...emptied,
  ]) {
    const source = fullSource();
    // A parameter's own statement names where it came from; without any there is one for all.
    if (name !== "parameter") assert.notEqual(find(source, name).value, null, name);
    const missingBefore = statementsOf(source).filter(({ value: shown }) => shown === null).length;
    const parent = within(source as unknown as Tree);
    if (value === undefined) delete parent[member];
    else parent[member] = value;
    const found = find(source, name);
    assert.deepEqual([found.value, found.basis], [null, "not recorded"], name);
    const missing = statementsOf(source).filter(({ value: shown }) => shown === null).length;
    assert.ok(missing - missingBefore <= (member === "evaluations" ? 3 : 1), name);
  }
});

test("what is redacted is redacted, and not unrecorded", () => {
  const source = fullSource();
  const tree = provenance(source as unknown as Tree);
  for (const name of ["parameters", "random", "state", "data", "course", "times", "by", "notes"])
    tree[name] = { redacted: "mC0x" };
  for (const name of [
    "parameter",
    "seed",
    "state before",
    "data set",
    "training samples",
    "course",
    "trained by",
  ])
    assert.equal(find(source, name).basis, "redacted", name);
  assert.match(find(source, "redacted").value ?? "", /parameters, random|random.*parameters/);
});

test("each statement says how it is known", () => {
  const source = fullSource();
  const bases = (given: DocumentSource): readonly string[] =>
    ["recipe", "metric after the training", "trained by", "caveats", "version id", "trained from"].map(
      (name) => find(given, name).basis,
    );
  assert.deepEqual(bases(source), ["proved", "proved", "stated", "stated", "recorded", "proved"]);
  const { proof: _, replayed: __, ...unproved } = source.described;
  assert.deepEqual(bases({ ...source, described: unproved }), [
    ...["recorded", "recorded", "stated", "stated", "recorded", "recorded"],
  ]);
  const { provenance: ___, ...imported } = unproved;
  const importedSource = { ...source, described: imported };
  assert.equal(find(importedSource, "metric after the training").basis, "stated");
  assert.equal(find(importedSource, "course of the training").basis, "stated");
  assert.equal(find(importedSource, "trained from").basis, "stated");
});

test("a verdict or evaluation of other data, or by another engine, is stale, and says why", () => {
  const source = fullSource();
  assert.equal(find(source, "latest replay").stale, undefined);
  assert.equal(find(source, "evaluation").stale, undefined);
  const other = { ...source, datasets: [{ name: "tab", hash: idOf(5) }] };
  for (const name of ["latest replay", "evaluation", "its figures"])
    assert.match(find(other, name).stale ?? "", /^tab is registered with other samples now$/);
  const gone = { ...source, datasets: [] };
  assert.equal(find(gone, "latest replay").stale, undefined);

  const tree = fullSource() as unknown as Tree;
  provenance(tree)["engine"] = "f".repeat(64);
  const byAnother = tree as unknown as DocumentSource;
  assert.match(
    find(byAnother, "latest replay").stale ?? "",
    /^by the engine 3ca74e7a4b2a, and ffffffffffff trained/,
  );
  assert.match(find(byAnother, "evaluation").stale ?? "", /^by the engine/);
  assert.match(cardText(modelCard(byAnother)), /\(recorded; \*stale\*: `by the engine/);

  const { replayed } = source.described;
  const dropped = { ...source.described, dataDropped: { atMs: (replayed?.atMs ?? 0) + 1, because: "" } };
  assert.match(find({ ...source, described: dropped }, "latest replay").stale ?? "", /dropped since/);
});

test("a version that a spot check refuted is named among the caveats; one that passed is not", () => {
  const source = fullSource();
  const caveatsWith = (outcome: "refuted" | "passed") => {
    const spotCheck = {
      atMs: 1,
      outcome,
      segments: [2],
      of: 9,
      engineId: idOf(5),
      because: "segment 2 differs",
    };
    const { sections } = modelCard({ ...source, described: { ...source.described, spotCheck } });
    return sections.at(-1)?.statements.filter(({ value }) => String(value).includes("segment 2 differs"));
  };
  assert.deepEqual(
    caveatsWith("refuted")?.map(({ value }) => value),
    ["refuted by a spot check: segment 2 differs"],
  );
  assert.deepEqual(caveatsWith("passed"), []);
});

test("a refuted version is named among the caveats", () => {
  const source = fullSource();
  const { replayed } = source.described;
  assert.ok(replayed);
  const refuted = { ...replayed, verdict: "refuted" as const, because: "its tensor a differs" };
  const { sections } = modelCard({ ...source, described: { ...source.described, replayed: refuted } });
  assert.ok(sections.at(-1)?.statements.some(({ value }) => value === "refuted: its tensor a differs"));
});

test("metadata that have no place of their own are shown, and so is a provenance of another form", () => {
  const shown = statementsOf(fullSource()).filter(({ name }) => name === "metadata");
  assert.ok(shown.some(({ of, value, basis }) => of === "shift" && value === "night" && basis === "stated"));
  assert.ok(shown.some(({ of, basis }) => of === "training.epochs" && basis === "proved"));
  const bare = { described: describedVersion(), evaluations: [], datasets: [] };
  assert.equal(find(bare, "metadata and notes").value, null);
  const other = { ...bare, described: { ...bare.described, provenance: { engine: "x", recipe: "y" } } };
  assert.equal(find(other, "recipe").value, null);
  assert.equal(find(other, "provenance of another form").value, '{"engine":"x","recipe":"y"}');
});

test("an attached file stands for what it is named after, by its hash", () => {
  const attachments = [
    { name: "LICENSE.txt", hash: idOf(8) },
    { name: "caveats.md", hash: idOf(9) },
    { name: "notes.txt", hash: idOf(10) },
  ];
  const plainVersion = describedVersion();
  const { record: saved } = plainVersion;
  const version = { ...plainVersion, record: { ...saved, objects: { ...saved.objects, attachments } } };
  const source = { described: version, evaluations: [], datasets: [] };
  const of = (name: string): unknown => {
    const { of: file, value, basis } = find(source, name);
    return [file, value, basis];
  };
  assert.deepEqual(of("license, in an attached file"), ["LICENSE.txt", idOf(8), "stated"]);
  assert.deepEqual(of("caveats, in an attached file"), ["caveats.md", idOf(9), "stated"]);
  assert.deepEqual(of("attached file"), ["notes.txt", idOf(10), "stated"]);
  assert.ok(!statementsOf(source).some(({ name, value }) => name === "license" && value === null));
});
