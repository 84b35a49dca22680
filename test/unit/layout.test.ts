/**
 * Which folders may import which. Between the top folders: agent → shared ← server; firmware-profiles imports
 * nothing. Inside one of them, a folder imports only folders that come before it in `order`, so that no two
 * folders import each other.
 */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { satisfies } from "semver";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../../..");
const topFolders = ["shared", "agent", "server", "firmware-profiles"] as const;
const workspaces = ["shared", "agent", "server"];
type TopFolder = (typeof topFolders)[number];

const mayImport: Record<TopFolder, readonly TopFolder[]> = {
  shared: ["shared"],
  agent: ["agent", "shared", "firmware-profiles"],
  server: ["server", "shared"],
  "firmware-profiles": ["firmware-profiles"],
};

/** From the lowest folder to the highest. A top folder's own name stands for the files directly in it. */
const order: Partial<Record<TopFolder, readonly string[]>> = {
  shared: [
    "shared/concurrency",
    "shared",
    "shared/adapters",
    "shared/files",
    "shared/random",
    "shared/tensor",
    "shared/threads",
    "shared/cli",
    "shared/delta",
    "shared/journal",
    "shared/model",
    "shared/schemes",
    "shared/train",
    "shared/provenance",
    "shared/objects",
    "shared/data",
    "shared/recover",
    "shared/save",
    "shared/wire",
    "shared/trust",
    "shared/simulation",
  ],
  agent: [
    "agent/current",
    "agent/settings",
    "agent/control",
    "agent/intake",
    "agent/resources",
    "agent/programs",
    "agent/home",
    "agent/identity",
    "agent/link",
    "agent/outbox",
    "agent/releases",
    "agent/recipes",
    "agent/lines",
    "agent/offers",
    "agent/session",
    "agent/saving",
    "agent/external",
    "agent/trainer",
    "agent/trials",
    "agent",
    "agent/simulation",
    "agent/cli",
  ],
  server: [
    "server/broker",
    "server/identity",
    "server/catalog",
    "server/planner",
    "server/lineage",
    "server/selection",
    "server/repository",
    "server/archive",
    "server/api",
    "server/events",
    "server/http",
    "server/context",
    "server/data",
    "server/webhooks",
    "server/ingest",
    "server/evaluation",
    "server/training",
    "server/replay",
    "server/progressive",
    "server/configuration",
    "server/nas",
    "server/rollout",
    "server/demo",
    "server/simulation",
    "server/operations",
    "server",
    "server/doctor",
    "server/cli",
  ],
};

interface Import {
  readonly from: string;
  readonly to: string;
}

/** Every relative import of the sources below a top folder, as paths from the root. */
function importsOf(top: TopFolder): readonly Import[] {
  const sources = readdirSync(join(root, top), { recursive: true, encoding: "utf8" }).filter(
    (name) => name.endsWith(".ts") && !name.endsWith(".d.ts"),
  );
  return sources.flatMap((name) => {
    const path = join(root, top, name);
    const imports = readFileSync(path, "utf8").matchAll(
      /(?:from\s+|import\s*\(\s*|import\s+)["'](\.{1,2}\/[^"']+)["']/g,
    );
    return [...imports].map(([, target]) => ({
      from: relative(root, path),
      to: relative(root, resolve(dirname(path), target ?? "")),
    }));
  });
}

function topFolderOf(path: string): string {
  return path.split("/")[0] ?? "";
}

/** "shared/delta" for shared/delta/kernels/plain.ts; "shared" for shared/ports.ts. */
function folderOf(path: string): string {
  const parts = path.split("/");
  return parts.length > 2 ? parts.slice(0, 2).join("/") : (parts[0] ?? "");
}

for (const top of topFolders)
  test(`${top} imports only ${mayImport[top].join(", ")}`, () => {
    const strays = importsOf(top).filter(
      ({ to }) => !mayImport[top].some((allowed) => allowed === topFolderOf(to)),
    );
    assert.deepEqual(strays, []);
  });

for (const [top, folders] of Object.entries(order) as [TopFolder, readonly string[]][])
  test(`inside ${top}, folders import only folders below them`, () => {
    const wrong = importsOf(top)
      .filter(({ to }) => topFolderOf(to) === top)
      .filter(({ from, to }) => {
        const [importer, imported] = [folders.indexOf(folderOf(from)), folders.indexOf(folderOf(to))];
        return importer < 0 || imported < 0 || imported > importer;
      });
    assert.deepEqual(wrong, [], "an import that goes up, or a folder that `order` does not name");
  });

test("the rules find imports", () => {
  assert.ok(importsOf("shared").length > 100);
});

/** Whether an entry of the lock file is neither the checkout, nor one of its workspaces or a link to one. */
const isFromRegistry = (name: string): boolean =>
  name !== "" &&
  !workspaces.some((workspace) => [workspace, `node_modules/@stemma/${workspace}`].includes(name));

test("a library has one version in all of package.json's", () => {
  const versions = new Map<string, string>();
  for (const folder of [".", ...workspaces]) {
    const { dependencies = {}, devDependencies = {} } = JSON.parse(
      readFileSync(join(root, folder, "package.json"), "utf8"),
    ) as Record<string, Record<string, string> | undefined>;
    for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies })) {
      assert.equal(version, versions.get(name) ?? version, `${name} in ${folder}/package.json`);
      assert.match(version, /^(\d+\.\d+\.\d+|file:\.\.\/\w+)$/, `${name} in ${folder}/package.json`);
      versions.set(name, version);
    }
  }
});

test("every dependency runs on the oldest Node that Stemma supports", () => {
  const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as {
    packages: Record<string, { engines?: { node?: string }; resolved?: string; integrity?: string }>;
  };
  const packages = Object.entries(lock.packages);
  const namesWhere = (isWrong: (name: string, entry: (typeof packages)[number][1]) => boolean): string[] =>
    packages.filter(([name, entry]) => isWrong(name, entry)).map(([name]) => name);
  assert.deepEqual(
    namesWhere((_, { engines }) => engines?.node !== undefined && !satisfies("20.19.0", engines.node)),
    [],
    "needs a newer Node",
  );
  assert.deepEqual(
    namesWhere((_, { resolved }) => resolved?.startsWith("http") === true),
    [],
    "names an address",
  );
  assert.deepEqual(
    namesWhere((name, { integrity }) => isFromRegistry(name) && integrity === undefined),
    [],
    "has no integrity hash",
  );
});
