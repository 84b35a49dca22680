// npm start: prepares the checkout, then runs `stemma demo` with the same arguments.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { prepare, root } from "./prepare.mjs";

console.error(
  "stemma: the main job needs about 1 GB of disk (packages and ./.stemma-demo), loopback ports that it picks itself, and two cores for under three minutes.",
);
await prepare();
const child = spawn(
  process.execPath,
  [join(root, "dist/server/cli/main.js"), "demo", ...process.argv.slice(2)],
  { cwd: root, stdio: "inherit" },
);
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"])
  process.on(signal, () => {
    child.kill(signal);
  });
child.on("close", (code, signal) => {
  if (code === null) console.error(`stemma: the demo ended by ${signal}. Run npm start again to continue.`);
  process.exitCode = code ?? (signal === "SIGINT" ? 130 : 1);
});
