/** The generated protocol code belongs to the committed stemma.proto. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { checkout, launcherModule } from "../../helpers/launcher-modules.js";

test("the committed protocol code is what `npm run proto` generates", async () => {
  const { generate } = await launcherModule<{
    readonly generate: () => Promise<{ code: string; types: string }>;
  }>("launcher/proto.mjs");
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
