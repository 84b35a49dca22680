/** A bill of materials is valid by the schema of CycloneDX 1.6, whatever is in a version, and is the same each time. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Ajv } from "ajv";
import addFormats from "ajv-formats";
import fc from "fast-check";
import {
  billOfMaterials,
  billText,
  type BillOfMaterials,
} from "../../../../../server/cli/documents/bill-of-materials.js";
import { documentVectors, hostileSource, trainedSource } from "../../../../helpers/document-examples.js";
import { repositoryRoot } from "../../../../helpers/markdown.js";
import { describedVersion, hostileTexts } from "../../../../helpers/page-examples.js";

const schemas = "node_modules/@cyclonedx/cyclonedx-library/res/schema";
const schemaOf = (name: string): object =>
  JSON.parse(readFileSync(join(repositoryRoot, schemas, `${name}.SNAPSHOT.schema.json`), "utf8")) as object;
const ajv = new Ajv({ strict: false, allErrors: true });
addFormats.default(ajv);
ajv.addFormat("iri-reference", true).addFormat("idn-email", true);
for (const name of ["spdx", "jsf-0.82", "cryptography-defs"])
  ajv.addSchema(schemaOf(name), `http://cyclonedx.org/schema/${name}.SNAPSHOT.schema.json`);
const isValid = ajv.compile(schemaOf("bom-1.6"));

function check(bill: BillOfMaterials): void {
  assert.ok(isValid(JSON.parse(billText(bill))), JSON.stringify(isValid.errors?.slice(0, 3)));
  const refs = [bill.metadata.component, ...bill.components].map((each) => each["bom-ref"]);
  assert.equal(new Set(refs).size, refs.length);
  assert.deepEqual(bill.dependencies.map(({ ref }) => ref).sort(), [...refs].sort());
}

test("a trained version has its bill: base, data, engine and software, and the same bytes each time", () => {
  const bill = billOfMaterials(trainedSource().described);
  check(bill);
  assert.equal(isValid({ ...bill, serialNumber: "1" }), false);
  assert.equal(`${billText(bill)}\n`, readFileSync(join(documentVectors, "bill.cdx.json"), "utf8"));
});

test("what is found of a version later does not change its bill; a redaction does, and its number", () => {
  const { described } = trainedSource();
  const bill = billOfMaterials(described);
  const { replayed: _, proof: __, evaluations: ___, ...earlier } = described;
  assert.deepEqual(billOfMaterials({ ...earlier, tags: ["best"], state: "released" }), bill);
  const provenance = { ...(described.provenance as object), parameters: { redacted: "mC0x" } };
  const redacted = billOfMaterials({ ...described, provenance });
  check(redacted);
  assert.notEqual(redacted.serialNumber, bill.serialNumber);
  assert.match(billText(redacted), /"stemma:redacted",\s+"value": "parameters"/);
});

test("a version of which little is recorded has a bill too, and nothing is made up", () => {
  const bill = billOfMaterials(describedVersion());
  check(bill);
  assert.deepEqual(bill.components, []);
  assert.equal(JSON.stringify(bill).includes("considerations"), false);
});

test("hostile texts are texts that can be shown", () => {
  const checkText = (text: string): void => {
    const bill = billOfMaterials(hostileSource(text).described);
    check(bill);
    assert.doesNotMatch(billText(bill), /(?!\n)\p{Cc}|\p{Cf}|\p{Cs}|\p{Default_Ignorable_Code_Point}/u);
    assert.ok(billText(bill).length < 100_000);
  };
  hostileTexts.forEach(checkText);
  fc.assert(fc.property(fc.string({ unit: "binary", maxLength: 100 }), checkText), { numRuns: 10 });
});
