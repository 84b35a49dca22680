/** The reference pages document every setting, parameter, variable, metric and error code. */
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import * as z from "zod";
import { configSchema, parseConfig } from "../../../agent/settings/config.js";
import { profileSchema } from "../../../agent/settings/profile.js";
import {
  parseServerFile,
  serverFileJsonSchema,
} from "../../../server/operations/configuration/config-file.js";
import { isErrorCode, StemmaError } from "../../../shared/errors.js";
import { listRecipes } from "../../../shared/train/recipes/registry.js";
import { anchorsOf, codeBlocksOf, markdownPages, readPage, repositoryRoot } from "../../helpers/markdown.js";

interface JsonSchema {
  readonly description?: string;
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly additionalProperties?: JsonSchema | boolean;
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
}
interface Setting {
  readonly path: string;
  readonly schema: JsonSchema;
}

/** Settings below a schema, by dotted path; the members of a map's entries have no prefix. */
function settingsOf(schema: JsonSchema, prefix = ""): readonly Setting[] {
  const { properties = {}, additionalProperties: entry, anyOf = [], oneOf = [] } = schema;
  const settings = [
    ...Object.entries(properties).flatMap(([name, member]) => [
      { path: `${prefix}${name}`, schema: member },
      ...settingsOf(member, `${prefix}${name}.`),
    ]),
    ...(typeof entry === "object" ? settingsOf(entry) : []),
    ...[...anyOf, ...oneOf].flatMap((alternative) => settingsOf(alternative, prefix)),
  ];
  return [...new Map(settings.map((setting) => [setting.path, setting])).values()];
}

const settingsOfZod = (schema: z.ZodType): readonly Setting[] =>
  settingsOf(z.toJSONSchema(schema, { io: "input" }) as JsonSchema);

const read = (path: string): string => readFileSync(join(repositoryRoot, path), "utf8");
const sources = ["agent", "server", "shared", "launcher", "test"].flatMap((folder) =>
  readdirSync(join(repositoryRoot, folder), { recursive: true, encoding: "utf8" })
    .map((name) => join(folder, name))
    .filter((name) => /\.(ts|mjs|proto)$/.test(name) && !/^test\/vectors|generated\//.test(name)),
);

/** All matches of a pattern in the source files. */
function foundInSources(pattern: RegExp): readonly string[] {
  return [...new Set(sources.flatMap((path) => read(path).match(pattern) ?? []))];
}

test("every field of agent.json is documented", () => {
  const page = readPage("docs/reference/agent.md");
  const paths = settingsOfZod(configSchema).map(({ path }) => path);
  assert.ok(paths.includes("watchSeconds") && paths.includes("dataset.reader"), paths.join(" "));
  assert.deepEqual(
    paths.filter((path) => path !== "schedule" && !page.includes(`\`${path}\``)),
    [],
  );
});

test("every field of a profile is documented", () => {
  const page = readPage("docs/reference/profiles.md");
  const fields = settingsOfZod(profileSchema)
    .filter(({ path, schema }) => settingsOf(schema).length === 0 && !/\.(from|to)$/.test(path))
    .map(({ path }) => path.split(".").at(-1) ?? "");
  assert.ok(fields.includes("keepLast"));
  assert.deepEqual(
    fields.filter((field) => !page.includes(`${field}\``)),
    [],
  );
});

test("every recipe and parameter is documented", () => {
  const page = readPage("docs/reference/recipes.md");
  const names = listRecipes().flatMap(({ name, parameters }) => [name, ...Object.keys(parameters)]);
  assert.deepEqual(
    names.filter((name) => !page.includes(`| \`${name}\` |`)),
    [],
  );
});

test("every error code is documented with its exit status, and no other", () => {
  const rows = [...readPage("docs/reference/errors.md").matchAll(/^\| `([A-Z_]+)` \| (\d+) \|/gm)];
  for (const [, code = "", status] of rows) {
    assert.ok(isErrorCode(code), `${code} does not exist`);
    assert.equal(new StemmaError(code, "").exitStatus, Number(status), code);
  }
  const documented = new Set(rows.map(([, code]) => code));
  const defined = [...read("shared/errors.ts").matchAll(/\b([A-Z][A-Z_]+): \w+,?/g)].map(([, code]) => code);
  assert.ok(defined.length > 100);
  assert.deepEqual(
    defined.filter((code) => !documented.has(code)),
    [],
  );
});

test("every environment variable is documented", () => {
  const pages = readPage("docs/reference/command-line.md") + readPage("CONTRIBUTING.md");
  const variables = foundInSources(/\bSTEMMA_[A-Z_]*[A-Z]\b/g);
  assert.ok(variables.includes("STEMMA_HOME"));
  assert.deepEqual(
    variables.filter((name) => !pages.includes(`\`${name}\``)),
    [],
  );
});

test("every metric is documented", () => {
  const page = readPage("docs/operating.md");
  const metrics = (read("server/metrics.ts").match(/"stemma_[a-z_]*[a-z]"/g) ?? []).map((name) =>
    name.slice(1, -1),
  );
  assert.ok(metrics.length > 8);
  assert.deepEqual(
    metrics.filter((name) => !page.includes(`\`${name}\``)),
    [],
  );
});

/** STEMMA_TEST_WRITE_DOCS=1 writes the table instead of comparing it. */
test("the table of server.json is that of its schema", () => {
  const path = "docs/reference/server-json.md";
  const begin = "<!-- table of the schema -->\n";
  const page = readPage(path);
  const from = page.indexOf(begin) + begin.length;
  const to = page.indexOf("<!-- end of the table -->");
  assert.ok(from >= begin.length && to >= from);
  const rows = settingsOf(serverFileJsonSchema() as JsonSchema).map(({ path: key, schema }) => {
    const value = schema.default === undefined ? "" : `\`${JSON.stringify(schema.default)}\``;
    return `| \`${key}\` | ${value} | ${(schema.description ?? "").replaceAll("|", "\\|")} |\n`;
  });
  const table = `\n| key | default | meaning |\n|---|---|---|\n${rows.join("")}\n`;
  if (process.env["STEMMA_TEST_WRITE_DOCS"] === "1")
    writeFileSync(join(repositoryRoot, path), page.slice(0, from) + table + page.slice(to));
  else
    assert.equal(
      page.slice(from, to),
      table,
      "The schema has changed: run this test with STEMMA_TEST_WRITE_DOCS=1 and check the page.",
    );
});

test("every citation of a paper in the source is explained", () => {
  const page = readPage("docs/papers.md");
  const citations = foundInSources(/\b(?:MM|ME|MH|EV|CH)[0-9]+\b/g);
  assert.ok(citations.includes("MM7"));
  assert.deepEqual(
    citations.filter((citation) => !page.includes(`| ${citation} |`)),
    [],
  );
});

test("the examples of settings are valid", () => {
  const examplesOf = (page: string): readonly string[] =>
    codeBlocksOf(readPage(page))
      .filter(({ info }) => info.startsWith("json"))
      .map(({ text }) => text);
  const agent = [
    read("examples/agent.json"),
    ...examplesOf("docs/reference/agent.md"),
    ...examplesOf("docs/getting-started.md"),
  ];
  const server = [read("examples/server.json"), ...examplesOf("docs/reference/server-json.md")];
  assert.ok(agent.length > 2 && server.length > 1);
  for (const text of agent) parseConfig(JSON.parse(text), "the example");
  for (const text of server) parseServerFile(new TextEncoder().encode(text), "the example");
});

test("every page and section that a comment cites exists", () => {
  const citation = /\bdocs\/([\w./-]+\.md)(?:,?\s+(?:\*\s+)?"([^"]+)")?/g;
  const missing = sources
    .filter((path) => !path.startsWith("test/unit/docs/"))
    .flatMap((path) =>
      [...read(path).matchAll(citation)].flatMap(([, page = "", section]) => {
        if (!existsSync(join(repositoryRoot, "docs", page))) return [`${path}: docs/${page}`];
        if (section === undefined || /[(){}]/.test(section)) return [];
        const title = section.replace(/\s+(?:\*\s+)?/g, " ");
        const text = readPage(`docs/${page}`);
        const isHeading = anchorsOf(text).has(title.toLowerCase().replaceAll(" ", "-"));
        const isTerm = text.includes(`**${title}**`) || text.includes(`| ${title} |`);
        return isHeading || isTerm ? [] : [`${path}: docs/${page}, "${title}"`];
      }),
    );
  assert.deepEqual(missing, []);
});

test("every file that a page names exists", () => {
  const path = /`((?:agent|server|shared|test|launcher|examples|firmware-profiles)\/[\w./-]+)`/g;
  const missing = markdownPages().flatMap((page) =>
    [...readPage(page).matchAll(path)].flatMap(([, name = ""]) =>
      existsSync(join(repositoryRoot, name)) ? [] : [`${page}: ${name}`],
    ),
  );
  assert.deepEqual(missing, []);
});

test("source comments cite pages of this repository only", () => {
  const citing = sources.filter(
    (path) => !path.startsWith("test/unit/docs/") && /\b(?:FORMATS|DESIGN|CONVENTIONS)\b/.test(read(path)),
  );
  assert.deepEqual(citing, []);
});
