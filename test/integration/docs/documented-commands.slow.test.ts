/** The commands on the pages work as they are written, in a checkout. run-page.ts says which code blocks take part. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { codeBlocksOf, markdownPages, readPage, repositoryRoot } from "../../helpers/markdown.js";
import { runPage } from "../../helpers/run-page.js";

/** Does what the checkout's ./stemma does once everything is built. */
const program = `"${process.execPath}" "${join(repositoryRoot, "dist/test/helpers/bundled-program.mjs")}"`;
const programs = { stemma: `${program} stemma`, agent: `${program} agent` };

const pages = markdownPages().filter((page) =>
  codeBlocksOf(readPage(page)).some(({ info }) => info === "sh run"),
);

for (const page of pages)
  test(`the commands of ${page} work as they are written`, async (t) => {
    await runPage(page, t, programs);
  });

test("the tutorial pages are among the pages that are run", () => {
  for (const page of ["README.md", "docs/getting-started.md", "docs/modellers-day.md"])
    assert.ok(pages.includes(page), page);
});
