/** A measurement that goes on where it was stopped. */
import assert from "node:assert/strict";
import { appendFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { openSavedParts, type SavedParts } from "../../bench/saved-parts.js";

const folder = await mkdtemp(join(tmpdir(), "stemma-parts-"));
after(() => rm(folder, { recursive: true }));
const where = { kind: "a test", commit: "0123456789ab", machine: "one" };

describe("the saved parts of a measurement", () => {
  it("measures each part once, whoever asks, and those of an earlier run not again", async () => {
    const file = join(folder, "goes-on");
    const days = ["2026-11-20", "2026-11-24"];
    const run = async (): Promise<{ readonly parts: SavedParts; readonly measured: readonly string[] }> => {
      const day = days.shift() as string;
      const parts = await openSavedParts(file, where, () => day);
      const measured: string[] = [];
      for (const name of ["a", "b", "a"])
        assert.deepEqual(
          await parts
            .part(name, async () => {
              measured.push(name);
              if (name === "b" && days.length > 0) return Promise.reject(new Error("stopped"));
              return Promise.resolve({ of: name });
            })
            .catch(() => undefined),
          name === "b" && days.length > 0 ? undefined : { of: name },
        );
      return { parts, measured };
    };
    const first = await run();
    assert.deepEqual([first.measured, first.parts.days], [["a", "b"], ["2026-11-20"]]);
    // As if the second part had been cut short by a kill.
    await appendFile(file, '{"part":"b","da');
    const second = await run();
    assert.deepEqual([second.measured, second.parts.days], [["b"], ["2026-11-20", "2026-11-24"]]);
    assert.equal((await readFile(file, "utf8")).trimEnd().split("\n").length, 3);
  });

  it("refuses another commit or machine, and a file of something else, and changes neither", async () => {
    const file = join(folder, "refused");
    const open = (other: Readonly<Record<string, string>> = {}): Promise<SavedParts> =>
      openSavedParts(file, { ...where, ...other }, () => "2026-11-24");
    await (await open()).part("a", () => Promise.resolve(1));
    const before = await readFile(file, "utf8");
    await assert.rejects(open({ commit: "ba9876543210" }), /another commit.*Name another file/);
    await assert.rejects(open({ machine: "two" }), /another machine/);
    assert.equal(await readFile(file, "utf8"), before);
    await writeFile(file, "# Notes\n");
    await assert.rejects(open(), /is not a file of saved measurements/);
    assert.equal(await readFile(file, "utf8"), "# Notes\n");
  });
});
