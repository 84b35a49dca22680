/** Samples as files in a watched folder: taken in once, or set aside with the reason. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { takeFolderIn } from "../../../../agent/intake/watch-folder.js";
import { silentLog } from "../../../../shared/adapters/node-ports.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import type { Files } from "../../../../shared/ports.js";
import { many, openIntake } from "./intake-fixtures.js";

describe("the watched folder", () => {
  const put = async (files: Files, name: string, text: string): Promise<void> => {
    await files.makeFolder("/inbox");
    const file = await files.open(`/inbox/${name}`, "create");
    await file.write(new TextEncoder().encode(text), 0);
    await file.close();
  };
  it("reads and removes complete files, sets invalid ones aside with the reason, and ignores others", async () => {
    const files = memoryFiles();
    const intake = await openIntake(files);
    await put(
      files,
      "a.jsonl",
      many(3)
        .map((one) => JSON.stringify(one))
        .join("\n"),
    );
    await put(files, "b.jsonl", '{"label": 1}\n');
    await put(files, "c.part", "half a file");
    assert.equal(await takeFolderIn(files, "/inbox", intake, silentLog()), 3);
    assert.deepEqual(await files.list("/inbox"), ["b.jsonl.reason", "b.jsonl.refused", "c.part"]);
    assert.match(new TextDecoder().decode(await files.read("/inbox/b.jsonl.reason")), /values/);
  });
  it("adds nothing twice when a crash came between storing a file and removing it", async () => {
    const files = memoryFiles();
    const intake = await openIntake(files);
    const text = many(3)
      .map((one) => JSON.stringify(one))
      .join("\n");
    for (let time = 0; time < 2; time++) {
      await put(files, `same-${time}.jsonl`, text);
      await takeFolderIn(files, "/inbox", intake, silentLog());
    }
    assert.equal((await intake.status()).samples, 3);
  });
});
