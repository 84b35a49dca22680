/** On a disk without a free byte the usual commands can still list models, retire them and free space. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { startServerProcess, type ServerProcess } from "../../../server/cli/simulation/server-process.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { sourceOfTensor } from "../../../shared/tensor/tensor.js";
import { writeSafetensors } from "../../../shared/tensor/safetensors-writer.js";
import { fillDisk, mountSmallDisk } from "../../helpers/small-disk.js";
import { drawn } from "../../helpers/test-depth.js";

const commandLine = fileURLToPath(new URL("../../helpers/bundled-program.mjs", import.meta.url));

function stemma(
  home: string,
  ...commandArguments: string[]
): { readonly status: number | null; readonly value: unknown; readonly stderr: string } {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [commandLine, "stemma", ...commandArguments, "--home", home, "-o", "json"],
    { encoding: "utf8" },
  );
  return { status, value: stdout === "" ? undefined : JSON.parse(stdout), stderr };
}

async function writeModel(path: string, salt: number): Promise<void> {
  const bytes = new Uint8Array(3 * 1024 * 1024).fill(salt);
  await rm(path, { force: true });
  const file = await nodeFiles().open(path, "create");
  try {
    await writeSafetensors(file, [
      { name: "w", source: sourceOfTensor({ dtype: "U8", shape: [bytes.length], bytes }) },
    ]);
  } finally {
    await file.close();
  }
}

for (const isServed of drawn([false, true], 1))
  it(`lists, retires and frees on a full disk, ${isServed ? "through a server" : "without a server"}`, async (context) => {
    const disk = await mountSmallDisk(96);
    if (typeof disk === "string") {
      context.skip(disk);
      return;
    }
    const model = join(tmpdir(), `stemma-full-${process.pid}.safetensors`);
    let server: ServerProcess | undefined;
    try {
      await nodeFiles().makeFolder(disk.folder);
      const home = join(disk.folder, "home");
      for (const salt of [1, 2]) {
        await writeModel(model, salt);
        const imported = stemma(home, "model", "import", model, "--name", "m");
        assert.equal(imported.status, 0, imported.stderr);
      }
      if (isServed) server = await startServerProcess(home, "local");
      await fillDisk(join(disk.folder, "filler"));
      await writeModel(model, 3);
      const refused = stemma(home, "model", "import", model, "--name", "m");
      assert.equal(refused.status, 1);
      assert.match(refused.stderr, /DISK_FULL/);
      assert.deepEqual(
        (stemma(home, "model", "list").value as readonly { version: number }[])
          .map(({ version }) => version)
          .sort(),
        [1, 2],
      );
      // Space that the refused import gave back must not help the commands that follow.
      if (isServed) await fillDisk(join(disk.folder, "filler-2"));
      const retired = stemma(home, "model", "rm", "m:1");
      assert.equal(retired.status, 0, retired.stderr);
      if (isServed) await fillDisk(join(disk.folder, "filler-3"));
      if (server !== undefined)
        assert.equal((await server.operations.health()).pid, server.pid, "the server serves the commands");
      const freed = stemma(home, "storage", "gc");
      assert.equal(freed.status, 0, freed.stderr);
      assert.ok((freed.value as { freedBytes: number }).freedBytes > 3_000_000);
      await rm(join(disk.folder, "filler"));
      assert.equal(stemma(home, "model", "import", model, "--name", "m").status, 0, "there is room again");
      assert.equal(stemma(home, "storage", "check").status, 0);
    } finally {
      await server?.operations.close();
      await server?.kill("SIGTERM");
      await rm(model, { force: true });
      await disk.release();
    }
  });
