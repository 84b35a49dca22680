// npm run lint: prepares the checkout, then checks layout (Prettier), rules (ESLint) and that nothing is
// left that no program reaches (knip). `npm run format` mends the layout.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { prepare, root } from "./prepare.mjs";

const checks = [
  ["layout", "node_modules/prettier/bin/prettier.cjs", "--check", "--log-level=warn", "."],
  ["rules", "node_modules/eslint/bin/eslint.js", "."],
];

function run([program, ...args]) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [join(root, program), ...args], { cwd: root, stdio: "inherit" });
    child.on("error", reject);
    child.on("close", (code) => resolve(code ?? 1));
  });
}

await prepare({ quiet: true });
const failed = [];
for (const [name, ...command] of checks) if ((await run(command)) !== 0) failed.push(name);
if (failed.length > 0) console.error(`lint: failed: ${failed.join(", ")}`);
process.exitCode = failed.length > 0 ? 1 : 0;
