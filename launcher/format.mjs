// npm run format: prepares the checkout, then lays out every file that Prettier knows.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { prepare, root } from "./prepare.mjs";

await prepare({ quiet: true });
const prettier = join(root, "node_modules/prettier/bin/prettier.cjs");
const child = spawn(process.execPath, [prettier, "--write", "--log-level=warn", "."], {
  cwd: root,
  stdio: "inherit",
});
child.on("close", (code) => {
  process.exitCode = code ?? 1;
});
