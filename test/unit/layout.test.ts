/**
 * Which folders may import which. Between the top folders: agent → shared ← server; firmware-profiles imports
 * nothing. Inside one of them, a folder imports only folders that come before it in `order`, so that no two
 * folders import each other.
 */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
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
    "shared/tables",
    "shared/threads",
    "shared/cli",
    "shared/delta",
    "shared/journal",
    "shared/model",
    "shared/schemes",
    "shared/train",
    "shared/determinism",
    "shared/provenance",
    "shared/average",
    "shared/objects",
    "shared/data",
    "shared/recover",
    "shared/save",
    "shared/forms",
    "shared/layouts",
    "shared/programs",
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
    "agent/backend",
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
    "server/access/broker",
    "server/access/identity",
    "server/storage/catalog",
    "server/storage/index",
    "server/storage/planner",
    "server/storage/lineage",
    "server/storage/selection",
    "server/storage/repository",
    "server/storage/archive",
    "server/interface/api",
    "server/interface/events",
    "server/interface/http",
    "server/services/network",
    "server/services/context",
    "server/services/data",
    "server/services/webhooks",
    "server/fleet/ingest",
    "server/fleet/rollout",
    "server/learning/evaluation",
    "server/learning/average",
    "server/learning/query",
    "server/learning/training",
    "server/learning/replay",
    "server/learning/progressive",
    "server/learning/nas",
    "server/learning/enumeration",
    "server/operations/configuration",
    "server/operations",
    "server",
    "server/cli/doctor",
    "server/cli/simulation",
    "server/cli/demo",
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

/** "shared/delta" for shared/delta/kernels/plain.ts, "server/cli" for server/cli/main.ts, "shared" for its files. */
function folderOf(path: string): string {
  const parts = path.split("/");
  if (parts.length <= 2) return parts[0] ?? "";
  const room = parts.slice(0, 3).join("/");
  return parts.length > 3 && order.server?.includes(room) === true ? room : parts.slice(0, 2).join("/");
}

/** "server/fleet" for server/fleet/ingest/limits.ts; "server" for server/main.ts; else the top folder. */
function roomOnMap(path: string): string {
  const parts = path.split("/");
  return parts[0] === "server" && parts.length > 2 ? parts.slice(0, 2).join("/") : (parts[0] ?? "");
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

test("the server has at most eight floors, each with its rooms side by side", () => {
  const floors = (order.server ?? []).map((room) => roomOnMap(`${room}/x.ts`));
  const inOrder = floors.filter((floor, at) => floor !== "server" && floor !== floors[at - 1]);
  assert.deepEqual(inOrder, [...new Set(inOrder)]);
  assert.ok(inOrder.length <= 8, inOrder.join(" "));
});

/** Arrows of the first picture in ARCHITECTURE.md, as rooms. */
function drawnArrows(): readonly (readonly [from: string, to: string])[] {
  const page = readFileSync(join(root, "ARCHITECTURE.md"), "utf8");
  const picture = /```mermaid\n([\s\S]*?)```/.exec(page)?.[1] ?? "";
  const rooms = new Map(
    [...picture.matchAll(/^ *(\w+)\["([^"<]+)/gm)].map(([, id, room]) => [id, room ?? ""]),
  );
  return [...picture.matchAll(/^ *(\w+) --> (\w+)$/gm)].map(([, from, to]) => [
    rooms.get(from) ?? "",
    rooms.get(to) ?? "",
  ]);
}

test("the picture of rooms in ARCHITECTURE.md is what the imports are", () => {
  const arrows = drawnArrows();
  const imported = new Set(
    topFolders
      .flatMap(importsOf)
      .map(({ from, to }) => `${roomOnMap(from)} → ${roomOnMap(to)}`)
      .filter((arrow) => {
        const [from, to] = arrow.split(" → ");
        return from !== to;
      }),
  );
  for (const [from, to] of arrows)
    assert.ok(imported.has(`${from} → ${to}`), `${from} does not import ${to}`);
  const reached = new Set<string>();
  const follow = (start: string, at: string): void => {
    for (const [from, to] of arrows)
      if (from === at && !reached.has(`${start} → ${to}`)) {
        reached.add(`${start} → ${to}`);
        follow(start, to);
      }
  };
  for (const [from] of arrows) follow(from, from);
  assert.deepEqual(
    [...imported].filter((arrow) => !reached.has(arrow)),
    [],
    "imports that no way along the arrows has",
  );
});

test("each folder with more than five files has a page made from the files' own sentences", async () => {
  const { stalePages } = (await import(pathToFileURL(join(root, "launcher/folders.mjs")).href)) as {
    readonly stalePages: (root: string) => readonly string[];
  };
  assert.deepEqual(stalePages(root), [], "write them again: npm run folders");
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
      assert.match(
        version,
        /^(\d+\.\d+\.\d+(-alpha\.\d+)?|file:\.\.\/\w+)$/,
        `${name} in ${folder}/package.json`,
      );
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
