/**
 * The requests that the agent answers on its local sockets. `control` is for the owner (mode 600). `samples` and
 * `models` are for the device's own software (mode 660): what observes needs no right to submit models.
 *
 *     control  {"do": "status"}
 *              {"do": "train", "line": L, "recipe"?: R, "parameters"?: {…}, "wait"?: true, "user"?: U}
 *              {"do": "activate", "line": L, "versionId": V}
 *              {"do": "stop", "forUpdate"?: true, "limitMs"?: N}   answered {"waitsFor": text or null} at once, also
 *              when asked again; the socket closes when the agent ends
 *              {"do": "list-samples", "line": L, "limit"?: N, "unfit"?: true}
 *              {"do": "remove-samples", "line": L, "ids": […] or "unfit": true or "all": true}
 *              {"do": "samples", …} and {"do": "save", …} as below
 *     samples  {"do": "samples", "line": L, "samples": [{"label": …, "values": […], …}, …], "batch"?: B}
 *              answered {"accepted": n, "alreadyThere": n, …} when they are on the disk
 *              {"do": "current", "line": L}   answered with the folder of the model that the line runs
 *              {"do": "trial", "line": L}     answered with the folders of what is on trial and of what runs
 *              {"do": "observe", "line": L, "trial": V, "running": V, "observations": [{…}, …]}   what came of
 *              live inputs with both, answered when it is on the disk (docs/live-trials.md)
 *     models   {"do": "save", "line": L, "file": F, "base"?: V, "metrics"?: {…}, "attachments"?: [F, …],
 *               "again"?: true, "as"?: "file", "check"?: {"file": F, "tolerance"?: T}}
 *              answered {"versionId": V, "isNew": true, …} when the model is durable
 *              {"do": "current", "line": L}
 */
import { currentUser } from "../../shared/adapters/current-user.js";
import { callerText, type Caller } from "../../shared/journal/caller.js";
import * as z from "zod";
import { isHash } from "../../shared/tensor/hash.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { describeIssues } from "../../shared/describe-issues.js";
import { fieldsInvalid, samplesNotNamed, unknownRequest } from "./control-errors.js";
import { maxStopMs, type StopAsked } from "./stop-asked.js";
import type { Handler, Request } from "./json-line-server.js";
import { observation, type Observations } from "./observation.js";

/** The part of an agent that the sockets need. */
export interface ControlledAgent {
  status(): Promise<unknown>;
  train(
    line: string,
    request: Omit<z.infer<typeof trainRequest>, "line" | "wait" | "user"> & { readonly by: Caller },
  ): Promise<unknown>;
  activate(line: string, versionId: Hash): Promise<void>;
  takeSamples(line: string, samples: readonly unknown[], batch?: string): Promise<unknown>;
  listSamples(line: string, limit: number, onlyUnfit: boolean): Promise<unknown>;
  removeSamples(
    line: string,
    removal: { readonly ids: readonly string[] } | { readonly all: true } | { readonly unfit: true },
  ): Promise<unknown>;
  endInOrder(asked: StopAsked, limitMs: number): unknown;
  currentFolder(line: string): Promise<unknown>;
  trial(line: string): Promise<unknown>;
  observe(line: string, observations: Observations): Promise<unknown>;
  save(line: string, request: Omit<z.infer<typeof saveRequest>, "line">): Promise<unknown>;
}

const trainRequest = z.object({
  line: z.string(),
  recipe: z.string().optional(),
  parameters: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).optional(),
  user: z.string().max(1024).optional(),
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
const listSamplesRequest = z.object({
  line: z.string(),
  limit: z.number().int().min(1).max(100_000).default(100),
  unfit: z.boolean().default(false),
});
const removeSamplesRequest = z.object({
  line: z.string(),
  ids: z.array(z.string().max(64)).max(100_000).optional(),
  unfit: z.literal(true).optional(),
  all: z.literal(true).optional(),
});
const versionId = z.custom<Hash>(isHash, "must be a version id of 64 hex digits");
const activateRequest = z.object({ line: z.string(), versionId });
const path = z.string().min(1).max(4096);
const saveRequest = z.object({
  line: z.string(),
  file: path,
  base: z.string().min(1).max(300).optional(),
  metrics: z.unknown().optional(),
  attachments: z.array(path).max(1000).optional(),
  again: z.boolean().optional(),
  as: z.literal("file").optional(),
  check: z.object({ file: path, tolerance: z.number().min(0).optional() }).optional(),
});
const stopRequest = z.object({
  forUpdate: z.boolean().default(false),
  limitMs: z.number().int().min(0).max(maxStopMs).default(0),
});
const lineRequest = z.object({ line: z.string() });
const observeRequest = z.object({
  line: z.string(),
  trial: versionId,
  running: versionId,
  observations: z.array(observation).min(1).max(1000),
});

/** Checks a request's fields. @throws USAGE naming the field */
function parseRequest<T>(schema: z.ZodType<T>, request: Request): T {
  const result = schema.safeParse(request);
  if (!result.success) throw fieldsInvalid(request.do, describeIssues(result.error));
  return result.data;
}

/** Handles the requests of the socket `control`. */
export function controlHandler(agent: ControlledAgent): Handler {
  const samples = samplesHandler(agent);
  const models = modelsHandler(agent);
  return async (request) => {
    switch (request.do) {
      case "status":
        return await agent.status();
      case "train": {
        const { line, recipe, parameters, wait, user } = parseRequest(trainRequest, request);
        const by: Caller = { who: callerText(user) ?? currentUser(), through: "socket" };
        const trained = agent.train(line, { recipe, parameters, by });
        if (wait !== false) return await trained;
        trained.catch(() => undefined); // A failure is reported as an event.
        return { line, asked: true };
      }
      case "activate": {
        const { line, versionId } = parseRequest(activateRequest, request);
        await agent.activate(line, versionId);
        return { line, versionId };
      }
      case "stop": {
        const { forUpdate, limitMs } = parseRequest(stopRequest, request);
        return agent.endInOrder({ isForUpdate: forUpdate }, limitMs);
      }
      case "list-samples": {
        const { line, limit, unfit } = parseRequest(listSamplesRequest, request);
        return await agent.listSamples(line, limit, unfit);
      }
      case "remove-samples":
        return await removeSamples(agent, request);
      case "save":
        return await models(request);
      default:
        return await samples(request);
    }
  };
}

async function removeSamples(agent: ControlledAgent, request: Request): Promise<unknown> {
  const { line, ids, unfit, all } = parseRequest(removeSamplesRequest, request);
  if ([ids, unfit, all].filter((named) => named !== undefined).length !== 1) throw samplesNotNamed();
  return await agent.removeSamples(
    line,
    ids !== undefined ? { ids } : all === true ? { all } : { unfit: true },
  );
}

/** Handles the requests of the socket `samples`. */
export function samplesHandler(agent: ControlledAgent): Handler {
  return async (request) => {
    switch (request.do) {
      case "samples": {
        const { line, samples, batch } = parseRequest(samplesRequest, request);
        return await agent.takeSamples(line, samples, batch);
      }
      case "current":
        return await agent.currentFolder(parseRequest(lineRequest, request).line);
      case "trial":
        return await agent.trial(parseRequest(lineRequest, request).line);
      case "observe": {
        const { line, ...observations } = parseRequest(observeRequest, request);
        return await agent.observe(line, observations);
      }
      default:
        throw unknownRequest(request.do);
    }
  };
}

/** Handles the requests of the socket `models`. */
export function modelsHandler(agent: ControlledAgent): Handler {
  return async (request) => {
    switch (request.do) {
      case "save": {
        const { line, ...rest } = parseRequest(saveRequest, request);
        return await agent.save(line, rest);
      }
      case "current":
        return await agent.currentFolder(parseRequest(lineRequest, request).line);
      default:
        throw unknownRequest(request.do);
    }
  };
}
