/** The operation that finds everything about one thing: a version, a rollout, or a request. */
import * as z from "zod";
import { count, fleetParams, fleetPath, shortText, timeMs } from "./fields.js";
import { loggedEvent } from "./devices/device-upkeep-schemas.js";
import { listedFact } from "./stores/journal-schemas.js";
import { call } from "./operation.js";

export const traceOperations = {
  trace: call({
    summary: "What the journal and the server's newest log lines say about one version, rollout or request",
    method: "GET",
    path: `${fleetPath}/trace`,
    // A log may name folders and people.
    right: "read-logs",
    params: fleetParams,
    query: {
      id: z
        .string()
        .min(1)
        .max(512)
        .describe(
          "A model or version id, the name of a rollout, or the id of a request; of several with that name the first; request:ID and rollout:NAME say which",
        ),
      device: shortText.optional().describe("Leave out what is about another device"),
      before: z
        .number()
        .int()
        .min(0)
        .max(Number.MAX_SAFE_INTEGER)
        .optional()
        .describe("Only facts before this position, and no log lines"),
      limit: z
        .number()
        .int()
        .min(1)
        .max(1000)
        .optional()
        .describe("How many facts, and how many log lines, at most; default 200, the newest"),
    },
    output: z
      .object({
        kind: z.enum(["version", "rollout", "request"]),
        id: z.string().describe("The version id, the rollout's name, or the id of the request"),
        name: z.string().exactOptional().describe("Of a version, as name:version"),
        device: z.string().exactOptional().describe("That made the version"),
        facts: z.array(listedFact).describe("Oldest first"),
        next: count.nullable().describe("The value of `before` for older facts; null: there are none"),
        log: z.array(loggedEvent).describe("Lines of the server's log that it remembers, oldest first"),
        logSinceMs: timeMs
          .nullable()
          .describe("From when on the server remembers its log; null: it remembers nothing"),
      })
      .meta({ id: "TracedSubject" }),
  }),
};
