// Runs `stemma` or `agent` (the first argument) as the binary in a checkout does once everything is built: short
// commands from the bundle, in a third of the time that the single files take.
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { runProgram } from "../../../launcher/run-bundle.mjs";

/** What each program is built from: by these names `npm test -- --changed` knows what a test of a program uses. */
const programs = { stemma: "server/cli/main.js", agent: "agent/cli/main.js" };

const [name] = process.argv.splice(2, 1);
if (!(name in programs)) throw new Error(`"${name}" is not one of ${Object.keys(programs).join(", ")}`);
await runProgram(join(dirname(fileURLToPath(import.meta.url)), "../../.."), name);
