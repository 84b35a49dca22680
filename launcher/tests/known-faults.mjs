// Whether tests that failed by their seed fail in the state before the change, too: then the seed found a fault that
// the change did not bring, which is printed and does not stop the change.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readFileSync, symlinkSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A change is a few commits that land together: the state before it is the newest commit older than this. */
const hoursOfChange = 4;
const drawsFromSeed = /STEMMA_TEST_SEED|testSeed\(|property-seed|crash-states/;

const git = (root, ...args) =>
  execFileSync("git", args, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();

/** The seed of a run: STEMMA_TEST_SEED, else of the commit, so that each landing draws another sample. */
export function seedOfRun(root) {
  const given = process.env.STEMMA_TEST_SEED;
  if (given !== undefined) return { seed: Number(given), from: "STEMMA_TEST_SEED" };
  try {
    const commit = git(root, "rev-parse", "HEAD");
    return { seed: parseInt(commit.slice(0, 8), 16), from: `commit ${commit.slice(0, 8)}` };
  } catch {
    return { seed: Math.floor(Math.random() * 2 ** 32), from: "chance, as this is not a git checkout" };
  }
}

function parentCommit(root) {
  const given = process.env.STEMMA_TEST_PARENT;
  if (given !== undefined) return git(root, "rev-parse", `${given}^{commit}`);
  const landed = Number(git(root, "log", "-1", "--format=%ct"));
  return git(root, "rev-list", "-1", `--before=${landed - hoursOfChange * 3600}`, "HEAD") || undefined;
}

/** Names of the tests of a file that fail in another folder, with the same seed. */
function failuresAt({ folder, file, seed }) {
  const { stdout } = spawnSync(
    process.execPath,
    ["launcher/test.mjs", "--no-types", file.replace(/\.ts$/, "")],
    {
      cwd: folder,
      env: { ...process.env, STEMMA_TEST_SEED: String(seed), CI: "" },
      stdio: ["ignore", "pipe", "inherit"],
      encoding: "utf8",
      maxBuffer: 256 * 1024 * 1024,
    },
  );
  return new Set([...stdout.matchAll(/^\s*✖ (.*) \([\d.]+ms\)/gm)].map(([, name]) => name));
}

/**
 * Of the failed files, those that the state before the change fails with the same seed, in the same tests. A file
 * whose cases do not follow from the seed is never among them.
 * @param failed for each source of a test file, the names of its tests that failed
 * @param say tells what runs meanwhile
 */
export async function knownFaults(root, { failed, seed, say }) {
  const isSeeded = (file) =>
    existsSync(join(root, file)) && drawsFromSeed.test(readFileSync(join(root, file), "utf8"));
  const seeded = [...failed.keys()].filter(isSeeded);
  const commit = seeded.length === 0 ? undefined : parentCommit(root);
  if (commit === undefined) return [];
  const folder = await mkdtemp(join(tmpdir(), "stemma-parent-"));
  try {
    say(
      `stemma: running ${seeded.join(", ")} with the same seed at ${commit.slice(0, 8)}, the state before the change`,
    );
    git(root, "worktree", "add", "--detach", "--force", folder, commit);
    const lock = (at) => readFileSync(join(at, "package-lock.json"), "utf8");
    if (lock(root) === lock(folder)) symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
    return seeded.filter((file) => {
      if (!existsSync(join(folder, file))) return false;
      const before = failuresAt({ folder, file, seed });
      return failed.get(file).every((name) => before.has(name));
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
    git(root, "worktree", "prune");
  }
}
