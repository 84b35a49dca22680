/**
 * Commands as declarations: what they take, what they call, and how its answer is printed. Where a command calls an
 * operation, the operation's schema says of each of its members what kind it is, whether it must be there, and, where
 * the declaration does not, what it means.
 *
 * A text of an argument or option may begin with the form that the help shows: "<device>", "[models...]",
 * "<reason> kept with the fact". An option without one is a flag, unless its member is of another kind.
 */
import { resolve } from "node:path";
import { Argument, Option, type Command } from "commander";
import * as z from "zod";
import { appendValue } from "../../shared/cli/command-line.js";
import type { Answer, Column } from "../../shared/cli/output.js";
import { defined } from "../../shared/defined.js";
import { withoutOptional } from "../interface/api/fields.js";
import { definitionOfCall } from "../interface/api/operation-groups.js";
import type {
  CallName,
  CallOptions,
  CallOutput,
  OperationInput,
} from "../interface/api/server-operations.js";
import { withContext, type CommandContext } from "./context.js";
import { checkInput } from "./input-option.js";
import { wholeNumber } from "./whole-number.js";

/** An argument or option of which more is said than its text. */
interface Spec {
  readonly text?: string;
  /** The flags of an option, where they do not follow from its name in the declaration: "--no-story". */
  readonly flags?: string;
  /** Makes the value of a text; `before` is that of the same option earlier on the line. */
  readonly read?: (text: string, before: never) => unknown;
  readonly default?: unknown;
  /** The only values that an option may have. */
  readonly choices?: readonly string[];
  /** An option that must be there although the operation does without it. */
  readonly required?: true;
}
type Specs = Readonly<Record<string, string | Spec>>;

type InputOfCall<Name> = Name extends CallName ? OperationInput<Name> : Readonly<Record<never, never>>;
type TextOf<Given> = Given extends string ? Given : Given extends { readonly text: infer Text } ? Text : "";
type IsGiven<Given> = Given extends { readonly default: unknown } | { readonly required: true }
  ? true
  : false;
type Sure<Given, Value> = IsGiven<Given> extends true ? Exclude<Value, undefined> : Value | undefined;

type ArgumentValue<Input, Key, Given> = Given extends { readonly read: (...args: never) => infer Value }
  ? Value
  : Key extends keyof Input
    ? Input[Key]
    : TextOf<Given> extends `${"<" | "["}${infer Form}${">" | "]"}${string}`
      ? Form extends `${string}...`
        ? readonly string[]
        : TextOf<Given> extends `[${string}`
          ? string | undefined
          : string
      : string;
type OptionValue<Input, Key, Given> = Given extends { readonly read: (...args: never) => infer Value }
  ? Sure<Given, Value>
  : Given extends { readonly choices: readonly (infer Value)[] }
    ? Sure<Given, Value>
    : Key extends keyof Input
      ? Input[Key] extends boolean | undefined
        ? boolean
        : IsGiven<Given> extends true
          ? Exclude<Input[Key], undefined>
          : Input[Key]
      : TextOf<Given> extends `<${string}`
        ? Sure<Given, string>
        : boolean;

/** The values of the command line, by the names in the declaration. */
export type Choices<Input, Takes, Options> = {
  readonly [Key in keyof Takes]: ArgumentValue<Input, Key, Takes[Key]>;
} & { readonly [Key in keyof Options]: OptionValue<Input, Key, Options[Key]> };

export interface PlainContext extends CommandContext {
  readonly fleet: string;
  /** Calls an operation, on the fleet of the command line where it is of one. */
  readonly call: <Name extends CallName>(
    name: Name,
    input?: Omit<OperationInput<Name>, "fleet">,
  ) => Promise<CallOutput<Name>>;
}

/** The output of a command, and the status that it ends with. */
export interface Printed extends Omit<Answer, "data" | "table"> {
  /** The answer itself, where it is absent. */
  readonly data?: unknown;
  readonly table?: Answer<never>["table"];
  /** Lines for the person at the terminal. */
  readonly notes?: readonly string[];
  readonly status?: number;
}

interface Declaration<Name, Takes, Options, Result> {
  readonly name: string;
  readonly about?: string;
  readonly help?: string;
  readonly isHidden?: boolean;
  /** True if it is meant where the word above it is followed by none of the names. */
  readonly isDefault?: boolean;
  /** Arguments, in their order. */
  readonly takes?: Takes;
  readonly options?: Options;
  /** Members of the operation's input that are not on the command line as they are. */
  readonly input?: (
    choices: Choices<InputOfCall<Name>, Takes, Options>,
    context: PlainContext,
  ) => Partial<InputOfCall<Name>> | Promise<Partial<InputOfCall<Name>>>;
  /** Instead of the operation alone. */
  readonly run?: (
    choices: Choices<InputOfCall<Name>, Takes, Options>,
    context: PlainContext,
  ) => Promise<Result>;
  /** Makes the output of the answer; absent: `run` prints itself, or answers with what is to be printed. */
  readonly print?: (
    answer: Result,
    choices: Choices<InputOfCall<Name>, Takes, Options>,
    context: PlainContext,
  ) => Printed | Promise<Printed>;
}

/** A declared command; what it takes is known only to itself. */
export interface PlainCommand extends Declaration<CallName | null, Specs, Specs, never> {
  readonly operation: CallName | null;
}
/** An element of a list of commands; a function adds commands that say more than a declaration can. */
export type Listed = PlainCommand | PlainGroup | ((parent: Command) => void);
/** Commands below a word of their own. */
export interface PlainGroup {
  readonly name: string;
  readonly about: string;
  readonly help?: string;
  /** True if the help of the commands below it ends with that help too. */
  readonly helpsAll?: boolean;
  readonly commands: readonly Listed[];
}

type ResultOfCall<Name> = Name extends CallName ? CallOutput<Name> : undefined;

/** @param operation that the command calls; null: none, or several */
export function plain<
  const Name extends CallName | null,
  const Takes extends Specs = Record<never, never>,
  const Options extends Specs = Record<never, never>,
  Result = ResultOfCall<Name>,
>(operation: Name, declaration: Declaration<Name, Takes, Options, Result>): PlainCommand {
  // The types of what it takes are those of its own functions alone, which get nothing else.
  return { operation, ...declaration } as unknown as PlainCommand;
}

/** A list: the rows themselves as data, their names, and a table of them. */
export function listed<Row>(
  rows: readonly Row[],
  {
    nameOf,
    text,
    ...table
  }: {
    readonly nameOf: (row: Row) => string;
    readonly columns: readonly Column<Row>[];
    readonly empty?: string;
    readonly text?: string;
  },
): Printed {
  return {
    data: rows,
    names: rows.map(nameOf),
    ...defined({ text }),
    table: { rows, ...table } as unknown as NonNullable<Printed["table"]>,
  };
}

/** Reads the path of a file or folder on the machine of the command line. */
export function pathOf(text: string): string {
  return resolve(text);
}

/** A repeatable option of texts. */
export function repeated<const Text extends string>(
  text: Text,
): { readonly text: Text; readonly read: typeof appendValue; readonly default: string[] } {
  return { text, read: appendValue, default: [] };
}

export async function addPlainCommands(parent: Command, commands: readonly Listed[]): Promise<void> {
  for (const each of commands)
    if (typeof each === "function") each(parent);
    else if ("commands" in each) {
      const group = parent.command(each.name).description(each.about);
      if (each.help !== undefined)
        group.addHelpText(each.helpsAll === true ? "afterAll" : "after", each.help);
      await addPlainCommands(group, each.commands);
    } else {
      const { name, isHidden = false, isDefault = false } = each;
      await definePlainCommand(parent.command(name, { hidden: isHidden, isDefault }), each);
    }
}

/** Completes a command that is there already. */
export async function definePlainCommand(command: Command, declaration: PlainCommand): Promise<void> {
  const { operation, about, help, takes = {}, options = {} } = declaration;
  const members = operation === null ? {} : membersOf(await definitionOfCall(operation));
  for (const [key, spec] of Object.entries(takes)) command.addArgument(argumentOf(key, spec, members[key]));
  const made = Object.entries(options).map(
    ([key, spec]) => [key, optionOf(key, spec, members[key])] as const,
  );
  for (const [, option] of made) command.addOption(option);
  if (about !== undefined) command.description(about);
  if (help !== undefined) command.addHelpText("after", help);
  command.action(async () => {
    const values = command.opts<Record<string, unknown>>();
    const choices = given([
      ...Object.keys(takes).map((key, i) => [key, command.processedArgs[i] as unknown] as const),
      ...made.map(([key, option]) => [key, values[option.attributeName()]] as const),
    ]);
    await withContext(command, (context) => runPlain(declaration, { choices, members }, context));
  });
}

/** Members that have a value: an operation takes its own default for others only where they are absent. */
export function given<Value>(entries: Iterable<readonly [string, Value]>): Record<string, Value> {
  return Object.fromEntries([...entries].filter(([, value]) => value !== undefined));
}

type Members = Readonly<Record<string, z.ZodType>>;

function membersOf({
  params,
  query,
  body,
}: Awaited<ReturnType<typeof definitionOfCall>>): Readonly<Record<string, z.ZodType>> {
  return { ...params.shape, ...query.shape, ...body.shape };
}

interface Asked {
  readonly choices: Readonly<Record<string, unknown>>;
  readonly members: Members;
}

async function runPlain(
  { operation, input, run, print }: PlainCommand,
  { choices, members }: Asked,
  shared: CommandContext,
): Promise<void> {
  const { output } = shared;
  const context = { ...shared, fleet: shared.options.fleet, call: callOn(shared) };
  const known = choices as Choices<never, Specs, Specs>;
  // Arguments of which there is none are absent, and not an empty list.
  const isNone = (value: unknown): boolean => Array.isArray(value) && value.length === 0;
  const asked = {
    ...Object.fromEntries(Object.entries(choices).filter(([key, value]) => key in members && !isNone(value))),
    ...(await input?.(known, context)),
  };
  const answer: unknown = await (run !== undefined
    ? run(known, context)
    : operation === null
      ? undefined
      : callOn(shared)(operation, asked as never));
  const printed =
    print === undefined ? (answer as Printed | undefined) : await print(answer as never, known, context);
  if (printed === undefined) return;
  const { notes = [], status, ...shown } = printed;
  if (status !== undefined) process.exitCode = status;
  output.print({ data: answer, ...shown } as unknown as Answer);
  for (const note of notes) output.info(note);
}

/** A method that calls any operation, on the fleet of the command line. */
function callOn({ operations, options, signal }: CommandContext): PlainContext["call"] {
  return async (name, input) => {
    const { fleet } = membersOf(await definitionOfCall(name));
    const method = (await operations())[name] as unknown as (
      input: object,
      options: CallOptions,
    ) => Promise<never>;
    const ofFleet = fleet === undefined ? {} : { fleet: options.fleet };
    return await method({ ...ofFleet, ...given(Object.entries(input ?? {})) }, { signal });
  };
}

/** "<reason> kept with the fact" as its two parts, of which the first may be absent. */
function partsOf(spec: string | Spec): Spec & { readonly form: string; readonly about: string } {
  const given = typeof spec === "string" ? { text: spec } : spec;
  const [, form = "", about = ""] = /^(<[^>]*>|\[[^\]]*\])?\s*([^]*)$/.exec(given.text ?? "") ?? [];
  return { ...given, form, about };
}

function argumentOf(key: string, spec: string | Spec, schema: z.ZodType | undefined): Argument {
  const { form, about, read, default: value } = partsOf(spec);
  const inner = schema && withoutOptional(schema);
  const name = inner instanceof z.ZodArray ? `${key}...` : key;
  const argument = new Argument(form || (inner === schema ? `<${name}>` : `[${name}]`), about);
  if (read !== undefined) argument.argParser(read as (text: string) => unknown);
  return value === undefined ? argument : argument.default(value);
}

function optionOf(key: string, spec: string | Spec, schema: z.ZodType | undefined): Option {
  const parts = partsOf(spec);
  const inner = schema && withoutOptional(schema);
  const about = parts.about || (schema?.description ?? "");
  const kebab = `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
  if (inner instanceof z.ZodBoolean || (inner === undefined && parts.form === "")) {
    const flag = new Option(parts.flags ?? kebab, about);
    return flag.negate ? flag : flag.default("default" in parts ? parts.default : false);
  }
  const form = parts.form || (inner instanceof z.ZodNumber ? "<n>" : "<text>");
  const option = new Option(parts.flags ?? `${kebab} ${form}`, about);
  if (parts.read !== undefined) option.argParser(parts.read as (text: string) => unknown);
  else if (parts.choices !== undefined) option.choices(parts.choices);
  else if (inner instanceof z.ZodEnum) option.choices(inner.options.map(String));
  else if (schema !== undefined) option.argParser(readerOf(option.long ?? kebab, schema));
  if (parts.default !== undefined) option.default(parts.default);
  const isRequired = schema !== undefined && inner === schema && parts.default === undefined;
  return parts.required === true || isRequired ? option.makeOptionMandatory() : option;
}

/** @returns what makes a member's value of its text, and checks it. @throws USAGE */
function readerOf(name: string, schema: z.ZodType): (text: string) => unknown {
  const inner = withoutOptional(schema);
  const read = (text: string): unknown => {
    if (inner instanceof z.ZodArray) return text.split(",").map((each) => each.trim());
    if (!(inner instanceof z.ZodNumber)) return text;
    return inner.isInt ? wholeNumber(name, text) : text.trim() === "" ? text : Number(text);
  };
  return (text) => checkInput({ name, text, schema, read });
}
