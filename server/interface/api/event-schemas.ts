/** Events of a server and its devices, for live screens and the event stream. */
import * as z from "zod";
import { count } from "./fields.js";
import type { ValueOf } from "./operation.js";

const text = z.string();
const bytes = z.number();

function event<const Name extends string, Members extends Readonly<Record<string, z.ZodType>>>(
  name: Name,
  members: Members,
): z.ZodObject<{ event: z.ZodLiteral<Name>; atMs: z.ZodNumber; fleet: z.ZodString } & Members> {
  return z.object({ event: z.literal(name), atMs: z.number(), fleet: text, ...members });
}

const version = { device: text, line: text, versionId: text };
const arrival = {
  ...version,
  name: text,
  version: count,
  wireBytes: bytes,
  tensorBytes: bytes,
  tookMs: z.number(),
};

export const serverEvent = z
  .discriminatedUnion("event", [
    event("device-connected", { device: text, session: count, profile: text }),
    event("device-disconnected", { device: text }),
    event("device-quarantined", { device: text, because: text }),
    event("announced", { ...version, name: text, tensorBytes: bytes }),
    event("parked", { ...version, bases: z.array(text) }),
    event("wanted", { ...version, reason: text, objects: count, bytes }),
    event("transfer", {
      ...version,
      transfer: text,
      bytes,
      totalBytes: bytes,
      resumedBytes: bytes.describe("What was already here when this transfer resumed after an interruption"),
    }),
    event("claimed", {
      ...version,
      name: text,
      wireBytes: bytes,
      tensorBytes: bytes,
      tookMs: z.number(),
    }).describe("A device reported how it made a model; a replay is to give its tensors"),
    event("claim-ended", {
      ...version,
      name: text,
      verdict: z.enum(["proved", "refuted", "unreplayable"]),
      because: text,
    }).describe(
      "The replay of a claimed model ended; where it is not proved, the device is asked for its tensors",
    ),
    event("recorded", arrival),
    event("stored", arrival),
    event("released", arrival),
    event("damaged", { ...version, code: text, message: text }).describe(
      "What was read back differs from what was recorded: the device keeps its copy, and a person must look",
    ),
    event("refused", { device: text, versionId: text.nullable(), code: text, message: text }),
    event("connection-refused", {
      device: text.describe("The name that the connection gave, which need not be a device's"),
      code: text,
      message: text,
      address: text,
      count: count.describe("How many of this name and reason there were since the server was started"),
    }).describe("Connections were refused: the first, second, fourth, eighth … of a name and reason"),
    event("offered", version),
    event("activated", version),
    event("retired", { ...version, name: text, version: count, because: text }),
    event("retention", {
      retired: count,
      kept: count,
      freedBytes: bytes.nullable().describe("Null where nothing was collected with it"),
    }).describe("Retention rules were applied"),
    event("device-event", {
      device: text,
      line: text,
      name: text,
      text,
      versionId: text.exactOptional().describe("What it is about, where it is about a version"),
    }),
    event("guard", { device: text, message: text }),
    event("training", {
      job: text.describe("The id of the training's job"),
      state: z.enum(["running", "done", "failed"]),
      epoch: z.number(),
      loss: z.number().nullable(),
    }),
    event("missed", { count }).describe(
      "The listener was too slow: this many older events were dropped; request the current state again",
    ),
  ])
  .meta({ id: "ServerEvent" });
export type ServerEvent = ValueOf<typeof serverEvent>;
