/** The API description as a Markdown page for people. Pure. */
import type { ApiDescription, ApiOperation, JsonSchema } from "./api-description.js";

const introduction = `# HTTP API

The server answers on its HTTP port and on a socket in its home. Commands use the same routes.

- Over the port every route but \`/v1/health\` needs the header \`Authorization: Bearer TOKEN\`; the token is in the file
  \`http-token\` of the server's home. The socket needs none: only the home's owner can open it.
- Bodies are JSON unless stated otherwise. A request body may be empty where all its members are optional.
- An error has a status of 400 or more and an [Error](#error) as body: match its \`code\`, never its text.
- Each answer has the header \`x-request-id\`: the id that logs and facts name the request by, which a client may choose
  ([operating.md](operating.md#follow-one-thing)).
- Objects may get further members in later versions; ignore those that you do not know.
- \`GET /openapi.json\` answers this description as OpenAPI 3.1.

This page is written by \`npm run http-api\` from the table of operations (\`server/interface/api/operation-table.ts\`).
`;

export function writeApiPage({ paths, components }: ApiDescription): string {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
  const tags = [...new Set(operations.flatMap(({ operation }) => operation.tags))];
  return [
    introduction,
    ...tags.flatMap((tag) => [
      `## ${tag}\n`,
      ...operations
        .filter(({ operation }) => operation.tags.includes(tag))
        .map(({ path, method, operation }) => writeOperation(path, method, operation)),
    ]),
    "## Objects\n",
    ...Object.entries(components.schemas).map(([name, schema]) => writeObject(name, schema)),
  ].join("\n");
}

function writeOperation(path: string, method: string, operation: ApiOperation): string {
  const { operationId, summary, description, parameters, requestBody, responses } = operation;
  const rows = [
    ...parameters.map((each) => ({
      name: each.name,
      where: each.in,
      type: typeOf(each.schema),
      required: each.required,
      meaning: each.description ?? "",
    })),
    ...bodyRows(requestBody),
  ];
  const types = Object.keys(requestBody?.content ?? {}).filter((type) => type !== "application/json");
  return [
    `### ${operationId}\n`,
    `\`${method.toUpperCase()} ${path}\`\n`,
    `${summary}.${description === undefined ? "" : ` ${description}`}\n`,
    ...(rows.length === 0 ? [] : [`${tableOf(rows)}\n`]),
    ...(types.length === 0 ? [] : [`Body: ${types.map((type) => `\`${type}\``).join(" or ")}.\n`]),
    `Answer: ${answerOf(responses)}.\n`,
  ].join("\n");
}

interface Row {
  readonly name: string;
  readonly where: string;
  readonly type: string;
  readonly required: boolean;
  readonly meaning: string;
}

function bodyRows(requestBody: ApiOperation["requestBody"]): readonly Row[] {
  const schema = requestBody?.content["application/json"]?.schema;
  return schema === undefined ? [] : membersOf(schema).map((member) => ({ ...member, where: "body" }));
}

function tableOf(rows: readonly Row[]): string {
  return [
    "| name | in | type | meaning |",
    "|---|---|---|---|",
    ...rows.map(
      ({ name, where, type, required, meaning }) =>
        `| \`${name}\`${required ? "" : " (optional)"} | ${where} | ${type} | ${cell(meaning)} |`,
    ),
  ].join("\n");
}

function answerOf(responses: ApiOperation["responses"]): string {
  return Object.entries(responses)
    .filter(([status]) => status !== "default")
    .map(([status, { content }]) => {
      const [type, body] = Object.entries(content ?? {})[0] ?? [];
      if (type === undefined || body === undefined) return `${status}, empty`;
      return type === "application/json"
        ? `${status}, ${typeOf(body.schema)}`
        : `${status}, \`${type}\`${type === "text/event-stream" ? ` of ${typeOf(body.schema)}` : ""}`;
    })
    .join("; ");
}

function writeObject(name: string, schema: JsonSchema): string {
  const members = membersOf(schema);
  const description = typeof schema["description"] === "string" ? `${schema["description"]}.\n` : "";
  const choices = alternativesOf(schema);
  const body =
    choices.length > 0
      ? choices.map((choice) => `- ${typeOf(choice)}${meaningOf(choice)}`).join("\n")
      : members.length === 0
        ? typeOf(schema)
        : [
            "| member | type | meaning |",
            "|---|---|---|",
            ...members.map(
              (each) =>
                `| \`${each.name}\`${each.required ? "" : " (optional)"} | ${each.type} | ${cell(each.meaning)} |`,
            ),
          ].join("\n");
  return `### ${name}\n\n${description === "" ? "" : `${description}\n`}${body}\n`;
}

function meaningOf({ description }: JsonSchema): string {
  return typeof description === "string" ? `: ${description}` : "";
}

function membersOf(schema: JsonSchema): readonly Omit<Row, "where">[] {
  const required = schema["required"] as readonly string[] | undefined;
  return Object.entries((schema["properties"] ?? {}) as Readonly<Record<string, JsonSchema>>).map(
    ([name, member]) => ({
      name,
      type: typeOf(member),
      required: required?.includes(name) ?? false,
      meaning: typeof member["description"] === "string" ? member["description"] : "",
    }),
  );
}

function alternativesOf(schema: JsonSchema): readonly JsonSchema[] {
  return (schema["oneOf"] ?? schema["anyOf"] ?? []) as readonly JsonSchema[];
}

/** Describes a schema's type in a few words, with links to the objects on the page. */
function typeOf(schema: JsonSchema): string {
  const reference = schema["$ref"];
  if (typeof reference === "string") {
    const name = reference.slice(reference.lastIndexOf("/") + 1);
    return `[${name}](#${name.toLowerCase()})`;
  }
  const alternatives = alternativesOf(schema);
  if (alternatives.length > 0) return alternatives.map(typeOf).join(" or ");
  if (schema["const"] !== undefined) return `\`${JSON.stringify(schema["const"])}\``;
  if (Array.isArray(schema["enum"]))
    return schema["enum"].map((value) => `\`${JSON.stringify(value)}\``).join(" or ");
  if (schema["type"] === "array") return `list of ${typeOf((schema["items"] ?? {}) as JsonSchema)}`;
  if (schema["type"] === "object") return typeOfObject(schema);
  return typeof schema["type"] === "string" ? `${schema["type"]}${boundsOf(schema)}` : "any JSON";
}

function typeOfObject(schema: JsonSchema): string {
  const members = membersOf(schema);
  if (members.length > 0)
    return `{ ${members.map(({ name, type, required }) => `${name}${required ? "" : "?"}: ${type}`).join(", ")} }`;
  const values = schema["additionalProperties"];
  return typeof values === "object" && values !== null
    ? `object of ${typeOf(values as JsonSchema)}`
    : "object";
}

/** A number's bounds as text. The bounds of safe integers, which every integer in JSON has, are left out. */
function boundsOf({ type, minimum, exclusiveMinimum, maximum }: JsonSchema): string {
  if (type !== "number" && type !== "integer") return "";
  const isBound = (value: unknown): value is number =>
    typeof value === "number" && Math.abs(value) !== Number.MAX_SAFE_INTEGER;
  const parts = [
    ...(isBound(minimum) && minimum !== 0 ? [`from ${minimum}`] : []),
    ...(isBound(exclusiveMinimum) ? [`above ${exclusiveMinimum}`] : []),
    ...(isBound(maximum) ? [`to ${maximum}`] : []),
  ];
  return parts.length === 0 ? "" : ` ${parts.join(" ")}`;
}

/** Escapes text for a table cell. */
function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("\n", " ");
}
