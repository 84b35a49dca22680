/** An index is read by later releases: what makes the state does not change without its form. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { stateForm } from "../../../../../../server/storage/repository/state/state-index.js";
import { sha256 } from "../../../../../../shared/tensor/hash.js";

const folder = fileURLToPath(new URL("../../../../../../server/storage/repository/state", import.meta.url));
/** The files that make or shape the state; the others read it. */
const making =
  /^(?:apply-|state|successors|numbered-versions|rollout-switches|device-labels|version-state|.*-state)/;
/** Form → hash of what makes the state of this form, without comments. */
const known: Readonly<Record<number, string>> = {
  1: "744594e015694c8c",
  2: "63e963f82a8bdfff",
  3: "d66c126be24b63ff",
  4: "deb6b9a726371f98",
  5: "445d0cdd29522ffe",
  6: "e7d74e79e6e29c20",
  7: "e0e239f0a870b88d",
};

test("the code that makes a fleet's state is the one of its form", () => {
  const files = readdirSync(folder).filter((name) => name.endsWith(".js") && making.test(name));
  const code = files
    .filter((name) => !/^state-(?:errors|index)\.js$/.test(name))
    .map((name) => `${name}\n${readFileSync(join(folder, name), "utf8")}`);
  const hash = sha256(code.join("\n")).slice(0, 16);
  assert.equal(
    hash,
    known[stateForm],
    "The code that makes a fleet's state has changed. Where the same facts may give another state, or other rows, raise " +
      "stateForm in state-index.ts, so that no index of before is read; then note the hash here.",
  );
});
