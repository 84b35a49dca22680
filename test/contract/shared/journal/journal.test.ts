/** The journal contract, on disk and in memory. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { journalContract } from "./journal-contract.js";

const folder = await mkdtemp(join(tmpdir(), "stemma-journal-"));
after(() => rm(folder, { recursive: true, force: true }));
let journals = 0;

journalContract("node files", () =>
  Promise.resolve({ files: nodeFiles(), folder: join(folder, String(journals++), "journal") }),
);
journalContract("memory files", () => Promise.resolve({ files: memoryFiles(), folder: "/home/journal" }));
