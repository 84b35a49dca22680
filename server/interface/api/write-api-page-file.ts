/** Writes docs/http-api.md (`npm run http-api`). */
import { writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { programVersion } from "../../../shared/adapters/program-version.js";
import { describeApi } from "./api-description.js";
import { writeApiPage } from "./api-page.js";

const page = fileURLToPath(new URL("../../../../docs/http-api.md", import.meta.url));
await writeFile(page, writeApiPage(describeApi(programVersion())));
process.stderr.write(`http-api: wrote ${page}\n`);
