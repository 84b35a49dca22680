/**
 * Lines that a program of the device's own trains, from schedule and command to the server: failures lose nothing,
 * a training that was cut short begins again, and a command chooses only what agent.json allows.
 */
import assert from "node:assert/strict";
import { access, chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { isStemmaError } from "../../../shared/errors.js";
import { startAgentTestEnvironment, testLine } from "../../helpers/agent-test-environment.js";
import { testFleet } from "../../helpers/test-server.js";

const tune =
  `head -c -1 "$STEMMA_INPUT/base/model.safetensors" > model.safetensors; printf x >> model.safetensors; ` +
  "echo '{}' > metrics.json";
const lines = (script: string, more: object = {}, schedule: object = {}) => ({
  [testLine]: { trainer: { exec: ["/bin/sh", "-c", script], samples: false, ...more }, schedule },
});

describe("a line with an external trainer", () => {
  it("trains by schedule and by command, and reports what it trained", async (t) => {
    const { server, startAgent } = await startAgentTestEnvironment(t);
    const trainer = { allow: { epochs: { min: 1, max: 5 } } };
    const { log } = await startAgent({
      lines: lines(`grep epochs "$STEMMA_INPUT/job.json"; ${tune}`, trainer, {
        everySeconds: 0.01,
        rounds: 1,
      }),
    });
    await log.until("recorded", 1, { line: testLine });
    const { operations } = server.handle;
    const answer = async (body: object): Promise<unknown> => {
      const target = { fleet: testFleet, device: "v1", name: "train" };
      const { code } = await operations.command({ ...target, body: { line: testLine, ...body } });
      return code;
    };
    assert.equal(await answer({ parameters: { epochs: 6 } }), "RECIPE_PARAMETERS_INVALID");
    assert.equal(await answer({ parameters: { exec: "/bin/sh" } }), "RECIPE_PARAMETERS_INVALID");
    assert.equal(await answer({ parameters: "--epochs" }), "RECIPE_PARAMETERS_INVALID");
    assert.equal(await answer({ recipe: "battery-soh" }), "TRAINING_REFUSED");
    assert.equal(await answer({ parameters: { epochs: 3 } }), "");
    await log.until("recorded", 2, { line: testLine });
    assert.equal(
      log.count("trainer-output", ({ text }) => text === '    "epochs": 3'),
      1,
    );
    assert.equal((await operations.models({ fleet: testFleet, device: "v1" })).length, 2);
  });

  it("keeps its model when the program fails, and begins again when it was stopped", async (t) => {
    const { home, startAgent } = await startAgentTestEnvironment(t);
    const failing = await startAgent({ lines: lines("echo broken >&2; exit 7", {}, { everySeconds: 0.01 }) });
    const { fields } = await failing.log.until("training-failed", 1, { line: testLine });
    assert.match(String(fields["text"]), /broken/);
    const status = (await failing.handle.status()).lines[0];
    assert.match(status?.standstill ?? "", /status 7/);
    await failing.handle.close();

    const started = join(home, "started");
    const slow = lines(`if [ -e ${started} ]; then ${tune}; else touch ${started}; echo go; sleep 60; fi`);
    const first = await startAgent({ lines: slow });
    const asked = first.handle.train(testLine).catch((error: unknown) => error);
    await first.log.until("trainer-output", 1, { text: "go" });
    await first.handle.close();
    assert.ok(isStemmaError(await asked, "TRAINING_STOPPED"));
    await access(started);
    const second = await startAgent({ lines: slow });
    await second.log.until("recorded", 1, { line: testLine });
    const line = (await second.handle.status()).lines[0];
    assert.deepEqual([line?.trainings, line?.versions.at(-1)?.sequence], [2, 1]);
  });

  it("does not start with a program that others may change", async (t) => {
    const { home, startAgent } = await startAgentTestEnvironment(t);
    const program = join(home, "train");
    await writeFile(program, "#!/bin/sh\n", { mode: 0o755 });
    await chmod(program, 0o777);
    for (const setting of ["trainer", "measure"])
      await assert.rejects(
        startAgent({ lines: { [testLine]: { [setting]: { exec: [program] } } } }),
        (error) =>
          isStemmaError(error, "CONFIG_INVALID") && error.message.includes(`lines.cam.${setting}.exec`),
      );
    await assert.rejects(
      startAgent({ lines: { [testLine]: { recipe: "fake", trainer: { exec: ["/bin/true"] } } } }),
      (error) => isStemmaError(error, "CONFIG_INVALID") && error.message.includes("not both"),
    );
  });
});
