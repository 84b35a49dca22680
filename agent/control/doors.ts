/**
 * What the agent answers on its two local sockets. `control` is for the owner (mode 600), `samples` for
 * the device's own software (mode 660): who may hand in samples need not be able to do more.
 *
 *     control  {"do": "status"}
 *              {"do": "train", "line": L, "recipe"?: R, "parameters"?: {…}, "wait"?: true}
 *              {"do": "activate", "line": L, "versionId": V}
 *              {"do": "samples", …} as below
 *     samples  {"do": "samples", "line": L, "samples": [{"label": …, "values": […], …}, …], "batch"?: B}
 *              answered {"accepted": n, "alreadyThere": n, …} when they are on the disk
 *              {"do": "current", "line": L}   where the model that the line runs lies
 */
import { z } from "zod";
import { StemmaError } from "../../shared/errors.js";
import { isHash } from "../../shared/tensor/hash.js";
import type { Agent } from "../agent.js";
import { describeIssues } from "../json-file.js";
import type { Handler, Request } from "./json-line-server.js";

const trainRequest = z.object({
  line: z.string(),
  recipe: z.string().optional(),
  parameters: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).optional(),
  wait: z.boolean().optional(),
});
const samplesRequest = z.object({
  line: z.string(),
  samples: z.array(z.unknown()).min(1).max(100_000),
  batch: z
    .string()
    .regex(/^[\x21-\x7e]{1,40}$/)
    .optional(),
});
const activateRequest = z.object({
  line: z.string(),
  versionId: z.string().refine(isHash, "must be a version id of 64 hex digits"),
});
const lineRequest = z.object({ line: z.string() });

/** @throws USAGE naming the field */
function checked<T>(schema: z.ZodType<T>, request: Request): T {
  const result = schema.safeParse(request);
  if (!result.success)
    throw new StemmaError(
      "USAGE",
      `The request "${request.do}" is not usable: ${describeIssues(result.error)}. Correct it and send it again.`,
    );
  return result.data;
}

export function controlDoor(agent: Agent): Handler {
  const samples = samplesDoor(agent);
  return async (request) => {
    switch (request.do) {
      case "status":
        return await agent.status();
      case "train": {
        const { line, recipe, parameters, wait } = checked(trainRequest, request);
        const trained = agent.train(line, { recipe, parameters });
        if (wait !== false) return await trained;
        trained.catch(() => undefined); // told as an event
        return { line, asked: true };
      }
      case "activate": {
        const { line, versionId } = checked(activateRequest, request);
        if (!isHash(versionId)) return undefined;
        await agent.activate(line, versionId);
        return { line, versionId };
      }
      default:
        return await samples(request);
    }
  };
}

export function samplesDoor(agent: Agent): Handler {
  return async (request) => {
    switch (request.do) {
      case "samples": {
        const { line, samples, batch } = checked(samplesRequest, request);
        return await agent.takeSamples(line, samples, batch);
      }
      case "current":
        return agent.currentFolder(checked(lineRequest, request).line);
      default:
        throw new StemmaError(
          "USAGE",
          `This socket does not know "${request.do.slice(0, 40)}". See agent/control/doors.ts for what it does.`,
        );
    }
  };
}
