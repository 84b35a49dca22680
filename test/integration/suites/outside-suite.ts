/**
 * Suites that others wrote, run against our code: where they are, which state of them, their Python, and what differs
 * from what was expected. (README.md of this folder)
 */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { createHash } from "node:crypto";

export interface Case {
  readonly case: string;
  readonly outcome: "passed" | "failed" | "skipped";
  /** The end of its output, where it did not pass. */
  readonly why: string;
}

/** Cases that fail, each with the reason. */
export type Expected = Readonly<Record<string, string>>;

/** Reads a list of this folder. */
export async function readExpected(name: string): Promise<Expected> {
  return JSON.parse(await readFile(new URL(name, import.meta.url), "utf8")) as Expected;
}

/** The folder of a suite; undefined where STEMMA_SUITES does not have it. */
export function suiteFolder(name: string): string | undefined {
  const folder = process.env["STEMMA_SUITES"];
  const path = folder === undefined ? undefined : join(folder, name);
  return path !== undefined && existsSync(path) ? path : undefined;
}

/** For `skip` of a test: why it is left out. */
export function leftOut(name: string): string | false {
  return suiteFolder(name) === undefined ? `no ${name} in STEMMA_SUITES` : false;
}

/** The commit of a checkout; without one, the hash over its files. */
export async function stateOf(folder: string): Promise<string> {
  if (existsSync(join(folder, ".git"))) {
    const { status, output } = await runProgram("git", ["-C", folder, "rev-parse", "HEAD"]);
    if (status === 0) return `commit ${output.trim()}`;
  }
  const hash = createHash("sha256");
  for (const path of await filesBelow(folder)) {
    const bytes = await readFile(path);
    hash.update(`${relative(folder, path)} ${bytes.length}\n`).update(bytes);
  }
  return `SHA-256 of its files ${hash.digest("hex")}`;
}

async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true, recursive: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !/[\\/](__pycache__|\.git|\.pytest_cache)[\\/]/.test(path))
    .sort();
}

export interface ProgramRun {
  /** Undefined: it could not be started, or was ended because its time was over. */
  readonly status: number | undefined;
  readonly output: string;
}

export interface ProgramOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Default 2 minutes. */
  readonly timeoutMs?: number;
}

/** Runs a program to its end, and ends it with what it started when its time is over. */
export function runProgram(
  command: string,
  args: readonly string[],
  { cwd, env, timeoutMs = 120_000 }: ProgramOptions = {},
): Promise<ProgramRun> {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd,
      env: { ...process.env, PYTHONDONTWRITEBYTECODE: "1", ...env },
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    let output = "";
    const keep = (chunk: Buffer): void => {
      output = (output + chunk.toString()).slice(-64 * 1024);
    };
    child.stdout.on("data", keep);
    child.stderr.on("data", keep);
    const timer = setTimeout(() => {
      output += `\nended after ${timeoutMs / 1000} s`;
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    }, timeoutMs);
    child.once("error", (error) => {
      clearTimeout(timer);
      resolve({ status: undefined, output: error.message });
    });
    child.once("close", (code) => {
      clearTimeout(timer);
      resolve({ status: code ?? undefined, output });
    });
  });
}

/** The cases that a run wrote, one line of JSON each. */
export async function readCases(path: string): Promise<readonly Case[]> {
  const text = await readFile(path, "utf8").catch(() => "");
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Case);
}

/** Prints what a suite's project file asks for. */
const printPackages =
  'import sys, tomllib; print("\\n".join(tomllib.load(open(sys.argv[1], "rb"))["project"]["dependencies"]))';

/** Makes an environment of Python with what a suite needs. @returns its Python, or why there is none */
export async function pythonFor(
  suite: string,
  folder: string,
): Promise<{ readonly python: string } | { readonly why: string }> {
  const python = join(folder, "bin", "python");
  const made = await runProgram("python3", ["-m", "venv", folder]);
  if (made.status !== 0) return { why: `no environment of Python could be made: ${lastLine(made.output)}` };
  const asked = await runProgram(python, ["-c", printPackages, join(suite, "pyproject.toml")]);
  if (asked.status !== 0) throw new Error(`what the suite needs could not be read: ${asked.output}`);
  const packages = asked.output.trim().split("\n");
  const installed = await runProgram(python, ["-m", "pip", "install", "--quiet", ...packages], {
    timeoutMs: 75_000,
  });
  return installed.status === 0
    ? { python }
    : { why: `pip could not install what the suite needs: ${lastLine(installed.output)}` };
}

function lastLine(text: string): string {
  return text.trim().split("\n").at(-1) ?? "";
}
