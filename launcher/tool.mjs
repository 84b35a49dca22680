// npm run build, package, typecheck, lint, format, kernels, proto, dql, http-api, folders, mutants: installs the packages when they are
// missing, then runs the tool's programs. Every program runs, even after one failed.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { install, root } from "./prepare.mjs";

const prettier = "node_modules/prettier/bin/prettier.cjs";
/** Files that were formatted when they were last looked at, by their content. */
const cache = ["--cache", "--cache-strategy=content", "--cache-location=.build/prettier.cache"];
const tools = {
  build: [["launcher/build.mjs"]],
  package: [["launcher/build.mjs"], ["packaging/main.mjs"]],
  typecheck: [["node_modules/typescript/bin/tsc", "--noEmit", "-p", "tsconfig.json"]],
  lint: [
    [prettier, "--check", "--log-level=warn", ...cache, "."],
    ["node_modules/eslint/bin/eslint.js", "."],
    ["node_modules/knip/bin/knip.js", "--production"],
  ],
  format: [[prettier, "--write", "--log-level=warn", ...cache, "."]],
  kernels: [["launcher/kernels.mjs"]],
  proto: [["launcher/proto.mjs"]],
  dql: [["launcher/dql.mjs"]],
  "http-api": [["launcher/build.mjs"], ["dist/server/interface/api/write-api-page-file.js"]],
  folders: [["launcher/folders.mjs"]],
  mutants: [["launcher/build.mjs"], ["launcher/mutants.mjs"]],
};
/** Tools whose programs only read, so that they run at the same time. */
const readOnly = new Set(["lint"]);

/** Runs a program and resolves with its exit status, and with what it printed where that is not shown at once. */
function run([program, ...args], stdio = "inherit") {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [join(root, program), ...args], { cwd: root, stdio });
    let text = "";
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding("utf8").on("data", (part) => {
        text += part;
      });
    child.on("error", reject);
    child.on("close", (code) => resolve({ code: code ?? 1, text }));
  });
}

async function runTogether(programs) {
  const results = programs.map((program) => run(program, ["ignore", "pipe", "pipe"]));
  for (const result of results) {
    const { code, text } = await result;
    process.stdout.write(text);
    if (code !== 0) process.exitCode = 1;
  }
}

async function runInTurn(programs) {
  for (const program of programs) if ((await run(program)).code !== 0) process.exitCode = 1;
}

const [name, ...args] = process.argv.slice(2);
const programs = tools[name];
if (programs === undefined) {
  console.error(
    `stemma: "${name ?? ""}" is not the name of a tool; choose one of ${Object.keys(tools).join(", ")}.`,
  );
  process.exit(2);
}
await install();
const last = programs.at(-1);
await (readOnly.has(name) ? runTogether : runInTurn)([...programs.slice(0, -1), [...last, ...args]]);
