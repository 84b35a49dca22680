/** Examines whether this machine can train and replay: WebAssembly SIMD, the engine bundle, the backend. */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { messageWithCode } from "../../../shared/error-text.js";
import { whyUnconfined } from "../../../shared/train/own-recipes/confinement.js";
import { computeKnownAnswer } from "../../../shared/train/engine-process.js";
import { builtInEngineFolder, expectedKnownAnswer } from "../../../shared/train/engine-folder.js";
import type { Finding } from "./finding.js";

/** (module (func (result v128) i32.const 0 i8x16.splat)): valid only where SIMD is supported. */
const simdModule = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 8, 1, 6, 0, 65, 0, 253, 15, 11,
]);

export async function examineTraining(): Promise<Finding[]> {
  const simd = WebAssembly.validate(simdModule);
  const script = join(builtInEngineFolder(), "engine.mjs");
  const built = (await stat(script).catch(() => undefined)) !== undefined;
  return [
    {
      what: "WebAssembly SIMD",
      state: simd ? "good" : "wrong",
      found: simd ? "available" : "missing",
      advice: simd
        ? undefined
        : "Training without it would give different bits and is refused. Use another machine.",
    },
    {
      what: "training engine",
      state: built ? "good" : "wrong",
      found: built ? script : `no bundle at ${script}`,
      advice: built ? undefined : "Build it: npm run build",
    },
    ...(built ? [await examineKnownAnswer()] : []),
    { what: "training backend", state: "good", found: "wasm: a server trains and replays on nothing else" },
    ...(built ? [await examineConfinement()] : []),
  ];
}

/** Examines whether this machine can confine the code of a fleet's own recipes. */
async function examineConfinement(): Promise<Finding> {
  const what = "own recipes";
  const why = await whyUnconfined();
  if (why === undefined)
    return { what, state: "good", found: "confined by namespaces: no network, no files, no environment" };
  return {
    what,
    state: "warning",
    found: `refused: namespaces do not confine them here (${why})`,
    advice:
      "Let this user create user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, or " +
      'AppArmor), or accept the interpreter alone: "recipes": { "confinement": "interpreter" } in server.json.',
  };
}

/** Examines whether this machine gives the bits that the engine gives elsewhere. */
async function examineKnownAnswer(): Promise<Finding> {
  const what = "known answer";
  try {
    const [expected, actual] = [await expectedKnownAnswer(), await computeKnownAnswer()];
    if (actual === expected) return { what, state: "good", found: `${actual.slice(0, 12)}, as expected` };
    return {
      what,
      state: "wrong",
      found: `${actual.slice(0, 12)} instead of ${String(expected).slice(0, 12)}: this machine cannot train exactly`,
      advice:
        "Nothing is trained, evaluated or replayed here. Build again with `npm run build`; if it stays, use " +
        "another processor or release of Node.js.",
    };
  } catch (error) {
    return {
      what,
      state: "wrong",
      found: messageWithCode(error),
      advice: "Build the engine again: npm run build",
    };
  }
}
