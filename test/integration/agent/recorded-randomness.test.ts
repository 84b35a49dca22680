/**
 * A program that draws numbers which its job does not fix is recorded with what it drew, and run again on the server
 * with the same: proved. Its libraries are recorded in their order, and the first that differs is named.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { testLine } from "../../helpers/agent-test-environment.js";
import { startRecordedFleet, trainLine } from "../../helpers/recorded-fleet.js";
import { testFleet } from "../../helpers/test-server.js";

const python = "/usr/bin/python3";
const hasCompiler = ["cc", "gcc", "clang"].some((name) => spawnSync(name, ["--version"]).status === 0);
const skip =
  process.platform === "linux" && hasCompiler && existsSync(python)
    ? false
    : `no C compiler for Linux, or no ${python}, on this machine`;

/** Unseeded: its numbers come from /dev/urandom and from hashes of texts, whose key is drawn, too. */
const unseeded = `
import json, os, pathlib, random, sys
model = bytearray((pathlib.Path(os.environ["STEMMA_INPUT"]) / "base/model.safetensors").read_bytes())
marks = pathlib.Path(os.environ["MARKS"])
if (marks / "more").exists():
    os.urandom(3)
if (marks / "library").exists():
    import zlib, bz2, ctypes
number = random.random() + len(next(iter({"one", "three", "fifteen"})))
import struct
model[-4:] = struct.pack("<f", number)
pathlib.Path("model.safetensors").write_bytes(model)
pathlib.Path("metrics.json").write_text(json.dumps({"metric": {"name": "loss", "before": 9, "after": number}}))
`;

describe("a program whose randomness is recorded", { skip }, () => {
  it("is proved with what it drew, and not by a run that draws otherwise", async (t) => {
    const lines = [testLine, "free"];
    const { server, folder, stemma, replay, startAgent } = await startRecordedFleet(t, lines);
    const program = join(folder, "train.py");
    await writeFile(program, unseeded);
    const trainer = { exec: [python, program], samples: false, environment: { MARKS: folder } };
    const record = { files: [program], variables: ["MARKS"] };
    const agent = await startAgent({
      lines: {
        [testLine]: { trainer: { ...trainer, record: { ...record, randomness: true } } },
        free: { trainer: { ...trainer, record } },
      },
    });
    const [recorded, free] = [await trainLine(agent), await trainLine(agent, "free")];
    for (const model of [recorded, free]) {
      const { status, stderr } = await stemma("replay", "program", "approve", model);
      assert.equal(status, 0, stderr);
    }
    const proved = await replay(recorded);
    assert.deepEqual([proved.verdict, proved.grade], ["proved", "bit-exact"], proved.text);
    assert.match(proved.text, /run again with what it drew on its device, and every tensor/);
    assert.equal(proved.libraries?.verdict, "equal", proved.libraries?.text);
    console.log(proved.text, proved.libraries);
    // A study has a positive control: without the recorder two runs differ.
    const bare = await replay(free);
    assert.equal(bare.verdict, "refuted", bare.text);
    assert.match(bare.text, /random numbers, time, threads: stemma/);
    console.log(bare.text);

    await writeFile(join(folder, "more"), "");
    const diverged = await replay(recorded);
    assert.deepEqual([diverged.verdict, diverged.reason], ["unreplayable", "failed"], diverged.text);
    console.log(diverged.text);
    const { record: saved } = await server.handle.operations.model({ fleet: testFleet, model: recorded });
    console.log(saved.uses);
    await writeFile(join(folder, "library"), "");
    console.log((await stemma("replay", "explain", free)).stdout);
    console.log((await stemma("replay", "explain", recorded, free)).stdout);
  });
});
