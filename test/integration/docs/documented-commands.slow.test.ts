/** The commands on the pages work as they are written, in a checkout. run-page.ts says which code blocks take part. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { codeBlocksOf, markdownPages, readPage } from "../../helpers/markdown.js";
import { runPage } from "../../helpers/run-page.js";
import { builtPrograms } from "./built-programs.js";

/** Needs PyTorch: pytorch-fleet.slow.test.ts runs it. */
const pageOfPytorch = "docs/pytorch-fleet.md";
const pages = markdownPages().filter(
  (page) => page !== pageOfPytorch && codeBlocksOf(readPage(page)).some(({ info }) => info === "sh run"),
);

for (const page of pages)
  test(`the commands of ${page} work as they are written`, async (t) => {
    await runPage(page, t, builtPrograms);
  });

test("the tutorial pages are among the pages that are run", () => {
  for (const page of ["README.md", "docs/getting-started.md", "docs/modellers-day.md"])
    assert.ok(pages.includes(page), page);
});
