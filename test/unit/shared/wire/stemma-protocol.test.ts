/** The generated protocol code belongs to the committed stemma.proto. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

/** The checkout's root, seen from dist/test/unit/shared/wire. */
const checkout = join(dirname(fileURLToPath(import.meta.url)), "../../../../..");

test("the committed protocol code is what `npm run proto` generates", async () => {
  const { generate } = (await import(pathToFileURL(join(checkout, "launcher/proto.mjs")).href)) as {
    generate: () => Promise<{ code: string; types: string }>;
  };
  const { code, types } = await generate();
  assert.equal(
    readFileSync(join(checkout, "shared/wire/generated/stemma-protocol.js"), "utf8"),
    code,
    "run `npm run proto` and commit what it writes",
  );
  assert.equal(
    readFileSync(join(checkout, "shared/wire/generated/stemma-protocol.d.ts"), "utf8"),
    types,
    "run `npm run proto` and commit what it writes",
  );
});
