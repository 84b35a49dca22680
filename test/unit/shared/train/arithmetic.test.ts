/**
 * Training code uses no function whose last bit differs between machines, and no random generator or clock of
 * its own.
 */
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";

const folders = ["train", "random"].map((name) =>
  fileURLToPath(new URL(`../../../../../shared/${name}`, import.meta.url)),
);
const exact = new Set([
  "fround",
  "imul",
  "floor",
  "ceil",
  "round",
  "trunc",
  "sqrt",
  "abs",
  "min",
  "max",
  "sign",
  "clz32",
]);

async function* sources(folder: string): AsyncGenerator<string> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* sources(path);
    else if (entry.name.endsWith(".ts")) yield path;
  }
}

describe("arithmetic of training", () => {
  it("uses only operations that IEEE 754 defines to the last bit", async () => {
    let files = 0;
    for (const folder of folders)
      for await (const path of sources(folder)) {
        files++;
        const text = (await readFile(path, "utf8")).replace(/\/\*[\s\S]*?\*\//g, "").replace(/\/\/.*$/gm, "");
        for (const [, name] of text.matchAll(/\bMath\.(\w+)/g))
          assert.ok(exact.has(name as string), `${path} uses Math.${name}`);
        for (const [power] of text.matchAll(/\S+\s*\*\*\s*\S+/g))
          assert.match(
            power,
            /^\(?\d+n?\s*\*\*\s*\d/,
            `${path} has the power ${power}, which is not a power of literals`,
          );
        assert.doesNotMatch(text, /tf\.(random|truncatedNormal|initializers|data)\b|Date\.now\(/, path);
      }
    assert.ok(files > 30, `${files} sources were examined`);
  });
});
