/** The API description (OpenAPI 3.1) of the table of operations. Pure. */
import { defined } from "../../../shared/defined.js";
import { serverCondition } from "./devices/device-schemas.js";
import * as z from "zod";
import { jobParams } from "./fields.js";
import { errorBody, jobSchema } from "./job-schemas.js";
import type { CallDefinition, JobDefinition, OperationDefinition, StreamDefinition } from "./operation.js";
import { operationGroups } from "./operation-table.js";
import { importOptions } from "./models/import-schemas.js";

export interface JsonSchema {
  readonly [keyword: string]: unknown;
}
export interface ApiParameter {
  readonly name: string;
  readonly in: "path" | "query";
  readonly required: boolean;
  readonly description?: string;
  readonly schema: JsonSchema;
}
interface ApiContent {
  readonly [mediaType: string]: { readonly schema: JsonSchema };
}
export interface ApiOperation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description?: string;
  readonly parameters: readonly ApiParameter[];
  readonly requestBody?: { readonly required: boolean; readonly content: ApiContent };
  readonly responses: Readonly<
    Record<string, { readonly description: string; readonly content?: ApiContent }>
  >;
}
export interface ApiDescription {
  readonly openapi: "3.1.0";
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly security: readonly object[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, ApiOperation>>>>;
  readonly components: {
    readonly securitySchemes: object;
    readonly schemas: Readonly<Record<string, JsonSchema>>;
  };
}

/** One operation of the description, before its zod schemas are converted to JSON Schema. */
interface Sketch {
  readonly path: string;
  readonly method: "get" | "post" | "delete";
  readonly id: string;
  readonly tag: string;
  readonly summary: string;
  readonly details?: string;
  readonly params: z.ZodObject;
  readonly query: z.ZodObject;
  readonly request?: { readonly types: readonly string[]; readonly schema: z.ZodType };
  readonly answer: { readonly status: string; readonly type: string; readonly schema: z.ZodType };
}

const json = "application/json";
const bytes = z.string().meta({ format: "binary" });
const noMembers = z.object({});

/** @param version the program's version */
export function describeApi(version: string): ApiDescription {
  const sketches = [
    ...Object.entries(operationGroups).flatMap(([tag, group]) => sketchesOf(tag, group)),
    ...unlistedRoutes,
  ];
  const { schemas, of } = jsonSchemas(sketches);
  const paths: Record<string, Record<string, ApiOperation>> = {};
  for (const sketch of sketches) {
    const path = sketch.path.replace(/:(\w+)/g, "{$1}");
    (paths[path] ??= {})[sketch.method] = operationOf(sketch, of);
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Stemma server",
      version,
      description:
        "All operations of a Stemma server. Errors have a stable code. Each answer has the header x-request-id, by which logs and facts name the request.",
    },
    security: [{ token: [] }],
    paths,
    components: { securitySchemes: { token: { type: "http", scheme: "bearer" } }, schemas },
  };
}

/** Routes that are not operations: probes, metrics for Prometheus, and this description. */
const unlistedRoutes: readonly Sketch[] = [
  {
    path: "/healthz",
    method: "get",
    id: "healthz",
    tag: "The server",
    summary: "Whether the server works, and what keeps it from doing all of its work; needs no token",
    params: noMembers,
    query: noMembers,
    answer: { status: "200", type: json, schema: serverCondition },
  },
  {
    path: "/readyz",
    method: "get",
    id: "readyz",
    tag: "The server",
    summary: "200 while the server accepts requests, 503 while it starts or stops; needs no token",
    params: noMembers,
    query: noMembers,
    answer: {
      status: "200",
      type: json,
      schema: z.object({ status: z.enum(["ready", "starting", "stopping"]) }),
    },
  },
  {
    path: "/metrics",
    method: "get",
    id: "metrics",
    tag: "The server",
    summary: "Figures of the server, in the text format of Prometheus",
    params: noMembers,
    query: noMembers,
    answer: { status: "200", type: "text/plain", schema: z.string() },
  },
  {
    path: "/openapi.json",
    method: "get",
    id: "openapi",
    tag: "The server",
    summary: "This description of the API, as OpenAPI 3.1",
    params: noMembers,
    query: noMembers,
    answer: { status: "200", type: json, schema: z.record(z.string(), z.unknown()) },
  },
];

function sketchesOf(tag: string, group: Readonly<Record<string, OperationDefinition>>): readonly Sketch[] {
  const jobs = new Map<string, readonly (readonly [string, JobDefinition])[]>();
  const started = Object.entries(group).map(([id, definition]) => {
    if (definition.kind === "job")
      jobs.set(definition.jobsPath, [...(jobs.get(definition.jobsPath) ?? []), [id, definition]]);
    return sketchOf(id, tag, definition);
  });
  return [...started, ...[...jobs.values()].flatMap((sharing) => jobSketches(tag, sharing))];
}

function sketchOf(id: string, tag: string, definition: OperationDefinition): Sketch {
  const { path, params, query, right } = definition;
  const summary = right === null ? definition.summary : `${definition.summary} (right ${right})`;
  const method = definition.method === "GET" ? "get" : "post";
  const common = { id, tag, path, method, summary, params, query } as const;
  switch (definition.kind) {
    case "call":
      return { ...common, ...requestOf(definition), answer: answerOfCall(definition) };
    case "job":
      return {
        ...common,
        details:
          "The answer is a job that keeps running; request it by its id until its state is done or failed.",
        ...requestOf(definition),
        answer: { status: "202", type: json, schema: jobSchema(definition.progress, definition.report) },
      };
    case "stream":
      return { ...common, details: definition.details, ...streamBodies(definition) };
  }
}

function requestOf({ method, body }: CallDefinition | JobDefinition): Pick<Sketch, "request"> {
  return method === "GET" ? {} : { request: { types: [json], schema: body } };
}

function answerOfCall({ output }: CallDefinition): Sketch["answer"] {
  return { status: output instanceof z.ZodUndefined ? "204" : "200", type: json, schema: output };
}

function streamBodies({
  requestTypes,
  responseType,
  output,
}: StreamDefinition): Pick<Sketch, "request" | "answer"> {
  const isJson = responseType === json;
  return {
    ...defined({ request: requestTypes && { types: requestTypes, schema: bytes } }),
    answer: {
      status: "200",
      type: responseType,
      schema: isJson || responseType === "text/event-stream" ? output : bytes,
    },
  };
}

/** Routes of the jobs that share one path. */
function jobSketches(tag: string, sharing: readonly (readonly [string, JobDefinition])[]): readonly Sketch[] {
  const [first] = sharing;
  if (first === undefined) return [];
  const [firstId, { jobsPath, params, canListJobs }] = first;
  const names = sharing.map(([id]) => id).join(" or ");
  const job = jobSchema(
    z.union(sharing.map(([, { progress }]) => progress)),
    z.union(sharing.map(([, { report }]) => report)),
  );
  const common = { tag, params: jobParams, query: noMembers, path: `${jobsPath}/:job` } as const;
  const answer = { status: "200", type: json, schema: job };
  const list: Sketch = {
    ...common,
    params,
    path: jobsPath,
    method: "get",
    id: `${firstId}Jobs`,
    summary: `Jobs of ${names} that the server remembers`,
    answer: { ...answer, schema: z.array(job) },
  };
  return [
    ...(canListJobs === true ? [list] : []),
    { ...common, method: "get", id: `${firstId}Job`, summary: `The state of a job of ${names}`, answer },
    { ...common, method: "delete", id: `${firstId}Stop`, summary: `Ask a job of ${names} to stop`, answer },
  ];
}

/** JSON Schema of every schema in the sketches; a schema with an id becomes a component. */
function jsonSchemas(sketches: readonly Sketch[]): {
  readonly schemas: Readonly<Record<string, JsonSchema>>;
  readonly of: (schema: z.ZodType) => JsonSchema;
} {
  const all = new Map<z.ZodType, string>();
  const add = (schema: z.ZodType): void => {
    if (!all.has(schema)) all.set(schema, `s${all.size}`);
  };
  for (const { params, query, request, answer } of sketches) {
    for (const members of [params, query])
      Object.values(members.shape).forEach((each) => add(each as z.ZodType));
    if (request !== undefined) add(request.schema);
    add(answer.schema);
  }
  add(errorBody);
  // No route has this as its JSON body: the frame of an import contains it (server/interface/http/import-frame.ts).
  add(importOptions);
  const together = z.object(Object.fromEntries([...all].map(([schema, key]) => [key, schema])));
  const converted = z.toJSONSchema(together, { io: "input", unrepresentable: "any" });
  const { properties, $defs } = JSON.parse(
    JSON.stringify(converted, (keyword, value: unknown) =>
      keyword === "id" && typeof value === "string" ? undefined : value,
    ).replaceAll('"#/$defs/', '"#/components/schemas/'),
  ) as { readonly properties: Record<string, JsonSchema>; readonly $defs: Record<string, JsonSchema> };
  return { schemas: $defs, of: (schema) => properties[all.get(schema) ?? ""] ?? {} };
}

function operationOf(sketch: Sketch, of: (schema: z.ZodType) => JsonSchema): ApiOperation {
  const { id, tag, summary, details, params, query, request, answer } = sketch;
  return defined({
    operationId: id,
    tags: [tag],
    summary,
    description: details,
    parameters: [...parametersOf("path", params, of), ...parametersOf("query", query, of)],
    requestBody: request && {
      required: true,
      content: Object.fromEntries(request.types.map((type) => [type, { schema: of(request.schema) }])),
    },
    responses: {
      [answer.status]:
        answer.status === "204"
          ? { description: "Done" }
          : { description: "Done", content: { [answer.type]: { schema: of(answer.schema) } } },
      default: { description: "Refused or failed", content: { [json]: { schema: of(errorBody) } } },
    },
  });
}

function parametersOf(
  where: ApiParameter["in"],
  { shape }: z.ZodObject,
  of: (schema: z.ZodType) => JsonSchema,
): readonly ApiParameter[] {
  return Object.entries(shape).map(([name, member]) => {
    const { description, ...schema } = of(member as z.ZodType);
    return {
      name,
      in: where,
      required: where === "path" || !z.safeParse(member, undefined).success,
      ...(typeof description === "string" ? { description } : {}),
      schema,
    };
  });
}
