/**
 * The crash states themselves: fsynced data is in all of them, other data is in some and not in others, and a
 * seed determines them completely.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import { crashState, crashStates, crashStyles } from "../../../helpers/files/crash-states.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { recordingFiles, type RecordingFiles } from "../../../helpers/files/recording-files.js";
import type { Files } from "../../../../shared/ports.js";

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
async function write(files: Files, path: string, content: string, sync: boolean): Promise<void> {
  const file = await files.open(path, "append");
  await file.write(new TextEncoder().encode(content), 0);
  if (sync) await file.sync();
  await file.close();
}
async function contentOf(files: Files, path: string): Promise<string> {
  return (await files.stat(path)) === undefined ? "(none)" : text(await files.read(path));
}

async function outcomes(disk: RecordingFiles, path: string, count = 400): Promise<Set<string>> {
  const found = new Set<string>();
  for (const state of crashStates(disk.recording, 5, count))
    if (state.at === disk.recording.events) found.add(await contentOf(state.files, path));
  for (const style of crashStyles)
    for (let seed = 0; seed < 40; seed++)
      found.add(await contentOf(crashState(disk.recording, disk.recording.events, style, seed).files, path));
  return found;
}

it("keeps what was fsynced, bytes and name", async () => {
  const disk = recordingFiles(memoryFiles());
  await write(disk, "/a", "safe", true);
  await disk.syncFolder("/");
  assert.deepEqual(await outcomes(disk, "/a"), new Set(["safe"]));
});

it("may lose a name whose folder was not fsynced, and bytes of a file that was not", async () => {
  const disk = recordingFiles(memoryFiles());
  await write(disk, "/a", "safe", true);
  assert.deepEqual(await outcomes(disk, "/a"), new Set(["safe", "(none)"]));
  await disk.syncFolder("/");
  await write(disk, "/a", "SAFE and more", false);
  const found = await outcomes(disk, "/a");
  assert.ok(
    ["safe", "SAFE and more", "\0".repeat(13)].every((content) => found.has(content)),
    [...found].join("|"),
  );
  assert.ok(
    [...found].some((content) => content.startsWith("S") && content !== "SAFE and more"),
    "a torn one",
  );
});

it("keeps a rename atomic: either the old or the new name", async () => {
  const disk = recordingFiles(memoryFiles());
  await write(disk, "/f", "old", true);
  await disk.syncFolder("/");
  await write(disk, "/f.tmp", "new", true);
  await disk.rename("/f.tmp", "/f");
  assert.deepEqual(await outcomes(disk, "/f"), new Set(["old", "new"]));
  await disk.syncFolder("/");
  assert.deepEqual(await outcomes(disk, "/f"), new Set(["new"]));
});

it("may show a removed file again, and a folder's content only with the folder", async () => {
  const disk = recordingFiles(memoryFiles());
  await disk.makeFolder("/d/e");
  await write(disk, "/d/e/f", "x", true);
  await disk.syncFolder("/d/e");
  assert.deepEqual(await outcomes(disk, "/d/e/f"), new Set(["x", "(none)"]));
  await disk.syncFolder("/");
  await disk.syncFolder("/d");
  assert.deepEqual(await outcomes(disk, "/d/e/f"), new Set(["x"]));
  await disk.remove("/d");
  assert.deepEqual(await outcomes(disk, "/d/e/f"), new Set(["x", "(none)"]));
  await disk.syncFolder("/");
  assert.deepEqual(await outcomes(disk, "/d/e/f"), new Set(["(none)"]));
});

it("does not count an fsync that had not ended, nor what was written while it ran", async () => {
  const inner = memoryFiles();
  let release: () => void = () => undefined;
  const slow: Files = {
    ...inner,
    async open(path, mode) {
      const file = await inner.open(path, mode);
      return {
        read: (target, at) => file.read(target, at),
        write: (bytes, at) => file.write(bytes, at),
        size: () => file.size(),
        truncate: (size) => file.truncate(size),
        close: () => file.close(),
        sync: () =>
          new Promise<void>((resolve) => {
            release = resolve;
          }),
      };
    },
  };
  const disk = recordingFiles(slow);
  const file = await disk.open("/a", "create");
  await disk.syncFolder("/");
  await file.write(new TextEncoder().encode("one"), 0);
  const syncing = file.sync();
  await file.write(new TextEncoder().encode("two"), 3);
  assert.ok((await outcomes(disk, "/a")).has(""));
  release();
  await syncing;
  const found = await outcomes(disk, "/a");
  assert.ok(found.has("one") && found.has("onetwo") && !found.has(""), [...found].join("|"));
});

it("builds the same state for the same seed, keeps marks, and starts from existing content", async () => {
  const before = memoryFiles();
  await before.makeFolder("/x");
  await write(before, "/x/old", "old", false);
  const disk = recordingFiles(before, before.root);
  disk.mark("first");
  await write(disk, "/x/old", "OLD", false);
  disk.mark("second");
  const one = [...crashStates(disk.recording, 9, 60)];
  const two = [...crashStates(disk.recording, 9, 60)];
  for (const [i, state] of one.entries())
    assert.equal(
      await contentOf(state.files, "/x/old"),
      await contentOf((two[i] as typeof state).files, "/x/old"),
    );
  assert.equal(await contentOf(crashState(disk.recording, 0, "all-kept", 1).files, "/x/old"), "old");
  assert.deepEqual(crashState(disk.recording, 0, "all-kept", 1).marks, []);
  assert.deepEqual(crashState(disk.recording, disk.recording.events, "all-kept", 1).marks, [
    "first",
    "second",
  ]);
});
