/** Every relative link and anchor on every page has a target. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { test } from "node:test";
import { anchorsOf, linksOf, markdownPages, readPage, repositoryRoot } from "../../helpers/markdown.js";

function problemOf(page: string, target: string): string | undefined {
  if (/^[a-z]+:/.test(target)) return undefined;
  const [path = "", anchor] = target.split("#");
  const file = path === "" ? page : normalize(join(dirname(page), decodeURI(path)));
  if (!existsSync(join(repositoryRoot, file))) return `${page} links to ${target}, which does not exist`;
  if (anchor !== undefined && file.endsWith(".md") && !anchorsOf(readPage(file)).has(anchor))
    return `${page} links to ${target}, and ${file} has no such heading`;
  return undefined;
}

test("relative links and anchors resolve", () => {
  const problems = markdownPages().flatMap((page) =>
    linksOf(readPage(page)).flatMap((target) => problemOf(page, target) ?? []),
  );
  assert.deepEqual(problems, []);
});

test("the check finds links and anchors", () => {
  assert.ok(linksOf(readPage("README.md")).length > 3);
  assert.equal(problemOf("README.md", "docs/nothing-here.md") !== undefined, true);
  assert.equal(problemOf("README.md", "README.md#nothing-here") !== undefined, true);
});

test("the index of docs/, and that of the decisions, link every page below", () => {
  const indexes = ["docs/README.md", "docs/adr/README.md"];
  const linked = new Set(
    indexes.flatMap((index) =>
      linksOf(readPage(index)).map((target) => normalize(join(dirname(index), target.split("#")[0] ?? ""))),
    ),
  );
  const missing = markdownPages().filter(
    (page) => page.startsWith("docs/") && page !== "docs/README.md" && !linked.has(page),
  );
  assert.deepEqual(missing, []);
});
