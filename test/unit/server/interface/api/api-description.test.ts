/** The API description: complete, consistent in itself, and the page in docs/ is current. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { describeApi } from "../../../../../server/interface/api/api-description.js";
import { writeApiPage } from "../../../../../server/interface/api/api-page.js";
import { operationTable } from "../../../../../server/interface/api/operation-table.js";
import { programVersion } from "../../../../../shared/adapters/program-version.js";

const root = resolve(fileURLToPath(import.meta.url), "../../../../../../..");
const description = describeApi(programVersion());

describe("the API description", () => {
  it("has every operation, each with its own id", () => {
    const ids = Object.values(description.paths).flatMap((methods) =>
      Object.values(methods).map(({ operationId }) => operationId),
    );
    assert.equal(new Set(ids).size, ids.length);
    for (const name of Object.keys(operationTable)) assert.ok(ids.includes(name), name);
  });

  it("declares every parameter of a path, and refers to objects that it has", () => {
    for (const [path, methods] of Object.entries(description.paths)) {
      const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      for (const { parameters, operationId } of Object.values(methods))
        assert.deepEqual(
          parameters.filter((each) => each.in === "path").map(({ name }) => name),
          named,
          operationId,
        );
    }
    const references = [...JSON.stringify(description).matchAll(/"#\/components\/schemas\/(\w+)"/g)];
    assert.ok(references.length > 50);
    for (const [, name] of references)
      assert.ok(name !== undefined && name in description.components.schemas, name);
  });

  it("has nothing that JSON Schema cannot express", () => {
    for (const [name, definition] of Object.entries(operationTable))
      for (const members of [definition.params, definition.query, definition.body])
        for (const [member, schema] of Object.entries(members.shape))
          assert.notEqual(
            (schema as { _zod: { def: { type: string } } })._zod.def.type,
            "pipe",
            `${name}.${member}`,
          );
  });

  it("is what docs/http-api.md shows (npm run http-api writes it)", async () => {
    assert.equal(await readFile(join(root, "docs/http-api.md"), "utf8"), writeApiPage(description));
  });

  it("has one heading per name on that page", () => {
    const headings = [...writeApiPage(description).matchAll(/^#+ (.*)$/gm)].map(([, name]) =>
      name?.toLowerCase(),
    );
    assert.equal(new Set(headings).size, headings.length);
  });
});
