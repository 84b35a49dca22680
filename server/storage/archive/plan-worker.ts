/** The worker thread in which a plan is computed, which takes seconds. Receives the graph in parts. */
import { parentPort } from "node:worker_threads";
import { nodeClock } from "../../../shared/adapters/node-ports.js";
import { stackOf } from "../../../shared/error-text.js";
import { isStemmaError } from "../../../shared/errors.js";
import type { EdgeInput, StorageGraphInput } from "../planner/storage-graph.js";
import { makePlan, type PlanResult, type PlanRequest } from "./make-plan.js";
import { nameSnapshots, type NumberedSnapshots } from "./numbered-snapshots.js";

/** The messages to the worker: edges in parts, then the request. */
export type ToPlanWorker =
  | { readonly edges: readonly EdgeInput[] }
  | {
      readonly vertices: StorageGraphInput["vertices"];
      readonly snapshots: NumberedSnapshots;
      readonly request: PlanRequest;
    };
export type FromPlanWorker =
  | { readonly result: PlanResult }
  | { readonly progress: string }
  | {
      readonly error: {
        readonly code: string | undefined;
        readonly message: string;
        readonly details: Readonly<Record<string, unknown>>;
      };
    };

const port = parentPort;
const edges: EdgeInput[] = [];
/** Each message has its own copies of the ids: one of each is kept. */
const ids = new Map<string, string>();
function keptId(id: string): string {
  const known = ids.get(id);
  if (known === undefined) ids.set(id, id);
  return known ?? id;
}
const send = (message: FromPlanWorker): void => {
  port?.postMessage(message);
};
port?.on("message", (message: ToPlanWorker) => {
  if ("edges" in message) {
    for (const { from, to, ...edge } of message.edges)
      edges.push({ ...edge, to: keptId(to), ...(from === undefined ? {} : { from: keptId(from) }) });
    return;
  }
  const { vertices, snapshots, request } = message;
  try {
    send({
      result: makePlan(
        { vertices, edges, snapshots: nameSnapshots(vertices, snapshots) },
        request,
        nodeClock(),
        (progress) => {
          send({ progress });
        },
      ),
    });
  } catch (error) {
    send({
      error: isStemmaError(error)
        ? {
            code: error.code,
            message: error.message,
            details: JSON.parse(JSON.stringify(error.details)) as Record<string, unknown>,
          }
        : {
            code: undefined,
            message: stackOf(error),
            details: {},
          },
    });
  }
  port.close();
});
