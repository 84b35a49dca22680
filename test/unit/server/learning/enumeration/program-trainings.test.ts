/** Trainings by a program of the user's own, without processes. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  ProgramTrainings,
  type RunningProgram,
} from "../../../../../server/learning/enumeration/program-trainings.js";
import type { EndedTraining } from "../../../../../server/learning/enumeration/train-candidate.js";

const tell = ({ onProgress }: RunningProgram, iteration: number, loss: number): void =>
  onProgress({ phase: "training", iteration, loss });

function trainingsBy(run: (running: RunningProgram) => Promise<EndedTraining>) {
  const ports = {
    run: (_: number, running: RunningProgram) => run(running),
    remove: () => Promise.resolve(),
  };
  return new ProgramTrainings(ports, undefined);
}

describe("trainings by a program", () => {
  it("leaves no error without a reader where a program fails after the figure of a later round", async () => {
    const unread: unknown[] = [];
    const note = (error: unknown): void => void unread.push(error);
    process.on("unhandledRejection", note);
    try {
      const trainings = trainingsBy((running) => {
        for (const step of [1, 2]) tell(running, step, 1 / step);
        return Promise.reject(new Error("it crashed"));
      });
      const first = await trainings.train(1, { name: "loss", steps: 1 });
      assert.equal(first.measurements.at(-1)?.loss, 1);
      await new Promise((done) => setImmediate(done));
      const second = await trainings.train(1, { name: "loss", steps: 2 });
      assert.equal(second.measurements.at(-1)?.loss, 0.5);
      await new Promise((done) => setImmediate(done));
      assert.deepEqual(unread, []);
      await assert.rejects(trainings.train(1, undefined), /it crashed/);
    } finally {
      process.off("unhandledRejection", note);
    }
  });

  it("forgets what a run told that was killed: the next may be another training", async () => {
    const trainings = trainingsBy((running) => {
      for (const step of [1, 2, 3]) tell(running, step, 9);
      running.beginAgain();
      tell(running, 1, 4);
      return Promise.resolve({ result: { measurements: [...running.told], metric: null } });
    });
    const { measurements } = await trainings.train(1, undefined);
    assert.deepEqual(
      measurements.map(({ iteration, loss }) => [iteration, loss]),
      [[1, 4]],
    );
  });
});
