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

/**
 * It has a socket as programs with several processes do. Unseeded: its numbers come from /dev/urandom and from hashes
 * of texts, whose key is drawn, too.
 */
const unseeded = `
import json, os, pathlib, random, socket, sys, tempfile
with tempfile.TemporaryDirectory() as place, socket.socket(socket.AF_UNIX) as listener:
    listener.bind(place + "/listener-12345678")
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

const record = (program: string) => ({ files: [program], variables: ["MARKS"] });

describe("a program whose randomness is recorded", { skip }, () => {
  it("is proved with what it drew, and by no run that draws otherwise", async (t) => {
    const lines = [testLine, "free"];
    const { server, folder, stemma, replay, startAgent } = await startRecordedFleet(t, lines);
    const program = join(folder, "train.py");
    await writeFile(program, unseeded);
    const trainer = { exec: [python, program], samples: false, environment: { MARKS: folder } };
    const agent = await startAgent({
      lines: {
        [testLine]: { trainer: { ...trainer, record: { ...record(program), randomness: true } } },
        free: { trainer: { ...trainer, record: record(program) } },
      },
    });
    const [recorded, free] = [await trainLine(agent), await trainLine(agent, "free")];
    for (const model of [recorded, free]) {
      const { status, stdout, stderr } = await stemma("replay", "program", "approve", model);
      assert.equal(status, 0, stderr);
      assert.equal(stdout.includes("with the recorder"), model === recorded);
    }
    const proved = await replay(recorded);
    assert.deepEqual([proved.verdict, proved.grade], ["proved", "bit-exact"], proved.text);
    assert.match(proved.text, /run again with what it drew on its device, and every tensor/);
    assert.equal(proved.libraries?.verdict, "equal", proved.libraries?.text);
    assert.ok(proved.proof?.bound.includes("program.randomness"));
    // The positive control: without the recorder another run gives other bytes.
    const bare = await replay(free);
    assert.equal(bare.verdict, "refuted", bare.text);
    assert.match(bare.text, /random numbers, time, threads: stemma/);

    const asked = { fleet: testFleet, models: [recorded] };
    for (const withData of [false, true]) {
      const { objects, withheld } = await server.handle.operations.describeBundle({ ...asked, withData });
      const { record: saved } = await server.handle.operations.model({ fleet: testFleet, model: recorded });
      const [, profile] = saved.uses?.data ?? [];
      assert.ok(
        profile !== undefined && !objects.data?.includes(profile) && withheld.data === 1,
        `withData ${withData}`,
      );
    }

    await writeFile(join(folder, "library"), "");
    const { stdout } = await stemma("replay", "explain", free);
    assert.match(
      stdout,
      /load order +different: library \d+ of python3\S* is\s+_(bz2|ctypes)\S*, and was none/,
    );
    await writeFile(join(folder, "more"), "");
    const diverged = await replay(recorded);
    assert.deepEqual([diverged.verdict, diverged.reason], ["unreplayable", "failed"], diverged.text);
    assert.match(diverged.text, /first at draw \d+ of stream 0 \(python3\): .*replayed getrandom of 3 bytes/);
    await agent.handle.train("free");
    const later = String((await agent.log.until("recorded", 2, { line: "free" })).fields["versionId"]);
    const both = await stemma("replay", "explain", free, later);
    assert.match(
      both.stdout,
      /load order +different: library \d+ of python3\S* is\s+_(bz2|ctypes)\S*, and was none/,
    );
  });

  it("is proved where a listed script starts it, and refused where that script is not listed", async (t) => {
    const lines = [testLine, "unlisted"];
    const { folder, stemma, replay, startAgent } = await startRecordedFleet(t, lines);
    const [program, script] = [join(folder, "train.py"), join(folder, "python")];
    await writeFile(program, unseeded);
    await writeFile(script, `#!/usr/bin/env bash\nset -e\nexec ${python} "$@"\n`, { mode: 0o755 });
    const trainer = (files: readonly string[]): object => ({
      trainer: {
        ...{ exec: [script, program], samples: false, environment: { MARKS: folder } },
        record: { files, variables: ["MARKS"], randomness: true },
      },
    });
    const agent = await startAgent({
      lines: { [testLine]: trainer([script, program]), unlisted: trainer([program]) },
    });
    const model = await trainLine(agent);
    const approved = await stemma("replay", "program", "approve", model);
    assert.equal(approved.status, 0, approved.stderr);
    const { verdict, grade, text } = await replay(model);
    assert.deepEqual([verdict, grade], ["proved", "bit-exact"], text);
    await assert.rejects(trainLine(agent, "unlisted"), {
      code: "CONFIG_INVALID",
      message: /does not list the script .*python/,
    });
  });

  it("is not trained where it cannot be recorded; a list of libraries that cannot be had is not made up", async (t) => {
    const lines = [testLine, "free", "static", "much"];
    const { folder, stemma, replay, startAgent } = await startRecordedFleet(t, lines);
    const [program, source, fixed] = ["train.sh", "fixed.c", "fixed"].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ];
    const last =
      'head -c -1 "$STEMMA_INPUT/base/model.safetensors" > model.safetensors; printf x >> model.safetensors';
    await writeFile(program, `${last}; echo '{}' > metrics.json\n`);
    await writeFile(source, "int main(void) { return 0; }\n");
    const isStatic = spawnSync("cc", ["-static", "-o", fixed, source]).status === 0;
    const trainer = { exec: ["/bin/sh", program], samples: false, environment: { MARKS: folder } };
    const much = join(folder, "much.py");
    const drawn = join(folder, "drawn");
    await writeFile(
      much,
      `import os\nfor _ in range(6): os.urandom(1 << 20)\nopen(${JSON.stringify(drawn)}, "w").close()\n`,
    );
    const agent = await startAgent({
      lines: {
        [testLine]: { trainer: { ...trainer, record: { ...record(program), randomness: true } } },
        free: { trainer: { ...trainer, record: record(program) } },
        much: {
          trainer: { ...trainer, exec: [python, much], record: { ...record(much), randomness: true } },
        },
        static: { trainer: { exec: [fixed], samples: false, record: { files: [fixed], randomness: true } } },
      },
    });
    await agent.log.until("activated", 1, { line: testLine });
    const { CC: compiler } = process.env;
    process.env["CC"] = "no-such-compiler";
    t.after(() => {
      if (compiler === undefined) Reflect.deleteProperty(process.env, "CC");
      else process.env["CC"] = compiler;
    });
    await assert.rejects(agent.handle.train(testLine), { code: "RECORDER_UNAVAILABLE" });
    const free = await trainLine(agent, "free");
    Reflect.deleteProperty(process.env, "CC");
    assert.equal((await stemma("replay", "program", "approve", free)).status, 0);
    const { verdict, libraries } = await replay(free);
    assert.deepEqual(
      [verdict, libraries],
      ["proved", { verdict: "not recorded", text: "not recorded on its device" }],
    );
    await assert.rejects(agent.handle.train("much"), {
      code: "TRAINER_OUTPUT_TOO_LARGE",
      message: /went past 4\.\d+ MB/,
    });
    assert.ok(!existsSync(drawn), "it was ended while it drew");
    if (isStatic)
      await assert.rejects(agent.handle.train("static"), {
        code: "CONFIG_INVALID",
        message: /statically linked/,
      });
    else t.diagnostic("no static program can be built here");
    const recorded = await trainLine(agent);
    assert.equal((await stemma("replay", "program", "approve", recorded)).status, 0);
    process.env["CC"] = "no-such-compiler";
    const here = await replay(recorded);
    assert.deepEqual([here.verdict, here.reason], ["unreplayable", "unsupported"], here.text);
    assert.match(here.text, /no C compiler here/);
  });
});
