/** Writes docs/http-api.md and the generated modules of the Python client (`npm run http-api`). */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { programVersion } from "../../../shared/adapters/program-version.js";
import { describeApi } from "./api-description.js";
import { writeApiPage } from "./api-page.js";
import { writePythonClient } from "./python-client.js";

const root = fileURLToPath(new URL("../../../../", import.meta.url));
const generated = "python/src/stemma/generated";
const description = describeApi(programVersion());
await mkdir(join(root, generated), { recursive: true });
const files = [
  { path: "docs/http-api.md", text: writeApiPage(description) },
  ...writePythonClient(description).map(({ file, text }) => ({ path: `${generated}/${file}`, text })),
];
for (const { path, text } of files) {
  await writeFile(join(root, path), text);
  process.stderr.write(`http-api: wrote ${path}\n`);
}
