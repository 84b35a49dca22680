// Makes server/learning/query/generated/dql-parser.js of the grammar dql.peggy. It is committed, so that peggy is not
// installed to run Stemma; a test makes it again and compares bytes.
import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import peggy from "peggy";

const folder = join(dirname(dirname(fileURLToPath(import.meta.url))), "server/learning/query");

/** Returns the text of the parser. */
export async function generate() {
  const grammar = await readFile(join(folder, "dql.peggy"), "utf8");
  const code = peggy.generate(grammar, { output: "source", format: "es" });
  return `/* eslint-disable */\n// Generated from dql.peggy by \`npm run dql\`. Do not edit.\n${code}\n`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await writeFile(join(folder, "generated/dql-parser.js"), await generate());
}
