// Which files of the checkout use which: imports of modules, and files that are named in a string because they are
// started or read. Names are those of sources, from the checkout's root: "server/main.ts", "docs/limits.md".
import { readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";

const codeFolders = [
  "dist/shared",
  "dist/agent",
  "dist/server",
  "dist/firmware-profiles",
  "dist/test",
  "launcher",
];
const isCode = /\.(js|mjs|cjs)$/;
/** A string that may name a file: what an import names, and what a program starts or reads. */
const namedFile =
  /["'`]([^"'`\n\s]*\.(?:js|mjs|cjs|ts|json|md|wasm|proto|html|css|svg|bin|safetensors|sh))["'`]/g;

/** What is used without being named: the engine's bundle is built from this file, and these helpers read all pages. */
const usedUnnamed = {
  "shared/train/engine-folder.ts": () => ["shared/train/engine/main.ts"],
  "test/helpers/markdown.ts": (files) => files.filter((name) => name.endsWith(".md")),
};

/** The source of a file as it was built: dist/server/main.js → server/main.ts, dist/x.wasm → x.wasm. */
function sourceName(path, files) {
  const name = path.replace(/^dist\//, "");
  const typescript = name.replace(/\.js$/, ".ts");
  return [typescript, name].find((each) => files.has(each));
}

/** The file that a string names, seen from the file that contains it, the checkout or dist/. */
function fileNamed(text, from, files) {
  const places = text.startsWith(".") ? [posix.dirname(from)] : [".", "dist", posix.dirname(from)];
  for (const place of places) {
    const source = sourceName(posix.join(place, text), files);
    if (source !== undefined) return source;
  }
  return undefined;
}

function* codeFiles(root) {
  for (const folder of codeFolders)
    for (const name of readdirSync(join(root, folder), { recursive: true })) {
      const path = `${folder}/${name.replaceAll("\\", "/")}`;
      if (isCode.test(path) && !path.startsWith("dist/test/groups/")) yield path;
    }
}

/**
 * For each file, the files that use it. Reads the code as it was built, which has no imports of types.
 * @param names the files of the checkout, with "/" between folders
 */
export function usersOfFiles(root, names) {
  const files = new Set(names);
  const users = new Map();
  const add = (used, user) => {
    if (used === undefined || used === user) return;
    if (!users.has(used)) users.set(used, new Set());
    users.get(used).add(user);
  };
  for (const path of codeFiles(root)) {
    const user = sourceName(path, files);
    if (user === undefined) continue;
    const text = readFileSync(join(root, path), "utf8");
    for (const [, named] of text.matchAll(namedFile)) add(fileNamed(named, path, files), user);
    for (const used of usedUnnamed[user]?.(names) ?? []) add(used, user);
  }
  return users;
}

/** Files of the checkout that a program or test may read: all but what is built or installed. */
export function filesOfCheckout(root) {
  const skipped = new Set(["node_modules", "dist", ".git", ".build"]);
  const found = [];
  const addBelow = (folder) => {
    for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
      const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
      if (entry.isDirectory() && !skipped.has(entry.name)) addBelow(path);
      else if (entry.isFile()) found.push(path);
    }
  };
  addBelow("");
  return found;
}

/** For each test file that uses one of the files, over any number of others: how many steps the nearest way takes. */
export function testsReached(users, changed) {
  const steps = new Map(changed.map((name) => [name, 0]));
  const queue = [...steps.keys()];
  for (const name of queue)
    for (const user of users.get(name) ?? [])
      if (!steps.has(user)) {
        steps.set(user, steps.get(name) + 1);
        queue.push(user);
      }
  return new Map([...steps].filter(([name]) => /^test\/.*\.test\.ts$/.test(name)));
}
