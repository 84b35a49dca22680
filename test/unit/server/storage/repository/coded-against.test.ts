// Which tensors are rewritten so that doomed ones can go: those that stay and are coded against a doomed one,
// directly or by others that do not stay; no more.
import assert from "node:assert/strict";
import { test } from "node:test";
import { codedAgainst } from "../../../../../server/storage/repository/erasure/coded-against.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

const links: Readonly<Record<string, { base?: string; previous?: string }>> = {
  doomed: {},
  direct: { base: "doomed" },
  dead: { base: "doomed" },
  over: { base: "dead" },
  second: { base: "kept", previous: "doomed" },
  after: { base: "direct" },
  kept: {},
  stray: {},
  // Against something that does not stay either, and that is nobody's concern here.
  elsewhere: { base: "stray" },
};

test("finds those that stay and need a doomed one", () => {
  const live = new Set(["direct", "over", "second", "after", "kept", "elsewhere"]) as unknown as Set<Hash>;
  const found = codedAgainst(
    new Set(["doomed"]) as unknown as Set<Hash>,
    live,
    Object.keys(links) as Hash[],
    (id) => links[id] as { base?: Hash; previous?: Hash } | undefined,
  );
  assert.deepEqual(found, ["direct", "over", "second"]);
});
