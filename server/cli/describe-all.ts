/** Describes many versions, a bounded number at a time: over the network, each is a request. */
import { mapConcurrent } from "../../shared/concurrency/map-concurrent.js";
import type { CallOutput } from "../interface/api/server-operations.js";
import type { PlainContext } from "./plain-command.js";

const maxAtATime = 8;

export async function describeAll(
  versions: readonly { readonly versionId: string }[],
  call: PlainContext["call"],
): Promise<readonly CallOutput<"model">[]> {
  return await mapConcurrent(versions, maxAtATime, ({ versionId }) => call("model", { model: versionId }));
}
