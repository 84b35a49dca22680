/** Command options that the table of operations (server/interface/api) checks. */
import { Option } from "commander";
import * as z from "zod";
import { StemmaError } from "../../shared/errors.js";
import { withoutOptional } from "../interface/api/fields.js";

/**
 * An option whose value is a member of an operation's input. Its text is converted to that member's type and
 * checked by the member's schema, whose description is also the option's in the help.
 * @param read converts the text, where the value is neither a text nor a plain number
 * @throws USAGE while the command line is parsed, where the schema refuses the value
 */
export function inputOption(
  flags: string,
  schema: z.ZodType,
  description = schema.description ?? "",
  read: (text: string) => unknown = (text) => valueOf(schema, text),
): Option {
  const name = flags.split(/[ ,]/)[0] ?? flags;
  return new Option(flags, describeChoices(schema, description)).argParser((text: string) =>
    checkInput({ name, text, schema, read }),
  );
}

/** Reads the text of an option as a member whose schema this is. */
export function readBy<Schema extends z.ZodType>(
  name: string,
  schema: Schema,
): (text: string) => z.output<Schema> {
  return (text) =>
    checkInput({ name, text, schema, read: (each) => valueOf(schema, each) }) as z.output<Schema>;
}

interface OptionText {
  /** The option, such as --limit. */
  readonly name: string;
  readonly text: string;
  readonly schema: z.ZodType;
  readonly read: (text: string) => unknown;
}

/** The value of an option's text. @throws USAGE where the schema refuses it */
export function checkInput({ name, text, schema, read }: OptionText): unknown {
  const checked = schema.safeParse(read(text));
  if (checked.success) return checked.data;
  const reason = checked.error.issues[0]?.message ?? "invalid";
  throw new StemmaError("USAGE", `${name} ${text} is not valid: ${reason}. See --help for what it takes.`);
}

function valueOf(schema: z.ZodType, text: string): unknown {
  return isNumber(schema) && text.trim() !== "" ? Number(text) : text;
}

function describeChoices(schema: z.ZodType, description: string): string {
  const inner = withoutOptional(schema);
  const namesAll =
    inner instanceof z.ZodEnum && inner.options.every((each) => description.includes(String(each)));
  return inner instanceof z.ZodEnum && !namesAll
    ? `${description}: ${inner.options.join(", ")}`
    : description;
}

function isNumber(schema: z.ZodType): boolean {
  return withoutOptional(schema) instanceof z.ZodNumber;
}
