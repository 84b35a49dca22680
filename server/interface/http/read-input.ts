/**
 * Reads a request's input and checks it against the operation's schemas. HTTP_REQUEST_INVALID names the field
 * that is not valid.
 */
import * as z from "zod";
import { withoutOptional } from "../api/fields.js";
import type { InputOf, OperationDefinition } from "../api/operation.js";
import { inputInvalid } from "./http-errors.js";

/** The parts of a fastify request that contain input. */
export interface RequestParts {
  readonly params: unknown;
  readonly query: unknown;
  readonly body: unknown;
}

/** Members of path, query and body as one object. @throws HTTP_REQUEST_INVALID */
export function readInput<Definition extends OperationDefinition>(
  definition: Definition,
  { params, query, body }: RequestParts,
): InputOf<Definition> {
  return {
    ...parse(definition.body, body),
    ...parse(definition.query, valuesOfQuery(definition.query, query)),
    ...parse(definition.params, params),
  } as InputOf<Definition>;
}

/** @throws HTTP_REQUEST_INVALID */
export function parse<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const parsed = schema.safeParse(value ?? {});
  if (!parsed.success) throw inputInvalid("The request is", parsed.error);
  return parsed.data;
}

/**
 * Converts a query's texts to the numbers, booleans and lists that its schema declares. The schema then
 * refuses what could not be converted.
 */
function valuesOfQuery(schema: z.ZodObject, query: unknown): unknown {
  if (typeof query !== "object" || query === null) return query;
  return Object.fromEntries(
    Object.entries(query).map(([name, value]) => {
      const member = (schema.shape as Readonly<Record<string, z.core.$ZodType>>)[name];
      return [name, member === undefined ? (value as unknown) : valueOfQuery(withoutOptional(member), value)];
    }),
  );
}

function valueOfQuery(schema: z.core.$ZodType, value: unknown): unknown {
  if (schema instanceof z.ZodArray) return Array.isArray(value) ? value : [value];
  if (typeof value !== "string") return value;
  if (schema instanceof z.ZodNumber) return value.trim() === "" ? value : Number(value);
  if (schema instanceof z.ZodBoolean && (value === "true" || value === "false")) return value === "true";
  return value;
}
