/**
 * The definition of one operation of the server, as data: method, path, input and output. The routes, the
 * HTTP client, the interface that both implement, the API description and the checks of commands derive from
 * these definitions. Schemas have no transforms, because JSON Schema could not express them.
 */
import * as z from "zod";
import type { Right } from "./rights.js";

export type Shape = Readonly<Record<string, z.ZodType>>;
type NoMembers = Readonly<Record<never, never>>;

interface OperationBase<Params extends Shape, Query extends Shape, Body extends Shape> {
  /** One sentence for the API description. */
  readonly summary: string;
  readonly method: "GET" | "POST";
  /** The right that a token needs; null: nobody needs a token. */
  readonly right: Right | null;
  /**
   * The answer to a token that is scoped to fleets. When absent, the path names a fleet, which has to be one of these.
   * Own: the operation answers only what is of them, or of none. Refused: it is about the server, or reaches others.
   */
  readonly scoped?: "own" | "refused";
  /** `:name` stands for a path parameter. */
  readonly path: string;
  readonly params: z.ZodObject<Params>;
  readonly query: z.ZodObject<Query>;
  readonly body: z.ZodObject<Body>;
  /** Maximum bytes of the body; when absent, the server's general limit applies. */
  readonly maxBodyBytes?: number;
}

/** One request, one JSON answer. */
export interface CallDefinition<
  Params extends Shape = Shape,
  Query extends Shape = Shape,
  Body extends Shape = Shape,
  Output extends z.ZodType = z.ZodType,
> extends OperationBase<Params, Query, Body> {
  readonly kind: "call";
  readonly output: Output;
  /** True if minutes may pass before the first byte of the answer. */
  readonly isLong?: boolean;
  /** True if the work stops when the client closes its connection. */
  readonly stopsWithClient?: boolean;
}

/** Work that outlives its request: started by one request, then polled or stopped by others. */
export interface JobDefinition<
  Params extends Shape = Shape,
  Body extends Shape = Shape,
  Progress extends z.ZodType = z.ZodType,
  Report extends z.ZodType = z.ZodType,
> extends OperationBase<Params, NoMembers, Body> {
  readonly kind: "job";
  /** The path of a job is this path followed by the job's id. */
  readonly jobsPath: string;
  /** True if a GET of that path lists the jobs that the server remembers. */
  readonly canListJobs?: boolean;
  readonly progress: Progress;
  readonly report: Report;
}

/** A stream of bytes or events. Each stream has its own transport in server/interface/http. */
export interface StreamDefinition<
  Params extends Shape = Shape,
  Query extends Shape = Shape,
  Body extends Shape = Shape,
  Output extends z.ZodType = z.ZodType,
> extends OperationBase<Params, Query, Body> {
  readonly kind: "stream";
  /** Media types of the request body, where it is not JSON. */
  readonly requestTypes?: readonly string[];
  readonly responseType: string;
  /** The events, or the report at the end of the stream, as JSON. */
  readonly output: Output;
  /** A description of how to read or write the stream, for the API description. */
  readonly details: string;
}

export type OperationDefinition = CallDefinition | JobDefinition | StreamDefinition;

type Given<Definition, Keys extends string> = Omit<Definition, "kind" | Keys>;

/** @param definition `params`, `query` and `body` have no members where they are absent */
export function call<
  Output extends z.ZodType,
  Params extends Shape = NoMembers,
  Query extends Shape = NoMembers,
  Body extends Shape = NoMembers,
>(
  definition: Given<CallDefinition<Params, Query, Body, Output>, "params" | "query" | "body"> & {
    readonly params?: Params;
    readonly query?: Query;
    readonly body?: Body;
  },
): CallDefinition<Params, Query, Body, Output> {
  return { ...definition, kind: "call", ...objectsOf(definition) };
}

export function job<
  Progress extends z.ZodType,
  Report extends z.ZodType,
  Params extends Shape = NoMembers,
  Body extends Shape = NoMembers,
>(
  definition: Given<JobDefinition<Params, Body, Progress, Report>, "method" | "params" | "query" | "body"> & {
    readonly params?: Params;
    readonly body?: Body;
  },
): JobDefinition<Params, Body, Progress, Report> {
  return { ...definition, kind: "job", method: "POST", ...objectsOf<Params, NoMembers, Body>(definition) };
}

export function stream<
  Output extends z.ZodType,
  Params extends Shape = NoMembers,
  Query extends Shape = NoMembers,
  Body extends Shape = NoMembers,
>(
  definition: Given<StreamDefinition<Params, Query, Body, Output>, "params" | "query" | "body"> & {
    readonly params?: Params;
    readonly query?: Query;
    readonly body?: Body;
  },
): StreamDefinition<Params, Query, Body, Output> {
  return { ...definition, kind: "stream", ...objectsOf(definition) };
}

function objectsOf<Params extends Shape, Query extends Shape, Body extends Shape>({
  params,
  query,
  body,
}: {
  readonly params?: Params;
  readonly query?: Query;
  readonly body?: Body;
}): {
  readonly params: z.ZodObject<Params>;
  readonly query: z.ZodObject<Query>;
  readonly body: z.ZodObject<Body>;
} {
  // A shape can be absent only where its type parameter is NoMembers, which makes the casts below correct.
  const empty = {};
  return {
    params: z.object(params ?? (empty as Params)),
    query: z.object(query ?? (empty as Query)),
    body: z.object(body ?? (empty as Body)),
  };
}

type Primitive = string | number | boolean | null | undefined;
/** A value of a schema, deeply read-only. */
export type Immutable<T> = unknown extends T
  ? T
  : T extends Primitive
    ? T
    : T extends readonly (infer Item)[]
      ? readonly Immutable<Item>[]
      : { readonly [Key in keyof T]: Immutable<T[Key]> };

/** The value of a schema. */
export type ValueOf<Schema extends z.ZodType> = Immutable<z.output<Schema>>;

/**
 * The members of a schema; for an object without members zod infers `Record<string, never>`, which cannot be
 * joined with others.
 */
type MembersOf<Schema extends z.ZodObject> = keyof Schema["shape"] extends never
  ? NoMembers
  : z.input<Schema>;

/** Path, query and body members of an operation as one object. */
export type InputOf<Definition extends OperationDefinition> = Immutable<
  MembersOf<Definition["params"]> & MembersOf<Definition["query"]> & MembersOf<Definition["body"]>
>;
