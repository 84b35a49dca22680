import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { crc32 } from "node:zlib";
import { readNpz } from "../../../../shared/layouts/npz-file.js";

/** An archive whose entries are all the same bytes of the file. */
function sharedArchive(names: readonly string[], content: Buffer): Buffer {
  const local = Buffer.alloc(30);
  local.writeUInt32LE(0x04034b50, 0);
  const entries = names.map((name) => {
    const entry = Buffer.alloc(46);
    entry.writeUInt32LE(0x02014b50, 0);
    entry.writeUInt32LE(crc32(content), 16);
    for (const at of [20, 24]) entry.writeUInt32LE(content.length, at);
    entry.writeUInt16LE(name.length, 28);
    return Buffer.concat([entry, Buffer.from(name)]);
  });
  const directory = Buffer.concat(entries);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  for (const at of [8, 10]) end.writeUInt16LE(names.length, at);
  end.writeUInt32LE(directory.length, 12);
  end.writeUInt32LE(local.length + content.length, 16);
  return Buffer.concat([local, content, directory, end]);
}

function array(count: number): Buffer {
  const text = `{'descr': '<f4', 'fortran_order': False, 'shape': (${count},), }\n`;
  const head = Buffer.from(`\x93NUMPY\x01\0..${text}`, "latin1");
  head.writeUInt16LE(text.length, 8);
  return Buffer.concat([head, Buffer.alloc(4 * count)]);
}

it("an archive whose arrays share their bytes holds no more in memory than the file may have", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "stemma-npz-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const path = join(folder, "check.npz");
  const names = Array.from({ length: 60 }, (_, at) => `a${at}.npy`);
  await writeFile(path, sharedArchive(names, array(1000)));
  assert.equal((await readNpz(path, 60 * 5000)).size, 60);
  await assert.rejects(readNpz(path, 30_000), {
    code: "MODEL_FILE_MALFORMED",
    message: /more than \d+ bytes/,
  });
});
