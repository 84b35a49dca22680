/**
 * The Python client's modules that follow from the API description: data types, a method for each operation with a
 * JSON answer, and the schemas by which answers are checked. The text is as ruff formats it. Pure.
 */
import type { ApiDescription, ApiOperation, JsonSchema } from "./api-description.js";
import type { OperationDefinition } from "./operation.js";
import { operationTable } from "./operation-table.js";
import { PythonTypes } from "./python-types.js";

export interface PythonModule {
  /** Name of the file in python/src/stemma/generated. */
  readonly file: string;
  readonly text: string;
}

const writtenBy = "`npm run http-api` writes this file from the table of operations.";
const json = "application/json";
const indent = "    ";
const maxColumns = 120;

interface Operation {
  readonly id: string;
  readonly method: string;
  readonly path: string;
  readonly operation: ApiOperation;
  readonly body: JsonSchema | undefined;
  /** The schema of the answer; undefined where it is empty. */
  readonly answer: JsonSchema | undefined;
  /** False where the body is a stream: such an operation has a method written by hand. */
  readonly hasMethod: boolean;
}

export function writePythonClient({ paths, components }: ApiDescription): readonly PythonModule[] {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, operation]) => {
      const found = jsonOperation(path, method, operation);
      return found === undefined ? [] : [found];
    }),
  );
  const types = new PythonTypes(components.schemas);
  const methods = operations.filter(({ hasMethod }) => hasMethod).map((each) => writeMethod(each, types));
  return [
    { file: "operations.py", text: operationsModule(methods, types.used(methods.join("\n"))) },
    { file: "types.py", text: types.text(`Data types of the HTTP API. ${writtenBy}`) },
    { file: "schemas.json", text: schemasFile(operations, components.schemas) },
  ];
}

/** An operation with an answer of JSON, or an empty one; answers that are streams are read by hand. */
function jsonOperation(path: string, method: string, operation: ApiOperation): Operation | undefined {
  const { operationId: id, requestBody, responses } = operation;
  const [, response] = Object.entries(responses).find(([status]) => status !== "default") ?? [];
  const answer = response?.content?.[json]?.schema;
  if (response?.content !== undefined && answer === undefined) return undefined;
  return {
    id,
    method: method.toUpperCase(),
    path,
    operation,
    body: requestBody?.content[json]?.schema,
    answer,
    hasMethod: requestBody === undefined || requestBody.content[json] !== undefined,
  };
}

interface Argument {
  /** Name in JSON and in URLs. */
  readonly name: string;
  readonly where: "path" | "query" | "body";
  readonly type: string;
  readonly isRequired: boolean;
  readonly isNullable: boolean;
}

function writeMethod({ id, method, path, operation, body, answer }: Operation, types: PythonTypes): string {
  const parent = id.charAt(0).toUpperCase() + id.slice(1);
  const args = argumentsOf(parent, operation, body, types);
  const [positional, named] = [args.filter(isPositional), args.filter((each) => !isPositional(each))];
  const lines = [
    "self,",
    ...positional.map(({ name, type }) => `${pythonName(name)}: ${type},`),
    ...(named.length === 0 ? [] : ["*,"]),
    ...named.map(parameterOf),
  ];
  const returned = answer === undefined ? "None" : types.of(answer, `${parent}Answer`);
  const call = [
    `"${id}",`,
    `"${method}",`,
    `"${path}",`,
    ...(["path", "query", "body"] as const).flatMap((where) => membersOf(where, args)),
    ...(isLong(id) ? ["is_long=True,"] : []),
  ].flatMap((text) => text.split("\n"));
  return [
    `${indent}def ${pythonName(id)}(`,
    ...lines.map((line) => wrapLine(line, 2)),
    `${indent}) -> ${returned}:`,
    docstring(operation),
    answer === undefined ? `${indent.repeat(2)}self._call(` : `${indent.repeat(2)}answer = self._call(`,
    ...call.map((line) => `${indent.repeat(3)}${line}`),
    `${indent.repeat(2)})`,
    ...(answer === undefined
      ? []
      : [`${indent.repeat(2)}return cast("${returned.replaceAll('"', "'")}", answer)`]),
  ].join("\n");
}

function argumentsOf(
  parent: string,
  { parameters }: ApiOperation,
  body: JsonSchema | undefined,
  types: PythonTypes,
): readonly Argument[] {
  const required = (body?.["required"] ?? []) as readonly string[];
  const members = Object.entries((body?.["properties"] ?? {}) as Readonly<Record<string, JsonSchema>>);
  const typeOf = (name: string, schema: JsonSchema): string => types.of(schema, parent + capital(name));
  return [
    ...parameters.map((each) => ({
      name: each.name,
      where: each.in,
      type: typeOf(each.name, each.schema),
      isRequired: each.required,
      isNullable: false,
    })),
    ...members.map(([name, schema]) => {
      const type = typeOf(name, schema);
      return {
        name,
        where: "body" as const,
        type,
        isRequired: required.includes(name),
        isNullable: /\bNone$|^Any$/.test(type),
      };
    }),
  ];
}

/** Parts of the path are positional; the fleet is that of the connection where it is not named. */
const isPositional = ({ name, where }: Argument): boolean => where === "path" && name !== "fleet";

function parameterOf({ name, where, type, isRequired, isNullable }: Argument): string {
  const python = pythonName(name);
  if (name === "fleet" && where === "path") return `${python}: str | None = None,`;
  if (isRequired) return `${python}: ${type},`;
  return isNullable ? `${python}: ${type} | Absent = ABSENT,` : `${python}: ${type} | None = None,`;
}

/** True if minutes may pass before the first byte of the answer. */
function isLong(id: string): boolean {
  const definition = (operationTable as Readonly<Record<string, OperationDefinition>>)[id];
  return definition?.kind === "call" && definition.isLong === true;
}

/** The members of one part of the request, as a dict; those that are absent are left out by `_call`. */
function membersOf(where: Argument["where"], args: readonly Argument[]): readonly string[] {
  const members = args
    .filter((each) => each.where === where)
    .map(({ name, isRequired, isNullable }) => {
      const python = pythonName(name);
      const value = isRequired || isNullable || where === "path" ? python : `given(${python})`;
      return `"${name}": ${value}`;
    });
  if (members.length === 0) return [];
  const line = `${where}={${members.join(", ")}},`;
  return line.length + 3 * indent.length <= maxColumns
    ? [line]
    : [`${where}={`, ...members.map((each) => `${indent}${each},`), "},"];
}

function docstring({ summary, description }: ApiOperation): string {
  const text = `${summary}.${description === undefined ? "" : ` ${description}`}`;
  const lines = wrapWords(text, maxColumns - 2 * indent.length - 6);
  const [first = "", ...rest] = lines.map((line) => line.replaceAll("\\", "\\\\"));
  if (rest.length === 0) return `${indent.repeat(2)}"""${first}"""`;
  return [`"""${first}`, ...rest, '"""'].map((line) => `${indent.repeat(2)}${line}`).join("\n");
}

function operationsModule(methods: readonly string[], used: readonly string[]): string {
  return `"""A method for each operation of the HTTP API whose answer is JSON. ${writtenBy}"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from stemma.calls import ABSENT, Absent, Caller, given

if TYPE_CHECKING:
    from stemma.generated.types import (
${used.map((name) => `${indent.repeat(2)}${name},`).join("\n")}
    )


class Operations(Caller):
    """The operations by their names in docs/http-api.md; without \`fleet\` that of the connection is meant."""

${methods.join("\n\n")}
`;
}

/** The keywords that say which types an answer has; bounds are for what a server gets. */
const checkedKeywords = new Set([
  "type",
  "properties",
  "required",
  "additionalProperties",
  "items",
  "enum",
  "const",
  "anyOf",
  "oneOf",
  "$ref",
  "pattern",
]);

function schemasFile(
  operations: readonly Operation[],
  components: Readonly<Record<string, JsonSchema>>,
): string {
  const line = ([name, schema]: readonly [string, unknown]): string =>
    `${JSON.stringify(name)}: ${JSON.stringify(checked(schema))}`;
  const object = (entries: readonly (readonly [string, unknown])[]): string =>
    `{\n${entries.map(line).join(",\n")}\n}`;
  const answers = operations.flatMap(({ id, answer }) =>
    answer === undefined ? [] : [[id, answer] as const],
  );
  return `{"types": ${object(Object.entries(components))},\n"answers": ${object(answers)}}\n`;
}

function checked(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(checked);
  if (typeof schema !== "object" || schema === null) return schema;
  return Object.fromEntries(
    Object.entries(schema)
      .filter(([keyword]) => checkedKeywords.has(keyword))
      .map(([keyword, value]) => [
        keyword,
        keyword === "properties"
          ? Object.fromEntries(
              Object.entries(value as object).map(([name, member]) => [name, checked(member)]),
            )
          : keyword === "enum" || keyword === "const"
            ? (value as unknown)
            : checked(value),
      ]),
  );
}

const capital = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1);

const keywords = new Set(["from", "import", "in", "is", "class", "def", "pass", "global", "with", "not"]);
/** A name in the style of Python; one that is a keyword ends with an underscore. */
export function pythonName(name: string): string {
  const snake = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return keywords.has(snake) ? `${snake}_` : snake;
}

/** A parameter, with the choices of a literal one below the other where the line would be too long. */
function wrapLine(line: string, depth: number): string {
  const lead = indent.repeat(depth);
  if (lead.length + line.length <= maxColumns) return lead + line;
  const [, head, choices, tail] = /^(.*?Literal\[)([^\]]*)(\].*)$/.exec(line) ?? [];
  if (head === undefined || choices === undefined || tail === undefined) return lead + line;
  const rows = choices.split(", ").map((each) => `${lead}${indent}${each},`);
  return [lead + head, ...rows, lead + tail].join("\n");
}

export function wrapWords(text: string, columns: number): readonly string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(/\s+/)) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (longer.length > columns && line !== "") {
      lines.push(line);
      line = word;
    } else line = longer;
  }
  return [...lines, line];
}
