// Answers `--help`, `--version` and a command without arguments from committed text (launcher/help), so that a bare
// clone answers at once and not after an installation. A test compares the text with what the programs print;
// `node launcher/first-look.mjs` writes it again, from dist/.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * @param root the checkout
 * @param args of ./stemma
 * @returns whether it answered; the exit status is set
 */
export function answerAtOnce(root, args) {
  const [name, words] = args[0] === "agent" ? ["agent", args.slice(1)] : ["stemma", args];
  if (words.length > 1) return false;
  const read = (path) => readFileSync(join(root, path), "utf8");
  const help = () => read(`launcher/help/${name}.txt`);
  const [word] = words;
  if (word === undefined) {
    process.stderr.write(help());
    process.exitCode = 2;
  } else if (["--help", "-h", "help"].includes(word)) process.stdout.write(help());
  else if (["--version", "-V"].includes(word))
    process.stdout.write(`${JSON.parse(read("package.json")).version}\n`);
  else return false;
  return true;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = dirname(dirname(process.argv[1]));
  for (const name of ["stemma", "agent"]) {
    const text = execFileSync(process.execPath, [join(root, `dist/bundle/${name}.cjs`), "--help"]);
    writeFileSync(join(root, `launcher/help/${name}.txt`), text);
  }
}
