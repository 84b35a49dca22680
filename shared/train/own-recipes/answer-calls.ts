/** The other end of recipe-process.ts: answers calls, one line each, in a process that has nothing else. */
import { createInterface } from "node:readline";
import { Streams } from "../../random/streams.js";
import { isStemmaError } from "../../errors.js";
import { messageOf } from "../../error-text.js";
import { interpret } from "./interpreter.js";
import type { RecipeReply, RecipeRequest } from "./recipe-process.js";

/** Answers calls from `input` until it ends. */
export async function answerCalls(
  input: NodeJS.ReadableStream,
  output: NodeJS.WritableStream,
): Promise<void> {
  for await (const line of createInterface({ input, crlfDelay: Infinity }))
    output.write(`${JSON.stringify(await answer(JSON.parse(line) as RecipeRequest))}\n`);
}

async function answer({ seed, invocation, counts, ...request }: RecipeRequest): Promise<RecipeReply> {
  try {
    const streams = new Streams(seed, invocation);
    streams.restore(counts);
    return { answer: await interpret({ ...request, streams }), counts: streams.counts() };
  } catch (error) {
    const code = isStemmaError(error, "RECIPE_INVALID") ? "RECIPE_INVALID" : "RECIPE_FAILED";
    return { error: { code, message: messageOf(error) } };
  }
}
