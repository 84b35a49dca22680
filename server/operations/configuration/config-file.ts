/**
 * `server.json`: the settings of a server that stay the same from start to start. The schema checks the
 * file, its descriptions document every key, and `stemma server --print-config-schema` prints it.
 * docs/reference/server-json.md explains the file.
 */
import { dirname, join, resolve } from "node:path";
import * as z from "zod";
import { messageOf } from "../../../shared/error-text.js";
import { StemmaError } from "../../../shared/errors.js";
import { regularFiles } from "../../../shared/files/regular-files.js";
import { logForms, logLevels, type LogForm, type LogLevel } from "../../../shared/adapters/log-forms.js";
import type { RequiredConfinement } from "../../../shared/train/own-recipes/confinement.js";
import { brokerLimitsSchema } from "../../access/broker/broker-limits.js";
import { checkRoot } from "../../../shared/wire/topics.js";
import { defaultMaxUnfinishedBytes, type ServerOptions } from "./config.js";
import { explainIssues } from "./config-issues.js";
import { httpLimitsSchema } from "../../interface/http/http-limits.js";
import { ingestLimitsSchema } from "../../fleet/ingest/limits.js";
import {
  defaultTrainingLimits,
  trainingLimitsSchema,
  type TrainingLimits,
} from "../../services/context/training-limits.js";
import { fileUnreadable } from "./configuration-errors.js";

export const serverFileName = "server.json";
const serverFileFormat = 1;
/** A larger file is not a configuration. */
const maxFileBytes = 1024 * 1024;

const path = z.string().min(1).max(4096);
const port = z.number().int().min(0).max(65_535);

function isRoot(root: string): boolean {
  try {
    checkRoot(root);
    return true;
  } catch {
    return false;
  }
}

const tlsSchema = z.strictObject({
  certFile: path.describe("Path of the server's certificate, PEM."),
  keyFile: path.describe("Path of the certificate's private key, PEM."),
  caFile: path
    .optional()
    .describe(
      "Path of the certificate authority that devices trust, PEM; written into enrolment files. Without it devices trust the server's certificate itself.",
    ),
});

const listenSchema = z.strictObject({
  host: z
    .string()
    .min(1)
    .optional()
    .describe(
      'Address that MQTT and HTTP listen on. Default "127.0.0.1": reachable from this machine only; "0.0.0.0" listens on every IPv4 address.',
    ),
  mqttPort: port.optional().describe("TCP port of the embedded MQTT broker. Default 1883; 0: a free one."),
  httpPort: port.optional().describe("TCP port of the HTTP API. Default 8083; 0: a free one."),
  tls: z
    .union([z.literal("own"), z.literal("none"), tlsSchema])
    .optional()
    .describe(
      'TLS. "own" (default): of MQTT and HTTP, with certificates of the server\'s own authority, which also gives devices theirs (docs/certificates.md); beside an external broker of HTTP alone. "none": plain ports, and devices with tokens. Or the files of a certificate: of the embedded broker alone, HTTP stays without TLS.',
    ),
  deviceTokens: z
    .boolean()
    .optional()
    .describe(
      'Whether devices may have tokens instead of certificates. Default false where the server gives certificates (TLS "own" and the embedded broker), otherwise true.',
    ),
});

const embeddedBrokerSchema = z
  .strictObject({
    kind: z.literal("embedded").describe("The broker runs inside the server."),
  })
  .describe("The MQTT broker inside the server. It checks each device's token and can cut a device off.");

const externalBrokerSchema = z
  .strictObject({
    kind: z.literal("external").describe("The server is a client of another MQTT broker."),
    url: z
      .url({ protocol: /^mqtts?$/, error: "must be an mqtt:// or mqtts:// URL" })
      .describe("Address of the broker, mqtt:// or mqtts://. The port is 1883 or 8883 when left out."),
    clientId: z
      .string()
      .min(1)
      .max(64)
      .optional()
      .describe(
        "MQTT client id of this server. Default: stemma-server- and part of the server's public key.",
      ),
    username: z.string().min(1).max(256).optional().describe("User name of this server at the broker."),
    passwordFile: path
      .optional()
      .describe("Path of a file whose first line is this server's password at the broker."),
    caFile: path
      .optional()
      .describe(
        "Path of the certificate authority that signs the broker's certificate, PEM; written into enrolment files too. Without it the system's authorities apply.",
      ),
    deviceCertificates: z
      .boolean()
      .optional()
      .describe(
        "Whether that broker asks each device for a certificate of this server's authority (authority.pem in the home) and takes its CN, the device's name, as user name. Then devices enrol with invitations and batches, over HTTPS or by files. It needs mqtts:// and caFile. That broker knows names and no fleets, so a name belongs to one fleet of the server then, and username and clientId have a character that no device's name has, such as server.stemma. Default false: devices have tokens.",
      ),
  })
  .describe(
    [
      "Any MQTT 3.1.1 broker with retained messages, QoS 1 and wildcard subscriptions.",
      "Stemma cannot do these at another broker, so its administrator has to:",
      "check each device's user name (its device name) and password (the token in its enrolment file), or its certificate (deviceCertificates);",
      "bind each device to its client id FLEET:DEVICE and to the topics ROOT/v1/FLEET/DEVICE/…;",
      "bound frames, connections, retained messages and silence.",
      "A revoked or quarantined device is ignored and asked to leave, but its connection stays until the broker's administrator ends it.",
      "Session counters are checked when a device reports that it is online, which is after it has connected.",
      "The server's own user subscribes below ROOT/v1/FLEET/+/ and publishes on ROOT/v1/FLEET/+/down/words and ROOT/v1/FLEET/+/block/down/+.",
    ].join(" "),
  );

export const serverFileSchema = z.strictObject({
  format: z.literal(serverFileFormat).describe("Number of this file's format: 1."),
  listen: listenSchema.optional().describe("Addresses, ports and TLS of the server."),
  broker: z
    .discriminatedUnion("kind", [embeddedBrokerSchema, externalBrokerSchema])
    .optional()
    .describe('The MQTT broker that devices connect to. Default: {"kind": "embedded"}.'),
  enrolment: z
    .strictObject({
      mqttUrls: z
        .array(z.url({ protocol: /^mqtts?$/, error: "must be an mqtt:// or mqtts:// URL" }))
        .min(1)
        .max(8)
        .optional()
        .describe(
          "Addresses of the MQTT broker as devices reach it, tried in order. Default: the address that the server itself uses.",
        ),
      httpUrl: z
        .url({ protocol: /^https?$/, error: "must be an http:// or https:// URL" })
        .optional()
        .describe(
          "Address of the HTTP API as devices reach it. Default: the address that the server listens on.",
        ),
    })
    .optional()
    .describe("What new enrolment files contain; files that exist keep their addresses."),
  topicRoot: z
    .string()
    .refine(isRoot, "must be one or two names of letters, digits, - and _, separated by /")
    .optional()
    .describe(
      'First one or two levels of every MQTT topic, of letters, digits, "-" and "_". Default "stemma". Enrolled devices keep the root of their enrolment file.',
    ),
  releasePolicy: z
    .enum(["stored", "backed-up"])
    .optional()
    .describe(
      'When devices may delete a model they have sent: "stored" (default), once the server has read its copy back from disk and verified it; "backed-up", once a backup contains it too.',
    ),
  recipes: z
    .strictObject({
      confinement: z
        .enum(["namespaces", "interpreter"])
        .optional()
        .describe(
          'What confines the code of a fleet\'s own recipes. "namespaces" (default): the operating system; where it ' +
            'cannot, they are refused. "interpreter": where it cannot, only the interpreter that they run in.',
        ),
    })
    .optional()
    .describe("A fleet's own recipes."),
  retention: z
    .boolean()
    .optional()
    .describe(
      "Whether retention rules are applied, an hour after the start and then once a day. Default true.",
    ),
  rolloutApproval: z
    .boolean()
    .optional()
    .describe(
      "Whether a rollout starts only after another person than its creator has approved it. Default false.",
    ),
  hub: z
    .strictObject({
      enabled: z
        .boolean()
        .optional()
        .describe(
          "Whether models are published to this server, searched and pulled over HTTP, in each fleet. Default false.",
        ),
      unfinishedBytes: z
        .number()
        .int()
        .min(1024 * 1024)
        .optional()
        .describe(
          `Bytes of uploads to a fleet that were not finished, also dropped ones that no collection has freed; more are refused. Default ${defaultMaxUnfinishedBytes}.`,
        ),
    })
    .optional()
    .describe("A hub for models of others."),
  log: z
    .strictObject({
      level: z
        .enum(logLevels)
        .optional()
        .describe(
          'Least important events that are logged. Default "info"; "debug" includes every MQTT event.',
        ),
      form: z
        .enum(logForms)
        .optional()
        .describe('"plain" (default): one line of text an event; "json": one JSON object an event.'),
    })
    .optional()
    .describe("The log, on standard error."),
  limits: z
    .strictObject({
      ingest: ingestLimitsSchema.optional().describe("Limits of what the server accepts, for each fleet."),
      broker: brokerLimitsSchema
        .optional()
        .describe(
          "Limits of the embedded broker. Of these, an external broker's messages obey maxFrameBytes and maxQueuedBytes only.",
        ),
      http: httpLimitsSchema.optional().describe("Limits of the HTTP interface on its TCP port."),
      training: trainingLimitsSchema
        .optional()
        .describe("Limits of trainings on this server: replays, proofs, and those that a person asks for."),
    })
    .optional()
    .describe("Limits; each has a default."),
});

export type ServerFile = z.infer<typeof serverFileSchema>;

/** The settings in server.json: options of the server, and its logging. */
export interface ServerSettings {
  readonly options: Omit<ServerOptions, "home">;
  readonly log: { readonly level?: LogLevel | undefined; readonly form?: LogForm | undefined };
}

/** JSON Schema (draft 2020-12) of server.json. */
export function serverFileJsonSchema(): object {
  return z.toJSONSchema(serverFileSchema, { io: "input" });
}

/** @param named path given by the user; without it, the server.json of the home */
export function serverFilePath(home: string, named?: string): string {
  return named === undefined ? join(home, serverFileName) : resolve(named);
}

/**
 * Reads server.json of the home, or the file named. A home without one has no settings. Relative paths in
 * the file are relative to its folder.
 * @throws CONFIG_INVALID naming file, key, problem and remedy; FILE_MISSING where it cannot be read
 */
export async function readServerFile(home: string, named?: string): Promise<ServerSettings> {
  const file = serverFilePath(home, named);
  const bytes = await regularFiles()
    .read(file)
    .catch((cause: StemmaError) => {
      if (named === undefined && cause.code === "FILE_MISSING") return undefined;
      if (cause.code === "FILE_NOT_REGULAR") throw cause;
      throw fileUnreadable("The server's configuration", file, cause);
    });
  return bytes === undefined
    ? { options: {}, log: {} }
    : settingsOf(parseServerFile(bytes, file), dirname(file));
}

/** @throws CONFIG_INVALID naming file, key, problem and remedy */
export function parseServerFile(bytes: Uint8Array, file: string): ServerFile {
  if (bytes.length > maxFileBytes)
    throw invalid(file, `has ${bytes.length} bytes, more than the ${maxFileBytes} allowed. Check the path.`);
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder().decode(bytes));
  } catch (cause) {
    throw invalid(file, `is not valid JSON: ${messageOf(cause)}. Correct the file.`, cause);
  }
  const parsed = serverFileSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const problems = explainIssues(parsed.error, serverFileJsonSchema(), value).join("; ");
  const remedy = "Correct the file; `stemma server --print-config-schema` prints every key with its meaning.";
  throw invalid(file, `is not valid: ${problems}. ${remedy}`);
}

function invalid(file: string, problem: string, cause?: unknown): StemmaError {
  return new StemmaError("CONFIG_INVALID", `The server's configuration ${file} ${problem}`, {
    cause,
    path: file,
  });
}

function settingsOf(file: ServerFile, folder: string): ServerSettings {
  const { listen = {}, broker, limits = {} } = file;
  const pathOf = (path: string | undefined): string | undefined => path && resolve(folder, path);
  const tls =
    typeof listen.tls === "object"
      ? {
          certFile: resolve(folder, listen.tls.certFile),
          keyFile: resolve(folder, listen.tls.keyFile),
          caFile: pathOf(listen.tls.caFile),
        }
      : listen.tls;
  const external = broker?.kind === "external" && {
    url: broker.url,
    clientId: broker.clientId,
    username: broker.username,
    passwordFile: pathOf(broker.passwordFile),
    caFile: pathOf(broker.caFile),
    deviceCertificates: broker.deviceCertificates,
  };
  const options = {
    host: listen.host,
    mqttPort: listen.mqttPort,
    httpPort: listen.httpPort,
    tls,
    deviceTokens: listen.deviceTokens,
    broker: external || undefined,
    enrolment: file.enrolment,
    rootTopic: file.topicRoot,
    releaseAfter: file.releasePolicy,
    limits: limits.ingest,
    brokerLimits: limits.broker,
    httpLimits: limits.http,
    trainingLimits: limits.training,
    retention: file.retention,
    recipeConfinement: file.recipes?.confinement,
    rolloutApproval: file.rolloutApproval,
    isHub: file.hub?.enabled,
    maxUnfinishedBytes: file.hub?.unfinishedBytes,
  };
  return { options, log: file.log ?? {} };
}

/** Reads from a home's server.json how the process that runs own recipes must be confined. @throws CONFIG_INVALID */
export async function recipeConfinementOf(home: string): Promise<RequiredConfinement> {
  return (await readServerFile(home)).options.recipeConfinement ?? "namespaces";
}

/** Reads from a home's server.json what trainings may take. @throws CONFIG_INVALID */
export async function trainingLimitsOf(home: string): Promise<TrainingLimits> {
  return { ...defaultTrainingLimits, ...(await readServerFile(home)).options.trainingLimits };
}

/** True if server.json of a home wants every rollout to be approved. @throws CONFIG_INVALID */
export async function rolloutApprovalOf(home: string): Promise<boolean> {
  return (await readServerFile(home)).options.rolloutApproval ?? false;
}
