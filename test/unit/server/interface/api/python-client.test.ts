/** The generated modules of the Python client: they are current, and each form of a schema has its annotation. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { describeApi } from "../../../../../server/interface/api/api-description.js";
import { writePythonClient } from "../../../../../server/interface/api/python-client.js";
import { PythonTypes } from "../../../../../server/interface/api/python-types.js";
import { programVersion } from "../../../../../shared/adapters/program-version.js";

const folder = resolve(fileURLToPath(import.meta.url), "../../../../../../../python");

it("is what follows from the API description, of this version (npm run http-api writes it)", async () => {
  for (const { file, text } of writePythonClient(describeApi(programVersion())))
    assert.ok((await readFile(join(folder, "src/stemma/generated", file), "utf8")) === text, file);
  const project = await readFile(join(folder, "pyproject.toml"), "utf8");
  assert.match(project, new RegExp(`^version = "${programVersion()}"$`, "mu"));
});

it("has an annotation for each form of a schema, and one class for one structure", () => {
  const object = { type: "object", properties: { from: { type: "integer" } }, required: ["from"] };
  const types = new PythonTypes({ Hash: { type: "string" }, Span: object });
  const reference = { $ref: "#/components/schemas/Hash" };
  const forms: readonly (readonly [object, string])[] = [
    [reference, "Hash"],
    [{ type: "array", items: { type: "number" } }, "list[float]"],
    [{ type: ["string", "null"] }, "str | None"],
    [{ anyOf: [{ type: "null" }, reference, { type: "boolean" }] }, "Hash | bool | None"],
    [{ enum: ["a", null, true] }, 'Literal["a", None, True]'],
    [{ const: 1 }, "Literal[1]"],
    [{ type: "object", additionalProperties: reference }, "dict[str, Hash]"],
    [{ type: "object" }, "dict[str, Any]"],
    [{}, "Any"],
    [{ ...object, description: "the same structure" }, "Span"],
    [{ type: "object", properties: { a: reference } }, "Name"],
    [{ type: "object", properties: { "owner-map": reference } }, "Name2"],
  ];
  for (const [schema, annotation] of forms) assert.equal(types.of({ ...schema }, "Name"), annotation);
  const text = types.text("Types.");
  assert.match(text, /^Span = TypedDict\(\n {4}"Span",\n {4}\{\n {8}"from": "int",\n {4}\},\n\)$/mu);
  assert.match(
    text,
    /^Name2 = TypedDict\(\n {4}"Name2",\n {4}\{\n {8}"owner-map": "NotRequired\[Hash\]",\n/mu,
  );
  assert.match(text, /^class Name\(TypedDict\):\n {4}a: NotRequired\[Hash\]$/mu);
  assert.match(text, /^Hash: TypeAlias = "str"$/mu);
});
