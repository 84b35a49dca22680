// The tests of `npm test -- --changed`: those that use what changed, nearest first, as many as fit into the time.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { builtOf, tierOf } from "./files.mjs";
import { filesOfCheckout, testsReached, usersOfFiles } from "./imports.mjs";

const git = (root, ...args) =>
  execFileSync("git", args, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();

function firstThatWorks(attempts) {
  for (const attempt of attempts) {
    try {
      return attempt();
    } catch {}
  }
  return undefined;
}

/**
 * What changed since the merge base with the branch that this one follows (else with main or master), and in the
 * working tree. Undefined without git.
 */
export function changedFiles(root) {
  try {
    const base =
      firstThatWorks(
        ["@{upstream}", "origin/HEAD", "main", "master"].map(
          (branch) => () => git(root, "merge-base", "HEAD", branch),
        ),
      ) ?? git(root, "rev-parse", "HEAD");
    // Both names of a file that was renamed; a path that git would quote otherwise.
    const since = git(root, "diff", "--no-renames", "--name-only", "-z", base);
    const untracked = git(root, "ls-files", "--others", "--exclude-standard", "-z");
    const names = [...new Set(`${since}\0${untracked}`.split("\0"))].filter((name) => name !== "");
    return { base, names };
  } catch {
    return undefined;
  }
}

/** Seconds of a test file that has not run here yet, by its kind. */
const usualSeconds = {
  unit: 1,
  property: 5,
  contract: 5,
  integration: 8,
  simulation: 30,
  fault: 8,
  fleet: 30,
};

/** Seconds that test files took when they last ran in this checkout, by their sources. */
export function lastSeconds(root) {
  try {
    return JSON.parse(readFileSync(join(root, ".build/test-seconds.json"), "utf8"));
  } catch {
    return {};
  }
}

/**
 * Chooses the nearest tests of what changed that fit into the time, of the quick tier and, where it is one of the
 * changed files itself, of any.
 * @param seconds what is available, added up over processes
 * @returns built test files to run, sources of those left out, and changed files that no test uses
 */
export function chooseTests({ root, changed, seconds }) {
  const names = filesOfCheckout(root);
  const users = usersOfFiles(root, names);
  const known = lastSeconds(root);
  const secondsOf = (name) => known[name] ?? usualSeconds[name.split("/")[1]];
  const reached = [...testsReached(users, changed)]
    .filter(([name, steps]) => names.includes(name) && (steps === 0 || tierOf(name) === "quick"))
    .sort(([a, stepsA], [b, stepsB]) => stepsA - stepsB || secondsOf(a) - secondsOf(b));
  const chosen = [];
  const leftOut = [];
  let spent = 0;
  for (const [name] of reached) {
    spent += secondsOf(name);
    (chosen.length === 0 || spent <= seconds ? chosen : leftOut).push(name);
  }
  const unused = changed.filter((name) => testsReached(users, [name]).size === 0);
  return { files: chosen.map(builtOf), leftOut, unused };
}
