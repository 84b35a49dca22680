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
import { fuelExport, meteredWasm } from "./metered-wasm.js";
import { callerSource, moduleSource, prelude } from "./realm.js";
import { expressionSource } from "./realm-expressions.js";

const memoryBytes = 256 * 1024 * 1024;
/** Small enough that the interpreter's own limit is reached before that of the machine. */
const stackBytes = 128 * 1024;
/** Units of work of one call; some seconds. See metered-wasm.ts. */
const maxFuel = 4_000_000_000;
/** Units of a draw, which the host makes. */
const drawFuel = 200n;
const maxAnswerCharacters = 32 * 1024 * 1024;
const maxDraws = 2 ** 26;

const ownModule = "stemma:own";
const callerModule = "stemma:caller";
const expressionModule = "stemma:expressions";

export interface InterpreterCall {
  readonly source: string;
  readonly call: RecipeCall;
  /** The input of the recipe's function. */
  readonly input: unknown;
  readonly streams: Streams;
}

/** Names of the streams that a recipe draws from begin with this, so that none is one of the engine. */
export const ownStream = (name: string): string => `recipe/${name}`;

/** The interpreter and the fuel that it has left. */
interface Metered {
  readonly module: QuickJSWASMModule;
  readonly fuel: { value: bigint };
}

/**
 * Loads an interpreter that counts its work. The package carries its WebAssembly inside and hands it to nobody but
 * `WebAssembly.instantiate`, which therefore stands replaced while it loads.
 */
async function loadInterpreter(): Promise<Metered> {
  const { instantiate } = WebAssembly;
  let fuel: Metered["fuel"] | undefined;
  WebAssembly.instantiate = async (bytes: Uint8Array, imports: WebAssembly.Imports) => {
    const made = await instantiate(meteredWasm(bytes, maxFuel), imports);
    fuel = made.instance.exports[fuelExport] as Metered["fuel"];
    return made;
  };
  try {
    const module = await newQuickJSWASMModuleFromVariant(quickjs);
    if (fuel === undefined) throw new Error("The interpreter was loaded without counting its work.");
    return { module, fuel };
  } finally {
    WebAssembly.instantiate = instantiate;
  }
}

/**
 * Runs the recipe's function and returns its answer, not checked yet.
 * @throws RECIPE_INVALID where it cannot be loaded, RECIPE_FAILED where its code throws or exceeds a limit
 */
export async function interpret(request: InterpreterCall): Promise<unknown> {
  const { module, fuel } = await loadInterpreter();
  try {
    return call(module.newRuntime(), request, fuel);
  } catch (error) {
    if (fuel.value < 0n) throw failed("it worked longer than a recipe may");
    throw error;
  }
}

function call(runtime: QuickJSRuntime, request: InterpreterCall, fuel: Metered["fuel"]): unknown {
  runtime.setMemoryLimit(memoryBytes);
  runtime.setMaxStackSize(stackBytes);
  loadModules(runtime, request.source);
  const context = runtime.newContext({ intrinsics });
  // Contexts are not disposed one by one: a recipe that ran out of memory leaves what cannot be freed in order, and
  // the process ends after its few calls.
  defineInput(context, request, fuel);
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
 * The intrinsics of the language, without Date. Eval is what the host evaluates with, and Proxy guards the input; the
 * prelude removes both from the recipe.
 */
const intrinsics = {
  BaseObjects: true,
  Eval: true,
  Date: false,
  StringNormalize: false,
  RegExp: true,
  JSON: true,
  Proxy: true,
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
      if (name === expressionModule) return expressionSource;
      return {
        error: new Error(
          `it imports ${JSON.stringify(name.slice(0, 80))}; a recipe only has ${recipeModule}`,
        ),
      };
    },
    (_, name) => name,
  );
}

function defineInput(
  context: QuickJSContext,
  { call, input, streams }: InterpreterCall,
  fuel: Metered["fuel"],
): void {
  let draws = 0;
  const draw = context.newFunction("draw", (name, kind, argument) => {
    fuel.value -= drawFuel;
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
