// npm start: prepares the checkout, then runs `stemma demo` with the same arguments. With --packaged it runs what
// `npm run package` made instead, and builds nothing.
import { execFileSync, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { prepare, root } from "./prepare.mjs";

/** The start of the demo from dist/, once that is built. */
async function fromCheckout(args) {
  await prepare();
  return { program: process.execPath, args: [join(root, "dist/server/cli/main.js"), "demo", ...args] };
}

/** The start of the demo from the executables; undefined, and said, where there are none for this machine. */
function fromExecutables(args) {
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const target = `${process.platform}-${process.arch}`;
  const [program, agent] = ["stemma", "stemma-agent"].map((name) =>
    join(root, "out", `${name}-${version}-${target}`),
  );
  const missing = [program, agent].filter((path) => !existsSync(path));
  if (missing.length > 0) {
    console.error(
      `stemma: ${missing.map((path) => relative(root, path)).join(" and ")} ${missing.length > 1 ? "are" : "is"} missing. Make the executables with \`npm run package -- --target ${target}\`: about a minute, and once Node's program from the npm registry. Then run this again.`,
    );
    return undefined;
  }
  for (const path of [program, agent])
    console.error(
      `stemma: ${relative(root, path)} is ${execFileSync(path, ["--version"], { encoding: "utf8" }).trim()}`,
    );
  // An executable does not know where the checkout is.
  const env = { STEMMA_DATA: join(root, "../shared/data"), ...process.env };
  return { program, args: ["demo", "--agent", agent, ...args], env };
}

function run({ program, args, env = process.env }) {
  const child = spawn(program, args, { cwd: root, stdio: "inherit", env });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"])
    process.on(signal, () => {
      child.kill(signal);
    });
  child.on("close", (code, signal) => {
    if (code === null) console.error(`stemma: the demo ended by ${signal}. Run npm start again to continue.`);
    process.exitCode = code ?? (signal === "SIGINT" ? 130 : 1);
  });
}

console.error(
  "stemma: the main job needs about 1 GB of disk (packages and ./.stemma-demo), loopback ports that it picks itself, and two cores for under three minutes.",
);
const args = process.argv.slice(2);
const start = args.includes("--packaged")
  ? fromExecutables(args.filter((each) => each !== "--packaged"))
  : await fromCheckout(args);
if (start === undefined) process.exitCode = 1;
else run(start);
