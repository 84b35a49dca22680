// npm run build, typecheck, lint, format, kernels, proto, http-api: installs the packages when they are
// missing, then runs the tool's programs one after the other. Every program runs, even after one failed.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { install, root } from "./prepare.mjs";

const prettier = "node_modules/prettier/bin/prettier.cjs";
/** Files that were formatted when they were last looked at, by their content. */
const cache = ["--cache", "--cache-strategy=content", "--cache-location=.build/prettier.cache"];
const tools = {
  build: [["launcher/build.mjs"]],
  typecheck: [["node_modules/typescript/bin/tsc", "--noEmit", "-p", "tsconfig.json"]],
  lint: [
    [prettier, "--check", "--log-level=warn", ...cache, "."],
    ["node_modules/eslint/bin/eslint.js", "."],
    ["node_modules/knip/bin/knip.js", "--production"],
  ],
  format: [[prettier, "--write", "--log-level=warn", ...cache, "."]],
  kernels: [["launcher/kernels.mjs"]],
  proto: [["launcher/proto.mjs"]],
  "http-api": [["launcher/build.mjs"], ["dist/server/api/write-api-page-file.js"]],
};

function run([program, ...args]) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [join(root, program), ...args], { cwd: root, stdio: "inherit" });
    child.on("error", reject);
    child.on("close", (code) => resolve(code ?? 1));
  });
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
for (const [index, program] of programs.entries()) {
  const isLast = index === programs.length - 1;
  if ((await run(isLast ? [...program, ...args] : program)) !== 0) process.exitCode = 1;
}
