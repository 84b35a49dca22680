/**
 * Calls a recipe's own code in a process of its own, which is confined by the command that starts it (confinement.ts).
 * Each call is one line of JSON and so is its answer; each is made in a new interpreter. The process ends with the
 * caller, after too long a silence, or with the first answer that is too long. Used by the engine, and by commands that
 * only look at a recipe.
 */
import { spawn } from "node:child_process";
import { StemmaError } from "../../errors.js";
import { checkAnswer, type RecipeCall } from "./description.js";

/** The command that starts the process: a program and its arguments, which let the engine answer calls. */
export type RecipeCommand = readonly [string, ...string[]];

/** Random streams of the recipe: what has been drawn from each. */
export type Counts = Readonly<Record<string, number>>;

export interface RecipeRequest {
  readonly source: string;
  readonly call: RecipeCall;
  readonly input: unknown;
  readonly seed: string;
  readonly invocation: number;
  readonly counts: Counts;
}

export type RecipeReply =
  | { readonly answer: unknown; readonly counts: Counts }
  | { readonly error: { readonly code: "RECIPE_INVALID" | "RECIPE_FAILED"; readonly message: string } };

/** The answer of a call, checked. */
export interface Answered<Call extends RecipeCall> {
  readonly answer: ReturnType<typeof checkAnswer<Call>>;
  readonly counts: Counts;
}

/** Work is limited by counting; this is for a process that hangs. */
const timeoutMs = 30 * 60_000;
const maxReplyBytes = 64 * 1024 * 1024;

/** @throws RECIPE_INVALID, RECIPE_FAILED, CONFINEMENT_FAILED where the process could not be started */
export async function callRecipe<Call extends RecipeCall>(
  command: RecipeCommand,
  request: RecipeRequest & { readonly call: Call },
): Promise<Answered<Call>> {
  const reply = parseReply(await exchange(command, `${JSON.stringify(request)}\n`));
  if ("error" in reply)
    throw new StemmaError(
      reply.error.code === "RECIPE_INVALID" ? "RECIPE_INVALID" : "RECIPE_FAILED",
      String(reply.error.message).slice(0, 1000),
    );
  return {
    answer: checkAnswer<Call>(request.call, reply.answer),
    counts: checkCounts(reply.counts),
  };
}

async function exchange([program, ...parameters]: RecipeCommand, line: string): Promise<string> {
  const child = spawn(program, parameters, { cwd: "/", env: {}, stdio: ["pipe", "pipe", "pipe"] });
  const timer = setTimeout(() => child.kill("SIGKILL"), timeoutMs);
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr = (stderr + text).slice(-2000);
  });
  // A process that ends before it has read everything is told by its exit.
  child.stdin.on("error", () => undefined).write(line);
  try {
    return await new Promise<string>((resolve, reject) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      child.stdout.on("data", (chunk: Buffer) => {
        chunks.push(chunk);
        bytes += chunk.length;
        if (bytes > maxReplyBytes) child.kill("SIGKILL");
        else if (chunk.at(-1) === 10) resolve(Buffer.concat(chunks).toString("utf8"));
      });
      child.once("error", (cause) => {
        reject(notStarted(program, cause.message));
      });
      child.once("close", (code, signal) => {
        if (signal === null && bytes === 0) reject(notStarted(program, stderr.trim().slice(-400)));
        else
          reject(
            new StemmaError(
              "RECIPE_FAILED",
              `The recipe's own code was ended (${signal ?? `status ${code}`}): it took longer than ` +
                `${timeoutMs / 60_000} minutes, or more memory or output than it may. Correct it and run \`stemma recipe check\`.`,
            ),
          );
      });
    });
  } finally {
    clearTimeout(timer);
    child.kill("SIGKILL");
  }
}

function notStarted(program: string, why: string): StemmaError {
  return new StemmaError(
    "CONFINEMENT_FAILED",
    `The confined process for a recipe's own code could not be started with ${program}: ${why}. ` +
      "`stemma doctor` says what this machine can do.",
  );
}

function parseReply(text: string): RecipeReply {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && ("answer" in value || "error" in value))
      return value as RecipeReply;
  } catch {
    /* refused below */
  }
  throw new StemmaError(
    "RECIPE_FAILED",
    "The process of the recipe's own code answered something that is not an answer. Run `stemma recipe check`.",
  );
}

const streamName = /^recipe\/.{0,100}$/s;

function checkCounts(counts: unknown): Counts {
  const entries = Object.entries((counts ?? {}) as Record<string, unknown>);
  const isSound = entries.every(
    ([name, count]) => streamName.test(name) && Number.isSafeInteger(count) && (count as number) >= 0,
  );
  if (isSound && entries.length <= 1000) return Object.fromEntries(entries) as Counts;
  throw new StemmaError(
    "RECIPE_FAILED",
    "The recipe's own code drew from more than 1000 random streams, or its counts are not sound. Use fewer streams.",
  );
}
