/** Conditions on metadata, as users write them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as z from "zod";
import {
  parseMetadataCondition,
  versionQuerySchema,
} from "../../../../../server/storage/catalog/version-query.js";

test("a condition is a key, a comparison and a typed value", () => {
  const cases: readonly (readonly [string, unknown])[] = [
    ["site=north", { key: "site", is: "=", value: "north" }],
    ["temperature>=20", { key: "temperature", is: ">=", value: 20, text: "20" }],
    ["temperature <= -1.5e3", { key: "temperature", is: "<=", value: -1500, text: "-1.5e3" }],
    ["calibrated=true", { key: "calibrated", is: "=", value: true, text: "true" }],
    ['release="1.0"', { key: "release", is: "=", value: "1.0" }],
    ["code=007", { key: "code", is: "=", value: 7, text: "007" }],
    ["formula=a=b", { key: "formula", is: "=", value: "a=b" }],
    ["$where=__proto__", { key: "$where", is: "=", value: "__proto__" }],
    ["note=", { key: "note", is: "=", value: "" }],
  ];
  for (const [written, condition] of cases) assert.deepEqual(parseMetadataCondition(written), condition);
});

test("what is not a condition is refused", () => {
  for (const written of ["", "site", "=north", ">=3", "  =1", `${"k".repeat(300)}=1`, `k=${"v".repeat(300)}`])
    assert.throws(() => parseMetadataCondition(written), { code: "USAGE" }, written.slice(0, 20));
});

test("the query can be described in JSON Schema", () => {
  const described = z.toJSONSchema(versionQuerySchema) as { readonly properties: Record<string, unknown> };
  assert.deepEqual(described.properties["base"], { type: "string", pattern: "^[0-9a-f]{64}$" });
});
