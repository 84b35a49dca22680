/** The committed parser of queries belongs to the committed grammar. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { checkout, launcherModule } from "../../helpers/launcher-modules.js";

test("the committed parser is what `npm run dql` makes of the grammar", async () => {
  const { generate } = await launcherModule<{ readonly generate: () => Promise<string> }>("launcher/dql.mjs");
  assert.equal(
    readFileSync(join(checkout, "server/learning/query/generated/dql-parser.js"), "utf8"),
    await generate(),
    "run `npm run dql` and commit what it writes",
  );
});
