// npm run folders: writes a README.md into each source folder with more than five files, made from the first sentences
// of the files' own head comments: what other folders use of it comes first. --check says which are out of date.
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { fileURLToPath } from "node:url";

const ownRoot = dirname(dirname(fileURLToPath(import.meta.url)));
const tops = ["shared", "agent", "server", "launcher"];
const minFiles = 6;
const maxLines = 20;
const note = "<!-- Written by `npm run folders` from the files' own first sentences. -->";
const skipped = /(^|\/)(node_modules|assembly|generated|help)(\/|$)/;
const isSource = (name) => /\.(ts|mjs)$/.test(name) && !name.endsWith(".d.ts");

/** The first sentence of a file's head comment, on one line. */
function firstSentence(text) {
  const block = /^(?:#!.*\n)?\/\*\*([\s\S]*?)\*\//.exec(text)?.[1]?.replace(/^\s*\* ?/gm, "");
  const lines = /^(?:#!.*\n)?((?:\/\/.*\n)+)/.exec(text)?.[1]?.replace(/^\/\/ ?/gm, "");
  const whole = (block ?? lines ?? "").trim().replace(/\s+/g, " ");
  return (/^.*?\.(?=\s|$)/.exec(whole)?.[0] ?? whole).replace(/[.:]$/, "");
}

/** All source folders with their files' names and texts. */
function readFolders(root) {
  const folders = new Map();
  for (const top of tops)
    for (const name of readdirSync(join(root, top), { recursive: true, encoding: "utf8" }).sort()) {
      const path = `${top}/${name.replaceAll("\\", "/")}`;
      if (!isSource(path) || skipped.test(path)) continue;
      const folder = posix.dirname(path);
      if (!folders.has(folder)) folders.set(folder, new Map());
      folders.get(folder).set(posix.basename(path), readFileSync(join(root, path), "utf8"));
    }
  return folders;
}

/** For each file, how many files of other folders import it. */
function countUses(folders) {
  const uses = new Map();
  for (const [folder, files] of folders)
    for (const text of files.values())
      for (const [, specifier] of text.matchAll(/(?:from\s+|import\s*\(\s*)["'](\.{1,2}\/[^"']+)["']/g)) {
        const target = posix.join(folder, specifier).replace(/\.js$/, ".ts");
        if (posix.dirname(target) !== folder) uses.set(target, (uses.get(target) ?? 0) + 1);
      }
  return uses;
}

/** A folder's page: at most 20 lines. */
function pageOf(folder, files, uses) {
  const used = (name) => uses.get(`${folder}/${name}`) ?? 0;
  const names = [...files.keys()].sort((a, b) => used(b) - used(a) || (a < b ? -1 : 1));
  const head = [`# ${folder}`, "", note, ""];
  const room = maxLines - head.length;
  const shown = names.length > room ? names.slice(0, room - 1) : names;
  const rest = names.length - shown.length;
  const entries = shown.map(
    (name) => `- \`${name}\`: ${firstSentence(files.get(name)) || "(has no sentence)"}`,
  );
  if (rest > 0) entries.push(`- and ${rest} more, which fewer files of other folders use`);
  return `${[...head, ...entries].join("\n")}\n`;
}

/** Every page as it should be: path and text. */
export function folderPages(root = ownRoot) {
  const folders = readFolders(root);
  const uses = countUses(folders);
  return [...folders]
    .filter(([, files]) => files.size >= minFiles)
    .map(([folder, files]) => ({ path: `${folder}/README.md`, text: pageOf(folder, files, uses) }));
}

/** Paths of pages that are missing, out of date, or of a folder that needs none. */
export function stalePages(root = ownRoot) {
  const pages = folderPages(root);
  const wanted = new Set(pages.map(({ path }) => path));
  const isWrong = ({ path, text }) =>
    !existsSync(join(root, path)) || readFileSync(join(root, path), "utf8") !== text;
  const needless = tops.flatMap((top) =>
    readdirSync(join(root, top), { recursive: true, encoding: "utf8" })
      .map((name) => `${top}/${name.replaceAll("\\", "/")}`)
      .filter((path) => path.endsWith("/README.md") && !path.includes("node_modules/"))
      .filter((path) => !wanted.has(path) && readFileSync(join(root, path), "utf8").includes(note)),
  );
  return [...pages.filter(isWrong).map(({ path }) => path), ...needless];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const stale = stalePages();
  if (process.argv.includes("--check")) {
    for (const path of stale) console.error(`${path} is out of date: npm run folders`);
    process.exitCode = stale.length > 0 ? 1 : 0;
  } else {
    const pages = new Map(folderPages().map(({ path, text }) => [path, text]));
    for (const path of stale)
      if (pages.has(path)) writeFileSync(join(ownRoot, path), pages.get(path));
      else rmSync(join(ownRoot, path));
    console.log(`${pages.size} pages of folders, ${stale.length} changed`);
  }
}
