/**
 * Runs a recipe's own code in an interpreter (QuickJS, compiled to WebAssembly). It has neither files nor network,
 * clock or anything else of its host, and computes the same on every machine: its Math is part of the WebAssembly. Its
 * memory is limited, and so is its work, which is counted and not timed. Runs in the process of recipe-process.ts, so
 * that a fault of the interpreter would still lead to nothing. Part of the engine.
 */
import quickjs from "@jitl/quickjs-singlefile-mjs-release-sync";
import {
  newQuickJSWASMModuleFromVariant,
  type QuickJSContext,
  type QuickJSRuntime,
  type QuickJSWASMModule,
} from "quickjs-emscripten-core";
import { StemmaError } from "../../errors.js";
import type { Streams } from "../../random/streams.js";
import { invalidRecipe, recipeModule } from "./bundle.js";
import type { RecipeCall } from "./description.js";
import { callerSource, moduleSource, prelude } from "./realm.js";

const memoryBytes = 256 * 1024 * 1024;
/** Small enough that the interpreter's own limit is reached before that of the machine. */
const stackBytes = 128 * 1024;
/** The interpreter reports about every 10,000 steps; these are some seconds of work. */
const maxReports = 20_000;
const maxAnswerCharacters = 32 * 1024 * 1024;
const maxDraws = 2 ** 26;

const ownModule = "stemma:own";
const callerModule = "stemma:caller";

export interface InterpreterCall {
  readonly source: string;
  readonly call: RecipeCall;
  /** The input of the recipe's function. */
  readonly input: unknown;
  readonly streams: Streams;
}

/** Names of the streams that a recipe draws from begin with this, so that none is one of the engine. */
export const ownStream = (name: string): string => `recipe/${name}`;

let loading: Promise<QuickJSWASMModule> | undefined;

/**
 * Runs the recipe's function and returns its answer, not checked yet.
 * @throws RECIPE_INVALID where it cannot be loaded, RECIPE_FAILED where its code throws or exceeds a limit
 */
export async function interpret(request: InterpreterCall): Promise<unknown> {
  loading ??= newQuickJSWASMModuleFromVariant(quickjs);
  const runtime = (await loading).newRuntime();
  let reports = 0;
  runtime.setMemoryLimit(memoryBytes);
  runtime.setMaxStackSize(stackBytes);
  runtime.setInterruptHandler(() => ++reports > maxReports);
  loadModules(runtime, request.source);
  const context = runtime.newContext({ intrinsics });
  // Contexts are not disposed one by one: a recipe that ran out of memory leaves what cannot be freed in order, and
  // the process ends after its few calls.
  defineInput(context, request);
  evaluate(context, prelude, "prelude", "global");
  const answer = evaluate(context, callerSource, callerModule, "module");
  const json = context.getProp(answer as Parameters<QuickJSContext["getProp"]>[0], "json");
  const text: unknown = context.dump(json);
  if (typeof text !== "string")
    throw invalidRecipe(`${request.call} gave nothing that can be written as JSON`);
  if (text.length > maxAnswerCharacters)
    throw failed(`its answer has ${text.length} characters, and may have ${maxAnswerCharacters}`);
  return JSON.parse(text);
}

/**
 * The intrinsics of the language, without Date and Proxy. Eval is what the host evaluates with; the prelude
 * removes it from the recipe.
 */
const intrinsics = {
  BaseObjects: true,
  Eval: true,
  Date: false,
  StringNormalize: false,
  RegExp: true,
  JSON: true,
  Proxy: false,
  MapSet: true,
  TypedArrays: true,
  Promise: true,
  BigInt: true,
};

function loadModules(runtime: QuickJSRuntime, source: string): void {
  runtime.setModuleLoader(
    (name) => {
      if (name === recipeModule) return moduleSource;
      if (name === ownModule) return source;
      return {
        error: new Error(
          `it imports ${JSON.stringify(name.slice(0, 80))}; a recipe only has ${recipeModule}`,
        ),
      };
    },
    (_, name) => name,
  );
}

function defineInput(context: QuickJSContext, { call, input, streams }: InterpreterCall): void {
  let draws = 0;
  const draw = context.newFunction("draw", (name, kind, argument) => {
    if (++draws > maxDraws) throw new RangeError(`a recipe draws at most ${maxDraws} random numbers`);
    const stream = streams.stream(ownStream(context.getString(name).slice(0, 100)));
    switch (context.getString(kind)) {
      case "word":
        return context.newNumber(stream.word());
      case "uniform":
        return context.newNumber(stream.uniform());
      case "normal":
        return context.newNumber(stream.normal());
      default:
        return context.newNumber(stream.integer(context.getNumber(argument)));
    }
  });
  context.setProp(context.global, "__stemma", draw);
  const parsed = context.unwrapResult(
    context.evalCode(`(${JSON.stringify({ call, input })})`, "input", { type: "global" }),
  );
  context.setProp(context.global, "__call", parsed);
}

function evaluate(context: QuickJSContext, source: string, name: string, type: "global" | "module"): unknown {
  const result = context.evalCode(source, name, { type });
  if (result.error === undefined) return result.value;
  const thrown: unknown = context.dump(result.error);
  const {
    name: kind,
    message,
    stack,
  } = (typeof thrown === "object" ? thrown : {}) as Record<string, unknown>;
  const text = String(message ?? thrown).slice(0, 300);
  if (kind === "InternalError" && text === "interrupted") throw failed("it worked longer than a recipe may");
  if (text === "out of memory") throw failed(`it needs more than ${memoryBytes / 2 ** 20} MiB of memory`);
  const line = /stemma:own:(\d+)/.exec(String(stack))?.[1];
  throw failed(
    `${(typeof kind === "string" ? kind : "Error").slice(0, 40)}: ${text}${line === undefined ? "" : ` (line ${line})`}`,
  );
}

function failed(reason: string): StemmaError<"RECIPE_FAILED"> {
  return new StemmaError(
    "RECIPE_FAILED",
    `The recipe's own code failed: ${reason}. Correct it and run \`stemma recipe check\`.`,
  );
}
