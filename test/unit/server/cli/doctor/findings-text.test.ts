/** What `stemma doctor` prints fits a terminal of 80 columns. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { findingsText } from "../../../../../server/cli/doctor/findings-text.js";

test("long findings and advice are wrapped below their subject", () => {
  const path = `/home/${"folder/".repeat(14)}home`;
  const text = findingsText([
    { what: "node", state: "good", found: "v20.20.2 on linux x64" },
    {
      what: "cores and memory",
      state: "warning",
      found: "only 1 core and 0.4 GB free of 1.0 GB, which is not enough to train while a server runs",
      advice:
        "stop other programs, or set `threads` to 1 in the profile so that training leaves time for the rest",
    },
    { what: "home", state: "wrong", found: `${path} cannot be written` },
  ]);
  const lines = text.split("\n");
  assert.equal(lines[0], "ok  node              v20.20.2 on linux x64");
  assert.ok(lines[1]?.startsWith("!!  cores and memory  only 1 core"));
  assert.ok(lines.some((line) => /^ {22}→ stop other programs/.test(line)));
  assert.deepEqual(
    lines.filter((line) => [...line].length > 80),
    [`XX  home              ${path}`],
  );
  // Nothing is lost.
  assert.ok(text.replaceAll(/\s+/g, " ").includes("so that training leaves time for the rest"));
});
