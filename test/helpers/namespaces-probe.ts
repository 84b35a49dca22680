/**
 * Probes whether this machine lets a process confine another one with namespaces, without any code of the product,
 * so that a test of confinement does not ask the code that it tests whether to run.
 */
import { execFile } from "node:child_process";
import type { TestContext } from "node:test";
import { promisify } from "node:util";

/** The namespaces that confinement needs (docs/recipes-of-your-own.md); a mount and a second user namespace in them. */
const attempt = [
  ..."--user --map-root-user --mount --net --ipc --uts --pid --fork --kill-child".split(" "),
  "--",
  "/bin/sh",
  "-c",
  "mount -t tmpfs tmpfs /sys && unshare --user --map-user=65534 --map-group=65534 -- /bin/sh -c 'echo confined'",
];

export type NamespacesProbe = { readonly works: true } | { readonly works: false; readonly why: string };

/** @param run how a program is run; by default on this machine */
export async function probeNamespaces(
  run: (program: string, parameters: readonly string[]) => Promise<string> = runHere,
): Promise<NamespacesProbe> {
  try {
    const output = await run("unshare", attempt);
    return output.trim() === "confined" ? { works: true } : { works: false, why: `printed ${output}` };
  } catch (error) {
    return { works: false, why: (error as Error).message.split("\n").slice(0, 2).join(" ") };
  }
}

async function runHere(program: string, parameters: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(program, parameters, { cwd: "/", timeout: 20_000 });
  return stdout;
}

/**
 * Tells whether a test of confinement can run here; else it is skipped, and the reason printed. CI demands that
 * it runs: there a machine without namespaces is a failure, not a skip.
 */
export async function namespacesFor(
  context: Pick<TestContext, "diagnostic" | "skip">,
  { probe = probeNamespaces(), isCi = process.env["CI"] === "true" }: NamespacesOptions = {},
): Promise<boolean> {
  const found = await probe;
  context.diagnostic(found.works ? "namespaces: there" : `namespaces: not there: ${found.why}`);
  if (found.works) return true;
  if (isCi) throw new Error(`CI must exercise confinement, and namespaces are not there: ${found.why}`);
  context.skip(`this machine has no namespaces: ${found.why}`);
  return false;
}

interface NamespacesOptions {
  readonly probe?: Promise<NamespacesProbe>;
  readonly isCi?: boolean;
}
