/**
 * Our releases' metadata and the conformance suite of TUF clients (theupdateframework/tuf-conformance). Its repository
 * signs with Ed25519 keys here, and its targets name versions, as in Stemma's subset of TUF. (README.md)
 */
import assert from "node:assert/strict";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { it } from "node:test";
import { compareCases, summaryOf } from "./compare-cases.js";
import {
  leftOut,
  pythonFor,
  readCases,
  readExpected,
  runProgram,
  stateOf,
  suiteFolder,
} from "./outside-suite.js";

const name = "tuf-conformance";
const client = fileURLToPath(new URL("tuf-client.js", import.meta.url));
/** Python is not built, so its files are where the sources are. */
const sources = fileURLToPath(new URL("../../../../test/integration/suites", import.meta.url));

async function writeProgram(path: string, ...lines: readonly string[]): Promise<void> {
  await writeFile(path, ["#!/bin/sh", ...lines, ""].join("\n"));
  await chmod(path, 0o755);
}

it(
  "is what TUF's conformance suite expects of a client, but for what is listed",
  { skip: leftOut(name), timeout: 590_000 },
  async (t) => {
    const suite = suiteFolder(name) ?? "";
    const folder = await mkdtemp(join(tmpdir(), "stemma-suite-"));
    t.after(() => rm(folder, { recursive: true, force: true }));
    const environment = await pythonFor(suite, join(folder, "python"));
    if ("why" in environment) {
      t.skip(environment.why);
      return;
    }
    const entrypoint = join(folder, "client");
    await writeProgram(entrypoint, `exec "${process.execPath}" "${client}" "$@"`);
    await writeProgram(
      join(folder, "faketime"),
      'SUITE_TIME="$1"',
      "export SUITE_TIME",
      "shift",
      'exec "$@"',
    );
    const report = join(folder, "cases");
    const { status, output } = await runProgram(
      environment.python,
      [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "tuf-cases",
        "--entrypoint",
        entrypoint,
        "tuf_conformance",
      ],
      {
        cwd: suite,
        env: {
          PATH: `${folder}${delimiter}${process.env["PATH"] ?? ""}`,
          PYTHONPATH: `${sources}${delimiter}${suite}`,
          SUITE_CASES: report,
        },
        timeoutMs: 480_000,
      },
    );
    const cases = await readCases(report);
    assert.ok((status === 0 || status === 1) && cases.length > 0, output);
    const comparison = compareCases(cases, await readExpected("expected-tuf.json"));
    t.diagnostic(summaryOf(name, await stateOf(suite), comparison));
    assert.equal(comparison.differences.length, 0, comparison.differences.join("\n\n"));
  },
);
