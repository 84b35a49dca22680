/**
 * Trainings that were cut short, with a training that takes no time: by a stop of the agent, and by an engine that
 * ends without a word. They begin again before anything else of their line, as the same training.
 */
import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { callAgent } from "../../../agent/control/json-line-client.js";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { stateFileName, stateMagic } from "../../../shared/train/training-state.js";
import type { TrainingJob } from "../../../shared/train/training.js";
import type { AgentPorts } from "../../../agent/main.js";
import { fakeTraining } from "../../helpers/agent-fixtures.js";
import {
  isOfVersion,
  ofBase,
  startAgentTestEnvironment,
  testLine,
} from "../../helpers/agent-test-environment.js";
import { testFleet } from "../../helpers/test-server.js";

/** A training that never ends by itself. */
function hangingTraining(): { readonly train: AgentPorts["train"]; readonly jobs: TrainingJob[] } {
  const jobs: TrainingJob[] = [];
  const train: AgentPorts["train"] = (job, { signal }) => {
    jobs.push(job);
    return new Promise((_, reject) => {
      const stop = (): void => {
        reject(new StemmaError("TRAINING_STOPPED", "The training was stopped."));
      };
      if (signal?.aborted === true) stop();
      signal?.addEventListener("abort", stop);
    });
  };
  return { train, jobs };
}

const scheduled = (rounds: number): Readonly<Record<string, unknown>> => ({
  [testLine]: {
    recipe: "fake",
    dataset: { reader: "images-generated" },
    schedule: { everySeconds: 0.01, rounds },
  },
});
/** All of a job that decides its bits. The folder of the base may be installed again. */
const essence = ({ base, ...job }: TrainingJob): unknown => ({ ...job, base: base?.versionId });

describe("a training that was cut short", () => {
  it("begins again at the next start, under its invocation", async (t) => {
    const { server, startAgent } = await startAgentTestEnvironment(t);
    const hanging = hangingTraining();
    const first = await startAgent({ lines: scheduled(1), ports: { train: hanging.train } });
    await first.log.until("training", 1, { line: testLine, invocation: 1 });
    await first.handle.close();
    const whole = fakeTraining();
    const second = await startAgent({ lines: scheduled(1), ports: { train: whole.train } });
    await second.log.until("recorded", 1, { line: testLine });
    assert.deepEqual(whole.jobs.map(essence), hanging.jobs.map(essence));
    assert.equal(whole.jobs[0]?.invocation, 1);
    const [line] = (await second.handle.status()).lines;
    assert.equal(line?.trainings, 1);
    assert.equal((await server.handle.operations.models({ fleet: testFleet, device: "v1" })).length, 1);
  });

  it("begins again by itself after an engine that ended without a word, and before a request", async (t) => {
    const { startAgent } = await startAgentTestEnvironment(t);
    const whole = fakeTraining();
    let crashes = 2;
    const jobs: TrainingJob[] = [];
    const train: AgentPorts["train"] = (job, options) => {
      jobs.push(job);
      return crashes-- > 0
        ? Promise.reject(new StemmaError("TRAINING_STOPPED", "The training was killed by SIGKILL."))
        : whole.train(job, options);
    };
    const { handle, log } = await startAgent({ ports: { train } });
    await log.until("activated", 1, ofBase);
    await assert.rejects(handle.train(testLine), (error) => isStemmaError(error, "TRAINING_STOPPED"));
    await log.until("trained", 1, { line: testLine, invocation: 1 });
    await handle.train(testLine);
    assert.deepEqual(
      jobs.map(({ invocation }) => invocation),
      [1, 1, 1, 2],
    );
    assert.deepEqual(essence(jobs[2] as TrainingJob), essence(jobs[0] as TrainingJob));
    assert.equal(log.count("training-cut-short"), 2);
  });

  it("does not begin again after a failure with a reason", async (t) => {
    const { startAgent } = await startAgentTestEnvironment(t);
    const train: AgentPorts["train"] = () =>
      Promise.reject(new StemmaError("NOT_A_NUMBER", "Training produced a number that is not finite."));
    const first = await startAgent({ ports: { train } });
    await first.log.until("activated", 1, ofBase);
    await assert.rejects(first.handle.train(testLine), (error) => isStemmaError(error, "NOT_A_NUMBER"));
    await first.handle.close();
    const whole = fakeTraining();
    const second = await startAgent({ ports: { train: whole.train } });
    await second.handle.train(testLine);
    assert.deepEqual(
      whole.jobs.map(({ invocation }) => invocation),
      [2],
    );
  });
});

describe("an end for an update", () => {
  const forUpdate = { do: "stop", forUpdate: true, limitMs: 3600_000 } as const;

  it("waits for the next saved state of a training, and keeps it for the next start", async (t) => {
    const { startAgent, home } = await startAgentTestEnvironment(t);
    const hanging = hangingTraining();
    const { handle, log } = await startAgent({ lines: scheduled(1), ports: { train: hanging.train } });
    await log.until("training", 1, { line: testLine });
    const folder = join(home, "work", `${testLine}-1`, "state");
    await mkdir(folder, { recursive: true });
    const saveState = (iteration: number): Promise<void> =>
      writeFile(join(folder, stateFileName), stateOf(iteration));
    await saveState(7);
    let isAsked = false;
    const asked = handle.stopAsked.then((stop) => {
      isAsked = true;
      return stop;
    });
    assert.deepEqual(await callAgent(handle.sockets.control, forUpdate), {
      waitsFor: `the training 1 of ${testLine}: its end, or its next saved state`,
    });
    await assert.rejects(handle.train(testLine), (error) => isStemmaError(error, "INTERRUPTED"));
    // It looks several times, and sees the state that was there before.
    await new Promise((resolve) => setTimeout(resolve, 400));
    assert.equal(isAsked, false);
    await saveState(8);
    assert.deepEqual(await asked, { isForUpdate: true });
    await handle.close();
    const whole = fakeTraining();
    const second = await startAgent({ lines: scheduled(1), ports: { train: whole.train } });
    await second.log.until("trained", 1, { line: testLine });
    assert.deepEqual(whole.jobs.map(essence), hanging.jobs.map(essence));
  });

  it("lets a training end whose model is then there, and its line run it", async (t) => {
    const { server, startAgent } = await startAgentTestEnvironment(t);
    const whole = fakeTraining();
    let finish: () => void = () => undefined;
    const mayEnd = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const train: AgentPorts["train"] = async (...args) => {
      await mayEnd;
      return await whole.train(...args);
    };
    const { handle, log } = await startAgent({ ports: { train } });
    await log.until("activated", 1, ofBase);
    const trained = handle.train(testLine);
    await log.until("training", 1, { line: testLine });
    await callAgent(handle.sockets.control, forUpdate);
    finish();
    await handle.stopAsked;
    const { versionId } = await trained;
    await handle.close();
    const second = await startAgent();
    await second.log.until("recorded", 1, isOfVersion(versionId));
    assert.equal((await server.handle.operations.models({ fleet: testFleet, device: "v1" })).length, 1);
  });

  it("does not wait without an update, nor longer than its limit", async (t) => {
    for (const request of [{ do: "stop" }, { ...forUpdate, limitMs: 50 }]) {
      const { startAgent } = await startAgentTestEnvironment(t);
      const { handle, log } = await startAgent({
        lines: scheduled(1),
        ports: { train: hangingTraining().train },
      });
      await log.until("training", 1, { line: testLine });
      await callAgent(handle.sockets.control, request);
      assert.deepEqual(await handle.stopAsked, { isForUpdate: "forUpdate" in request });
    }
  });
});

/** The beginning of a saved state, which names its steps. */
function stateOf(iteration: number): Buffer {
  const bytes = Buffer.alloc(12);
  bytes.write(stateMagic, "latin1");
  bytes.writeUInt32LE(iteration, 8);
  return bytes;
}
