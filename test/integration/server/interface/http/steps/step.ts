/** One call of an operation, and what the steps share: a fleet, its models and a device. */
import assert from "node:assert/strict";
import type { operationTable } from "../../../../../../server/interface/api/operation-table.js";
import type {
  DataStream,
  RecoveryStream,
  ServerOperations,
} from "../../../../../../server/interface/api/server-operations.js";
import { collectBytes } from "../../../../../helpers/agent-fixtures.js";
import { testFleet as fleet } from "../../../../../helpers/test-server.js";

export type OperationName = keyof typeof operationTable;

export interface Step {
  readonly name: OperationName;
  /** What this step shows, if an operation is called more than once. */
  readonly shows?: string;
  readonly ask: (operations: ServerOperations) => Promise<unknown>;
  /** The code of the error that both interfaces must give. */
  readonly fails?: string;
}

export const tiny = { fleet, model: "tiny:1" };
export const car = { fleet, device: "car" };

/** A recovery's report and its bytes. */
export async function drain(stream: RecoveryStream | DataStream): Promise<unknown> {
  const bytes = await collectBytes(stream.chunks);
  assert.equal(bytes.length, stream.byteLength);
  assert.deepEqual(await stream.report, stream.expected);
  return stream.report;
}
