/**
 * Entry point of the native runner (launcher/native.mjs): the engine's program on a linked libtensorflow.
 * `engine.mjs --probe` says what the library computes here (probe.ts); everything else is as in ../engine/main.ts.
 */
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { runProbe } from "./probe.js";

if (process.argv[2] === "--probe") await runProbe(dirname(fileURLToPath(import.meta.url)));
else await import("../engine/main.js");
