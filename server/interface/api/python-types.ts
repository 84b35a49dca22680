/** The data types of the API description as typed dicts of Python. Pure. */
import type { JsonSchema } from "./api-description.js";

type Members = Readonly<Record<string, JsonSchema>>;

/** Translates schemas to annotations, and collects a class for every object with named members. */
export class PythonTypes {
  /** Text of each class, in the order in which they were found. */
  readonly #classes = new Map<string, string>();
  /** Name of the class for a structure that several schemas have. */
  readonly #byStructure = new Map<string, string>();
  readonly #components: Members;

  constructor(components: Members) {
    this.#components = components;
    for (const [name, schema] of Object.entries(components))
      if (isObject(schema)) this.#byStructure.set(structureOf(schema), name);
    for (const [name, schema] of Object.entries(components))
      if (isObject(schema)) this.#addClass(name, schema);
      else this.#classes.set(name, aliasText(name, this.of(schema, `${name}Choice`)));
  }

  /** @param name of the class where the schema is an object that no class is for yet */
  of(schema: JsonSchema, name: string): string {
    const reference = schema["$ref"];
    if (typeof reference === "string") return reference.slice(reference.lastIndexOf("/") + 1);
    const choices = (schema["oneOf"] ?? schema["anyOf"]) as readonly JsonSchema[] | undefined;
    if (choices !== undefined)
      return union(choices.map((each, i) => this.of(each, isObject(each) ? `${name}${i + 1}` : name)));
    if (schema["const"] !== undefined) return literal([schema["const"]]);
    if (Array.isArray(schema["enum"])) return literal(schema["enum"]);
    if (Array.isArray(schema["type"]))
      return union(schema["type"].map((type: unknown) => this.of({ ...schema, type }, name)));
    return this.#plain(schema, name);
  }

  /** The names of classes and aliases that a text uses, sorted as ruff sorts imports. */
  used(text: string): readonly string[] {
    const words = new Set(text.match(/\b[A-Z]\w*/g));
    const order = (name: string): string => name.toLowerCase();
    return [...this.#classes.keys()]
      .filter((name) => words.has(name))
      .sort((a, b) => (order(a) < order(b) ? -1 : 1));
  }

  /** The module with all classes. */
  text(title: string): string {
    return `"""${title}"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from typing_extensions import NotRequired
${[...this.#classes.values()].map(separated).join("")}`;
  }

  #plain(schema: JsonSchema, name: string): string {
    switch (schema["type"]) {
      case "string":
        return "str";
      case "integer":
        return "int";
      case "number":
        return "float";
      case "boolean":
        return "bool";
      case "null":
        return "None";
      case "array":
        return `list[${this.of((schema["items"] ?? {}) as JsonSchema, `${name}Item`)}]`;
      case "object":
        return isObject(schema) ? this.#classOf(name, schema) : this.#dictOf(schema, name);
      default:
        return "Any";
    }
  }

  #dictOf({ additionalProperties: values }: JsonSchema, name: string): string {
    const isSchema = typeof values === "object" && values !== null;
    return `dict[str, ${isSchema ? this.of(values as JsonSchema, `${name}Value`) : "Any"}]`;
  }

  #classOf(name: string, schema: JsonSchema): string {
    const structure = structureOf(schema);
    const known = this.#byStructure.get(structure);
    if (known !== undefined) return known;
    let free = name;
    for (let i = 2; this.#classes.has(free) || free in this.#components; i++) free = `${name}${i}`;
    this.#byStructure.set(structure, free);
    this.#addClass(free, schema);
    return free;
  }

  #addClass(name: string, schema: JsonSchema): void {
    const required = (schema["required"] ?? []) as readonly string[];
    const members = Object.entries((schema["properties"] ?? {}) as Members).map(([member, each]) => {
      const type = this.of(each, name + member.charAt(0).toUpperCase() + member.slice(1));
      return { member, type: required.includes(member) ? type : `NotRequired[${type}]` };
    });
    this.#classes.set(
      name,
      members.every(({ member }) => isAttribute(member)) ? body(name, members) : called(name, members),
    );
  }
}

/** False for keywords of Python, and for names with other signs than letters, digits and underscores. */
const isAttribute = (member: string): boolean => /^[A-Za-z_]\w*$/.test(member) && !keywords.has(member);
const keywords: ReadonlySet<string> = new Set(
  (
    "False None True and as assert async await break class continue def del elif else except finally for from " +
    "global if import in is lambda nonlocal not or pass raise return try while with yield"
  ).split(" "),
);

interface Member {
  readonly member: string;
  readonly type: string;
}

function body(name: string, members: readonly Member[]): string {
  const lines = members.map(({ member, type }) => brokenLiteral(`    ${member}: ${type}`));
  return `class ${name}(TypedDict):\n${lines.join("\n")}`;
}

/** The form for members whose names cannot be those of attributes. */
function called(name: string, members: readonly Member[]): string {
  const lines = members.map(({ member, type }) => {
    const quoted = type.includes('"') ? `'${type}'` : `"${type}"`;
    return `        "${member}": ${quoted},`;
  });
  return `${name} = TypedDict(\n    "${name}",\n    {\n${lines.join("\n")}\n    },\n)`;
}

function aliasText(name: string, type: string): string {
  const line = `${name}: TypeAlias = ${type.includes('"') ? `'${type}'` : `"${type}"`}`;
  return line.length <= 120 ? line : `${name}: TypeAlias = (\n${aliasRows(type)}\n)`;
}

/** A long union as texts that Python joins. */
function aliasRows(type: string): string {
  const parts = type.split(" | ");
  return parts.map((part, i) => `    "${i === 0 ? "" : " | "}${part}"`).join("\n");
}

/** A member whose choices would not fit into a line has them one below the other. */
function brokenLiteral(line: string): string {
  if (line.length <= 120) return line;
  const [, head, choices, tail] = /^(.*?Literal\[)([^\]]*)(\].*)$/.exec(line) ?? [];
  if (head === undefined || choices === undefined || tail === undefined) return line;
  const isOptional = head.endsWith("NotRequired[Literal[");
  const lead = isOptional ? "        " : "    ";
  const rows = choices.split(", ").map((each) => `${lead}    ${each},`);
  return isOptional
    ? [
        head.slice(0, -"Literal[".length),
        `${lead}Literal[`,
        ...rows,
        `${lead}]`,
        `    ${tail.slice(1)}`,
      ].join("\n")
    : [head, ...rows, `    ${tail}`].join("\n");
}

/** Two empty lines around a class, none between aliases. */
function separated(text: string): string {
  return `\n\n${text}\n`;
}

const isObject = ({ type, properties }: JsonSchema): boolean =>
  type === "object" && Object.keys(properties ?? {}).length > 0;

const structureOf = (schema: JsonSchema): string =>
  JSON.stringify(schema, (keyword, value: unknown) =>
    keyword === "description" && typeof value === "string" ? undefined : value,
  );

function literal(values: readonly unknown[]): string {
  const texts = values.map((value) =>
    value === null ? "None" : value === true ? "True" : value === false ? "False" : JSON.stringify(value),
  );
  return `Literal[${texts.join(", ")}]`;
}

function union(types: readonly string[]): string {
  const all = [...new Set(types)];
  if (all.includes("Any")) return "Any";
  // Python compares None with everything: it stands last.
  return [...all.filter((type) => type !== "None"), ...all.filter((type) => type === "None")].join(" | ");
}
