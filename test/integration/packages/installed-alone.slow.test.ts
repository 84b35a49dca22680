/**
 * What `npm run package` makes is all that a device or a server needs: each is unpacked alone in an empty folder, and
 * the tutorial runs with the two, training and replay included.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { repositoryRoot } from "../../helpers/markdown.js";
import { runPage } from "../../helpers/run-page.js";

const run = promisify(execFile);
/** Megabytes on the disk that a device and a server may take at most. */
const maxMegabytes = { agent: 30, server: 85 };

let folder = "";
const installed = (name: string): string => join(folder, name, "package");

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "stemma-packages-"));
  const packages = join(folder, "made");
  await run(process.execPath, [join(repositoryRoot, "launcher/package.mjs"), packages]);
  for (const name of ["agent", "server"]) {
    await mkdir(join(folder, name));
    const file = (await readdir(packages)).find((each) => each.startsWith(`stemma-${name}-`));
    await run("tar", ["xzf", join(packages, file ?? ""), "-C", join(folder, name)]);
  }
  await rm(packages, { recursive: true });
});
after(async () => {
  await rm(folder, { recursive: true, force: true });
});

/** Bytes of all files below a folder in blocks of 4 KiB, as a disk counts them. */
async function bytesBelow(path: string): Promise<number> {
  const names = await readdir(path, { recursive: true });
  const stats = await Promise.all(names.map((name) => stat(join(path, name))));
  return stats.reduce((sum, { size }) => sum + Math.ceil(size / 4096) * 4096, 0);
}

test("a device and a server install no more than their parts", async (t) => {
  for (const name of ["agent", "server"] as const) {
    const megabytes = (await bytesBelow(installed(name))) / 1e6;
    t.diagnostic(`${name}: ${megabytes.toFixed(1)} MB`);
    assert.ok(megabytes <= maxMegabytes[name], `${name}: ${megabytes} MB`);
    const modules = await readdir(join(installed(name), "node_modules"));
    assert.deepEqual(
      ["@tensorflow", "@jitl", "jpeg-js", "sql.js", "swagger-ui-dist"].filter((each) =>
        modules.includes(each),
      ),
      [],
    );
  }
  assert.equal((await readdir(join(installed("agent"), "dist"))).includes("server"), false);
});

test("the tutorial works with the two packages, and a replay there proves what was trained there", async (t) => {
  const page = await runPage("docs/getting-started.md", t, {
    stemma: join(installed("server"), "bin/stemma"),
    agent: join(installed("agent"), "bin/stemma-agent"),
  });
  const shown = await page.run("./stemma model story pack-soh-van-7:1 --fleet cars -o json");
  const { story } = JSON.parse(shown) as { story: string };
  const { environment } = JSON.parse(story) as { environment: { fields: Record<string, string> } };
  const engine = await readFile(join(installed("agent"), "dist/engine/libraries.json"), "utf8");
  for (const [name, version] of Object.entries(JSON.parse(engine) as Record<string, string>))
    assert.equal(environment.fields[`library.${name}`], version);
  assert.ok("library.@tensorflow/tfjs" in environment.fields);
  assert.match(await page.run("./stemma replay run soh-base:1 --fleet cars"), /^soh-base:1 proved/m);
});

test("both say their version, and a doctor finds what it needs in a package", async () => {
  for (const command of ["agent/package/bin/stemma-agent", "server/package/bin/stemma"]) {
    const { stdout } = await run(join(folder, command), ["--version"]);
    assert.match(stdout, /^\d+\.\d+\.\d+/);
  }
  const { stdout } = await run(join(installed("server"), "bin/stemma"), [
    "doctor",
    "--home",
    join(folder, "home"),
  ]);
  assert.match(stdout, /training engine +.*engine\.mjs/);
});
