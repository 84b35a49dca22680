// A copy of the checkout in which mutants are placed: its own dist/, of hard links, and links to everything else. A
// mutant replaces a link by a file, so that nothing outside the copy ever changes.
import { linkSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const ownFolders = [".git", ".build", "dist"];
/** Folders of dist/ in which a mutant never is. */
const linkedWhole = ["engine", "bundle"];

function linkFolder(from, to) {
  mkdirSync(to);
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) linkFolder(source, target);
    else if (!entry.name.endsWith(".map") && !entry.name.endsWith(".tmp")) linkSync(source, target);
  }
}

export function makeWorkplace(root) {
  mkdirSync(join(root, ".build"), { recursive: true });
  const folder = mkdtempSync(join(root, ".build/mutants-"));
  for (const name of readdirSync(root))
    if (!ownFolders.includes(name)) symlinkSync(join(root, name), join(folder, name));
  mkdirSync(join(folder, "dist"));
  for (const { name } of readdirSync(join(root, "dist"), { withFileTypes: true }).filter((entry) =>
    entry.isDirectory(),
  )) {
    const [from, to] = [join(root, "dist", name), join(folder, "dist", name)];
    if (linkedWhole.includes(name)) symlinkSync(from, to);
    else linkFolder(from, to);
  }
  const remove = () => rmSync(folder, { recursive: true, force: true });
  process.once("exit", remove);
  return {
    folder,
    /** @param file below dist/ */
    place(file, code) {
      rmSync(join(folder, "dist", file));
      writeFileSync(join(folder, "dist", file), code);
    },
    restore(file) {
      rmSync(join(folder, "dist", file), { force: true });
      linkSync(join(root, "dist", file), join(folder, "dist", file));
    },
    remove() {
      process.off("exit", remove);
      remove();
    },
  };
}
