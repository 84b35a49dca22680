/**
 * Named servers, so that commands need not name one each time: `contexts.json` in the user's configuration folder, for
 * its owner alone, since it has tokens. A command that names a server or a home itself uses no context.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { userFolder } from "../../shared/adapters/user-folder.js";
import { StemmaError } from "../../shared/errors.js";

export interface NamedServer {
  /** The server's URL. */
  readonly server: string;
  readonly token?: string;
  /** PEM of the authority that its certificate is judged by. */
  readonly authority?: string;
  /** The fleet of commands that name none. */
  readonly fleet?: string;
}

export interface Contexts {
  readonly format: 1;
  /** The one that commands use which name none. */
  readonly current?: string;
  readonly contexts: Readonly<Record<string, NamedServer>>;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** The path of the file; undefined where the user has no folder for settings, and so no contexts. */
export function contextsPath(environment: Environment = process.env): string | undefined {
  const configured = environment["XDG_CONFIG_HOME"] ?? "";
  const own = userFolder();
  const folder = configured !== "" ? configured : own && join(own, ".config");
  return folder && join(folder, "stemma", "contexts.json");
}

/** @throws USAGE where the user has no folder for settings */
export function requireContextsPath(): string {
  const path = contextsPath();
  if (path !== undefined) return path;
  throw new StemmaError(
    "USAGE",
    "This user has no folder for remembered servers (HOME is not set). Set XDG_CONFIG_HOME to one, or name the server with --server.",
  );
}

/** None where there is no file. @throws CONFIG_INVALID */
export function readContexts(path = contextsPath()): Contexts {
  if (path === undefined) return { format: 1, contexts: {} };
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return { format: 1, contexts: {} };
    throw damaged(path, (error as Error).message);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw damaged(path, "it is not JSON");
  }
  if (isContexts(value)) return value;
  throw damaged(path, "it has not the form that `stemma context add` writes");
}

/** Checked by hand: every command reads the file, and a schema takes longer to build than a short command to run. */
function isContexts(value: unknown): value is Contexts {
  const isObject = (each: unknown): each is Readonly<Record<string, unknown>> =>
    typeof each === "object" && each !== null && !Array.isArray(each);
  const isText = (each: unknown): boolean => each === undefined || typeof each === "string";
  return (
    isObject(value) &&
    value["format"] === 1 &&
    isText(value["current"]) &&
    isObject(value["contexts"]) &&
    Object.values(value["contexts"]).every(
      (each) =>
        isObject(each) &&
        typeof each["server"] === "string" &&
        isText(each["token"]) &&
        isText(each["authority"]) &&
        isText(each["fleet"]),
    )
  );
}

/**
 * The context of this name.
 * @throws NOT_FOUND
 */
export function contextNamed({ contexts }: Contexts, name: string): NamedServer {
  const found = Object.hasOwn(contexts, name) ? contexts[name] : undefined;
  if (found !== undefined) return found;
  const known = Object.keys(contexts).join(", ");
  throw new StemmaError(
    "NOT_FOUND",
    `There is no context "${name}"${known === "" ? "" : ` (there are ${known})`}. Add it with ` +
      `\`stemma context add ${name} --at URL\`.`,
    { name },
  );
}

function damaged(path: string, why: string): StemmaError {
  return new StemmaError(
    "CONFIG_INVALID",
    `${path} cannot be used: ${why}. Put it right or remove it, and add the contexts again with \`stemma context add\`.`,
    { path },
  );
}
