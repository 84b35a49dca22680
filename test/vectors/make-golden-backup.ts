/**
 * Makes a golden backup of a golden home: run it by hand when the format number of backups changes; no test runs it.
 *
 *     node dist/test/vectors/make-golden-backup.js test/vectors/home-1 test/vectors/backup-1
 */
import { existsSync } from "node:fs";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { openHome } from "../../server/storage/repository/home.js";
import { nodeHomePorts } from "../../server/storage/repository/node-home.js";
import { openRepository } from "../../server/storage/repository/open-repository.js";
import { nodeFiles } from "../../shared/files/node-files.js";

const [, , from, to] = process.argv;
if (from === undefined || to === undefined || existsSync(to))
  throw new Error("Name a golden home, and a folder that does not exist yet.");
const work = await mkdtemp(join(tmpdir(), "stemma-golden-"));
await cp(from, join(work, "home"), { recursive: true });
const home = await openHome(join(work, "home"), {
  ...nodeHomePorts(),
  files: nodeFiles({ fileMode: 0o644, folderMode: 0o755 }),
});
for (const fleet of await home.fleets()) {
  const repository = await openRepository(home, fleet);
  console.error(fleet, await repository.backup(resolve(to)));
  await repository.close();
}
await home.close();
await rm(work, { recursive: true });
