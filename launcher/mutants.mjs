// npm run mutants -- [ROOM…]: changes the sources of pure rooms in one place at a time, and runs the nearest tests of
// each change in a copy of dist/. A mutant that no test notices survives and is listed with its place. Survivors are
// for people to judge, so they do not change the exit status; a test that fails without any mutant does.
import { existsSync, readFileSync } from "node:fs";
import { randomInt } from "node:crypto";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { mutantsOf, sampleOf } from "./mutants/generate.mjs";
import { failingTests, leftOutOf, summaryOf, textOf } from "./mutants/report.mjs";
import { filesOfRoom, roomNames } from "./mutants/rooms.mjs";
import { endTests } from "./mutants/run-test.mjs";
import { tryMutants } from "./mutants/try-mutants.mjs";
import { root } from "./prepare.mjs";

const usage = `Usage: npm run mutants -- [ROOM…] [options]

Rooms: ${roomNames.join(", ")} (all where none is named)

  --count N      mutants of each room; default 100
  --seed N       which of them, and the seed of the tests; default STEMMA_TEST_SEED, else drawn
  --file PATH    only this source, which may be outside of the rooms; may be repeated
  --jobs N       mutants tried at a time; default: one for each core
  -o FORM        text or json
  --help`;

/** Ends with what is wrong with the command. */
function refuse(text) {
  console.error(`stemma: ${text}\n\n${usage}`);
  process.exit(2);
}

function parsed() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        count: { type: "string", default: "100" },
        seed: { type: "string", default: process.env.STEMMA_TEST_SEED ?? String(randomInt(2 ** 31)) },
        file: { type: "string", multiple: true },
        jobs: { type: "string", default: String(availableParallelism()) },
        output: { type: "string", short: "o", default: "text" },
        help: { type: "boolean" },
      },
    });
  } catch (error) {
    return refuse(error.message);
  }
}

function wholeNumber(name, text, least) {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < least || value > 2 ** 32)
    refuse(`--${name} ${text} is not a whole number from ${least}.`);
  return value;
}

/** The parts of the run: rooms, or the files that were named. */
function partsOf({ positionals, values: { file: files } }) {
  const unknown = positionals.find((room) => !roomNames.includes(room));
  if (unknown !== undefined) refuse(`"${unknown}" is not a room.`);
  if (files === undefined)
    return (positionals.length > 0 ? positionals : roomNames).map((name) => ({
      name,
      files: filesOfRoom(root, name),
    }));
  if (positionals.length > 0) refuse("Name rooms or --file, not both.");
  const missing = files.find((file) => !/^(?:shared|agent|server)\/.*\.ts$/.test(file));
  if (missing !== undefined) refuse(`${missing} is not a source below shared/, agent/ or server/.`);
  const absent = files.find((file) => !existsSync(join(root, file)));
  if (absent !== undefined) refuse(`${absent} does not exist.`);
  return files.map((file) => ({ name: file, files: [file] }));
}

/** Tries a sample of one part's mutants. */
async function runPart({ name, files }, { count, seed, jobs }) {
  const made = files.flatMap((file) => mutantsOf(file, readFileSync(join(root, file), "utf8")));
  const mutants = sampleOf(made, count, seed);
  console.error(`stemma: ${name}: trying ${mutants.length} of ${made.length} mutants (--seed ${seed})`);
  let tried = 0;
  const onResult = ({ outcome, line, column, file }) => {
    tried++;
    if (outcome === "survived")
      console.error(`stemma: ${tried} of ${mutants.length}: ${file}:${line}:${column} survived`);
  };
  return summaryOf({
    name,
    made: made.length,
    ...(await tryMutants(mutants, { root, jobs, seed, onResult })),
  });
}

const command = parsed();
const { values } = command;
if (values.help) {
  console.log(usage);
  process.exit(0);
}
if (!["text", "json"].includes(values.output)) refuse(`-o ${values.output} is neither text nor json.`);
const options = {
  count: wholeNumber("count", values.count, 1),
  seed: wholeNumber("seed", values.seed, 0),
  jobs: wholeNumber("jobs", values.jobs, 1),
};
const parts = partsOf(command);
for (const signal of ["SIGINT", "SIGTERM"])
  process.once(signal, () => {
    endTests();
    process.exit(1);
  });
const summaries = [];
for (const part of parts) summaries.push(await runPart(part, options));
const { seed } = options;
if (values.output === "text") process.stdout.write(textOf(summaries, seed));
else console.log(JSON.stringify({ seed, parts: summaries, leftOut: leftOutOf(summaries) }, undefined, 2));
if (failingTests(summaries).length > 0) process.exitCode = 1;
