/** The statements of a version's training for other tools: whole, the same each time, bounded, and nothing made up. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { Ajv } from "ajv";
import addFormats from "ajv-formats";
import { lineageEvent } from "../../../../../server/cli/documents/lineage-event.js";
import { provenanceStatement } from "../../../../../server/cli/documents/provenance-statement.js";
import { changedSince, documentHashes } from "../../../../../server/cli/documents/released-documents.js";
import { maxStatementBytes } from "../../../../../shared/trust/attestations/bundle.js";
import { documentVectors, hostileSource, trainedSource } from "../../../../helpers/document-examples.js";
import { describedVersion, hostileTexts } from "../../../../helpers/page-examples.js";

const file = { name: "lin.safetensors", sha256: "ab".repeat(32) };
const goldenOf = (name: string): unknown => JSON.parse(readFileSync(join(documentVectors, name), "utf8"));

const text = { type: "string" };
const uri = { type: "string", format: "uri" };
const object = (properties: object, required = Object.keys(properties)): object => ({
  type: "object",
  properties,
  required,
});
const list = (items: object): object => ({ type: "array", items });
const facets = {
  type: "object",
  additionalProperties: object({ _producer: uri, _schemaURL: uri }),
};
const dataset = object({ namespace: text, name: text, facets });
/** The event as OpenLineage 2-0-2 describes it: RunEvent, Run, Job, Dataset, BaseFacet. */
const eventSchema = object({
  eventType: { enum: ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"] },
  eventTime: { type: "string", format: "date-time" },
  producer: uri,
  schemaURL: uri,
  run: object({ runId: { type: "string", format: "uuid" }, facets }),
  job: object({ namespace: text, name: text, facets }),
  inputs: list(dataset),
  outputs: list(dataset),
});
/** The statement as in-toto 1 and SLSA provenance 1 describe it. */
const dependency = object({ uri, digest: { type: "object", additionalProperties: text } });
const statementSchema = object({
  _type: { const: "https://in-toto.io/Statement/v1" },
  subject: list(object({ name: text, digest: object({ sha256: text }) })),
  predicateType: { const: "https://slsa.dev/provenance/v1" },
  predicate: object({
    buildDefinition: object({
      buildType: uri,
      externalParameters: { type: "object" },
      internalParameters: { type: "object" },
      resolvedDependencies: list(dependency),
    }),
    runDetails: object({ builder: object({ id: uri }), metadata: object({ invocationId: text }) }),
  }),
});
const ajv = new Ajv({ strict: false, allErrors: true });
addFormats.default(ajv);
const isEvent = ajv.compile(eventSchema);
const isStatement = ajv.compile(statementSchema);

describe("documents of a training", () => {
  it("have the same bytes each time", () => {
    const { described } = trainedSource();
    assert.deepEqual(provenanceStatement(described, file), goldenOf("provenance.intoto.json"));
    assert.deepEqual(lineageEvent(described), goldenOf("openlineage.json"));
  });

  it("have the form of their specifications, whatever is in a version", () => {
    for (const hostile of [...hostileTexts, "x".repeat(1_000_000)]) {
      const { described } = hostileSource(hostile);
      const statement = provenanceStatement(described, file);
      const event = lineageEvent(described);
      assert.ok(isStatement(statement), JSON.stringify(isStatement.errors?.slice(0, 3)));
      assert.ok(isEvent(event), JSON.stringify(isEvent.errors?.slice(0, 3)));
      for (const made of [statement, event]) assert.ok(JSON.stringify(made).length < maxStatementBytes / 4);
    }
  });

  it("state what is redacted, and no time that is not recorded", () => {
    const { described } = trainedSource();
    const redacted = { redacted: "mC0x" };
    const provenance = {
      ...(described.provenance as object),
      parameters: redacted,
      data: redacted,
      times: redacted,
    };
    const { predicate } = provenanceStatement({ ...described, provenance }, file);
    const { buildDefinition, runDetails } = predicate as {
      readonly buildDefinition: {
        readonly externalParameters: object;
        readonly resolvedDependencies: readonly object[];
      };
      readonly runDetails: { readonly metadata: object };
    };
    assert.deepEqual(buildDefinition.externalParameters, {
      recipe: { name: "linear-regression", version: "1" },
      parameters: redacted,
    });
    assert.equal("name" in (buildDefinition.resolvedDependencies[1] ?? {}), false);
    assert.equal("finishedOn" in runDetails.metadata, false);
    assert.deepEqual((runDetails as unknown as Record<string, unknown>)["stemma_redacted"], [
      "data",
      "parameters",
      "times",
    ]);
    const event = lineageEvent({ ...described, provenance });
    assert.equal(event.eventTime, new Date(described.record.savedAtMs).toISOString());
    assert.equal(event.run.runId, lineageEvent(described).run.runId);
  });

  it("are refused of a version whose training nobody recorded", () => {
    for (const make of [
      () => provenanceStatement(describedVersion(), file),
      () => lineageEvent(describedVersion()),
    ])
      assert.throws(make, { code: "NOT_FOUND" });
  });

  it("of a release: what has changed since is named", () => {
    const source = trainedSource();
    const released = documentHashes(source);
    assert.deepEqual(changedSince(released, documentHashes(trainedSource())), []);
    assert.deepEqual(changedSince(released, documentHashes({ ...source, evaluations: [] })), [
      "Metrics",
      "Evaluation data",
      "Quantitative analyses",
    ]);
    const { described } = source;
    const metadata = { ...described.metadata, "intended-use": "anything" };
    assert.deepEqual(
      changedSince(released, documentHashes({ ...source, described: { ...described, metadata } })),
      ["Intended use", "bill of materials"],
    );
    assert.deepEqual(changedSince({ ...released, card: released.bill }, released), ["the form of the card"]);
  });
});
