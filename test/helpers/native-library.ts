/**
 * A TensorFlow for tests: PyPI's wheel for a CPU, fetched once by pip and kept in a cache outside of the checkout. Its
 * libraries are linked to an agent's home as a person does it.
 */
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { linkBackend } from "../../agent/backend/link-backend.js";
import type { Link } from "../../agent/backend/link-file.js";
import { nodeFiles } from "../../shared/files/node-files.js";
import { runProgram } from "../integration/suites/outside-suite.js";

const version = "2.18.1";
const packages: Readonly<Record<string, readonly [name: string, platform: string]>> = {
  x64: ["tensorflow-cpu", "manylinux2014_x86_64"],
  arm64: ["tensorflow", "manylinux2014_aarch64"],
};
/** Only what is linked and compiled with: a third of the wheel. */
const unpack = `
import sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
wanted = ("tensorflow/include/", "tensorflow/libtensorflow_cc.so.2", "tensorflow/libtensorflow_framework.so.2")
for name in wheel.namelist():
    if name.startswith(wanted):
        wheel.extract(name, sys.argv[2])
`;

export type NativeLibrary = { readonly folder: string } | { readonly whyNot: string };

/** The library's folder, or why there is none. */
export async function nativeLibrary(): Promise<NativeLibrary> {
  const [name, platform] = packages[process.arch] ?? [];
  if (process.platform !== "linux" || name === undefined || platform === undefined)
    return { whyNot: `no TensorFlow for ${process.platform} ${process.arch}` };
  const cache = process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache");
  const folder = join(cache, "stemma-tests", `${name}-${version}-${process.arch}`);
  if (existsSync(folder)) return { folder };
  await mkdir(join(cache, "stemma-tests"), { recursive: true });
  const work = await mkdtemp(`${folder}.`);
  try {
    const choice = ["--no-deps", "--only-binary=:all:", "--python-version=3.11", `--platform=${platform}`];
    const args = ["-m", "pip", "download", "--quiet", ...choice, `${name}==${version}`, "-d", work];
    const fetched = await runProgram("python3", args, { timeoutMs: 300_000 });
    const wheel = (await readdir(work)).find((file) => file.endsWith(".whl"));
    if (fetched.status !== 0 || wheel === undefined)
      return { whyNot: `${name} ${version} could not be fetched: ${fetched.output.slice(-200)}` };
    const unpacked = join(work, "unpacked");
    const { status, output } = await runProgram("python3", ["-c", unpack, join(work, wheel), unpacked]);
    if (status !== 0) return { whyNot: `the wheel could not be unpacked: ${output.slice(-200)}` };
    // Two tests may fetch it at the same time.
    await rename(unpacked, folder).catch(() => undefined);
    return { folder };
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** An agent's home of its own with the library linked. @param threads of the native backend */
export async function linkedHome(
  t: Pick<TestContext, "after">,
  libtensorflow: string,
  threads = 1,
): Promise<{ readonly home: string; readonly link: Link }> {
  const home = await mkdtemp(join(tmpdir(), "stemma-native-"));
  t.after(() => rm(home, { recursive: true, force: true }));
  const ports = { files: nodeFiles(), home, memoryLimitMb: 4096, onStep: () => undefined };
  const request = { libtensorflow, compiler: "c++", threads, stemma: "test", nowMs: Date.now() };
  return { home, link: await linkBackend(ports, request) };
}
