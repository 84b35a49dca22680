/** A real small file system that fills up, in a child process. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { mountSmallDisk } from "../../../helpers/small-disk.js";
import { below } from "./kill-child.js";
import { checkSmall, type Ack } from "./small-repository.js";

it("fails with DISK_FULL on a real full disk, and keeps everything acknowledged", async (context) => {
  const disk = await mountSmallDisk(4);
  if (typeof disk === "string") {
    context.skip(disk);
    return;
  }
  try {
    // Reserves space that is released at the end, so that work can continue.
    const filler = join(disk.folder, "filler");
    await nodeFiles().makeFolder(disk.folder);
    await writeFile(filler, new Uint8Array(700_000));
    const child = spawn(
      process.execPath,
      [fileURLToPath(new URL("./kill-child.js", import.meta.url)), disk.folder, "1000"],
      { stdio: ["ignore", "pipe", "pipe"] },
    );
    const output = { stdout: "", stderr: "" };
    child.stdout.on("data", (chunk: Buffer) => {
      output.stdout += chunk.toString();
    });
    child.stderr.on("data", (chunk: Buffer) => {
      output.stderr += chunk.toString();
    });
    const status = await new Promise<number | null>((resolve) => {
      child.on("close", resolve);
    });
    assert.equal(status, 1);
    assert.match(output.stderr, /DISK_FULL/);
    const acks = output.stdout
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as Ack);
    assert.ok(acks.length > 10, `${acks.length} acknowledgements before the disk was full`);
    await rm(filler);
    await checkSmall(below(disk.folder, nodeFiles()), acks);
  } finally {
    await disk.release();
  }
});
