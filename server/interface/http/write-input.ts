/** Writes an operation's input as the path, query and body of its request. */
import type { OperationDefinition } from "../api/operation.js";

/** @returns path with its query, and the body's members */
export function splitInput(
  definition: OperationDefinition,
  input: object,
): { readonly path: string; readonly body: Readonly<Record<string, unknown>> } {
  const body = Object.fromEntries(
    Object.entries(input).filter(([name]) => Object.hasOwn(definition.body.shape, name)),
  );
  return { path: pathOf(definition, input), body };
}

/** An operation's path with the input's parameters in it, and its query. */
export function pathOf(definition: OperationDefinition, input: object): string {
  const path = fillPath(definition.path, input);
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(input)) {
    if (!Object.hasOwn(definition.query.shape, name) || value === undefined) continue;
    for (const item of Array.isArray(value) ? (value as unknown[]) : [value])
      query.append(name, String(item));
  }
  return query.size === 0 ? path : `${path}?${query.toString()}`;
}

/** Replaces each `:name` of a path. */
export function fillPath(path: string, values: object): string {
  return path.replace(/:(\w+)/g, (_, name: string) =>
    encodeURIComponent(String((values as Readonly<Record<string, unknown>>)[name])),
  );
}
