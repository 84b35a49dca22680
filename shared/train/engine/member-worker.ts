/** Runs in a worker of member-pool.ts: trains the members that it is sent, one after the other. */
import { parentPort, workerData } from "node:worker_threads";
import { messageOf } from "../../error-text.js";
import { isStemmaError } from "../../errors.js";
import { startWasmBackend } from "../backends/wasm.js";
import { trainMember, type MemberTask } from "../ensembles/train-member.js";
import type { TensorFlow } from "../tensorflow.js";
import type { FitSnapshot, FitState } from "../training-state.js";
import { plainDetails } from "./plain-details.js";
import type { MemberMessage, MemberWorkerData } from "./member-pool.js";

const reportEveryMs = 50;

const send = (message: MemberMessage): void => {
  parentPort?.postMessage(message);
};

/** True if this thread is a worker for members. */
export function isMemberWorker(): boolean {
  return (workerData as Partial<MemberWorkerData> | null)?.purpose === "members";
}

export async function runMemberWorker(): Promise<void> {
  const data = workerData as MemberWorkerData;
  const { tf } = await startWasmBackend({ folder: data.folder, memoryLimitMb: data.memoryLimitMb });
  parentPort?.on("message", (task: MemberTask) => {
    void trainTask(tf, data, task).then(send, (error: unknown) => {
      const known = isStemmaError(error);
      send({
        type: "failed",
        code: known ? error.code : "INTERNAL",
        message: known
          ? messageOf(error)
          : `A member could not be trained: ${messageOf(error)}. Report this.`,
        details: known ? plainDetails(error.details) : {},
      });
    });
  });
}

async function trainTask(
  tf: TensorFlow,
  { set, stateEveryMs }: MemberWorkerData,
  task: MemberTask,
): Promise<MemberMessage> {
  let steps = 0;
  let reportedMs = -Infinity;
  let sentMs = performance.now();
  const result = await trainMember(tf, set, task, {
    onSteps(measurement, done) {
      steps += done;
      if (performance.now() - reportedMs < reportEveryMs) return;
      send({ type: "steps", measurement, steps });
      steps = 0;
      reportedMs = performance.now();
    },
    onState(snapshot) {
      if (performance.now() - sentMs < stateEveryMs) return;
      send({ type: "state", state: stateOf(snapshot()) });
      sentMs = performance.now();
    },
  });
  return { type: "done", result };
}

function stateOf({ position, optimizer, arrays }: FitSnapshot): FitState {
  return { position, optimizer, arrays: new Map(arrays.map(({ name, read }) => [name, read()])) };
}
