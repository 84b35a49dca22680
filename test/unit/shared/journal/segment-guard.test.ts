/** A journal that another process wrote, replaced or took over acknowledges nothing more, and overwrites nothing. */
import assert from "node:assert/strict";
import { copyFile, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, it } from "node:test";
import { StemmaError } from "../../../../shared/errors.js";
import { lockedFiles } from "../../../../shared/files/locked-files.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { segmentHeaderBytes } from "../../../../shared/journal/frame.js";
import type { FileJournal } from "../../../../shared/journal/file-journal.js";
import { openJournal } from "../../../../shared/journal/open-journal.js";

interface Numbered {
  readonly n: number;
}
const root = await mkdtemp(join(tmpdir(), "stemma-guard-"));
after(() => rm(root, { recursive: true, force: true }));

const isTaken = (how: RegExp) => (error: unknown) =>
  error instanceof StemmaError &&
  error.code === "JOURNAL_STOPPED" &&
  how.test(error.message) &&
  (error.cause as StemmaError).code === "HOME_TAKEN";

/** A home whose lock says that it is this process's until it is lost. */
class OneHome {
  readonly folder: string;
  isLost = false;

  constructor(name: string) {
    this.folder = join(root, name);
  }

  async open(segmentBytes?: number): Promise<FileJournal<Numbered>> {
    const assertHeld = async (): Promise<void> => {
      if (this.isLost) throw new StemmaError("HOME_TAKEN", "Somebody took the home over.");
      return Promise.resolve();
    };
    return openJournal<Numbered>(lockedFiles(nodeFiles(), { assertHeld }), this.folder, { segmentBytes });
  }

  async path(): Promise<string> {
    const names = (await readdir(this.folder)).filter((name) => name !== "head").sort();
    return join(this.folder, names[names.length - 1] as string);
  }

  async facts(): Promise<number[]> {
    const journal = await this.open();
    const found: number[] = [];
    for await (const { fact } of journal.entries()) found.push(fact.n);
    await journal.close();
    return found;
  }
}

it("refuses after another process appended, and keeps what that one was told is kept", async () => {
  const home = new OneHome("appended");
  const [one, other] = [await home.open(), await home.open()];
  await other.append([{ n: 1 }]);
  const refused = one.append([{ n: 2 }]);
  await assert.rejects(refused, isTaken(/Another process wrote to this home.*bytes instead of/));
  await assert.rejects(one.append([{ n: 3 }]), { code: "JOURNAL_STOPPED" });
  await other.append([{ n: 4 }]);
  await Promise.all([one.close(), other.close()]);
  assert.deepEqual(await home.facts(), [1, 4]);
});

it("refuses after the file was replaced by an equal one, or removed", async () => {
  const home = new OneHome("replaced");
  const one = await home.open();
  await one.append([{ n: 1 }]);
  const path = await home.path();
  await copyFile(path, join(root, "copy"));
  await rename(join(root, "copy"), path);
  await assert.rejects(one.append([{ n: 2 }]), isTaken(/another file has taken its place/));
  await one.close();
  const again = await home.open();
  await again.append([{ n: 3 }]);
  await rm(path);
  await assert.rejects(again.append([{ n: 4 }]), isTaken(/it is gone/));
  await again.close();
});

it("does not replace a segment that another process began", async () => {
  const home = new OneHome("segments");
  const full = await home.open(segmentHeaderBytes + 1);
  await full.append([{ n: 1 }]);
  const other = await home.open(segmentHeaderBytes + 1);
  await other.append([{ n: 2 }]);
  await assert.rejects(full.append([{ n: 3 }]), isTaken(/there before this process made it/));
  await Promise.all([full.close(), other.close()]);
  assert.deepEqual(await home.facts(), [1, 2]);
});

it("refuses when the lock says that the home was taken over", async () => {
  const home = new OneHome("taken");
  const one = await home.open();
  await one.append([{ n: 1 }]);
  home.isLost = true;
  await assert.rejects(one.append([{ n: 2 }]), isTaken(/Somebody took the home over/));
  await one.close();
  home.isLost = false;
  assert.deepEqual(await home.facts(), [1]);
});
