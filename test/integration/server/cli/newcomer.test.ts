/** The README's ten minutes, run as they stand there: what a newcomer pastes must work. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const root = resolve(fileURLToPath(import.meta.url), "../../../../../..");

interface Block {
  readonly kind: "file" | "shell";
  readonly name: string;
  readonly text: string;
}
function blocksOf(readme: string): Block[] {
  return [...readme.matchAll(/^```(js|sh) newcomer(?::(\S+))?\n([\s\S]*?)^```/gm)].map(
    ([, language, name, text]) => ({
      kind: language === "js" ? "file" : "shell",
      name: name ?? "",
      text: text ?? "",
    }),
  );
}

test("a newcomer's ten minutes with a model of their own", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "stemma-newcomer-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  // What the checkout's ./stemma does once everything is built.
  await writeFile(
    join(folder, "stemma"),
    `#!/bin/sh\nexec "${process.execPath}" "${join(root, "dist/server/cli/main.js")}" "$@"\n`,
  );
  await chmod(join(folder, "stemma"), 0o755);
  await mkdir(join(folder, "home"));

  const blocks = blocksOf(await readFile(join(root, "README.md"), "utf8"));
  assert.equal(blocks.filter((block) => block.kind === "file").length, 1);
  assert.equal(blocks.filter((block) => block.kind === "shell").length, 3);
  let printed = "";
  for (const block of blocks) {
    if (block.kind === "file") {
      await writeFile(join(folder, block.name), block.text);
      continue;
    }
    const { stdout } = await run("sh", ["-e", "-c", block.text], {
      cwd: folder,
      env: { ...process.env, STEMMA_HOME: join(folder, "home"), STEMMA_FLEET: "local" },
    });
    printed += stdout;
  }

  assert.match(printed, /saved as curve:1 .*snapshot: all 4 tensors/);
  assert.match(printed, /saved as curve:2 .*update: 2 of 4 tensors changed/);
  assert.match(printed, /changed +out\.bias/);
  assert.match(printed, /changed +out\.weight/);
  assert.doesNotMatch(printed, /changed +hidden/);
  assert.match(printed, /the same bytes/);
  assert.deepEqual(
    await readFile(join(folder, "back.safetensors")),
    await readFile(join(folder, "first.safetensors")),
  );
});
