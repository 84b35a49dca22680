/** Small checkouts in the folder for temporary files, for tests of what the launcher does with files and git. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

export interface SmallCheckout {
  readonly root: string;
  write(files: Readonly<Record<string, string>>): void;
  /** Runs git in it, as a committer with a fixed name; `at` is the time of a commit in seconds since 1970. */
  git(args: readonly string[], at?: number): string;
  remove(): void;
}

export function smallCheckout(files: Readonly<Record<string, string>>): SmallCheckout {
  const root = mkdtempSync(join(tmpdir(), "stemma-checkout-"));
  const checkout: SmallCheckout = {
    root,
    write(more) {
      for (const [name, text] of Object.entries(more)) {
        mkdirSync(dirname(join(root, name)), { recursive: true });
        writeFileSync(join(root, name), text);
      }
    },
    git(args, at = 1_700_000_000) {
      const who = ["-c", "user.name=Test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"];
      const date = `${at} +0000`;
      return execFileSync("git", [...who, ...args], {
        cwd: root,
        encoding: "utf8",
        env: {
          ...process.env,
          GIT_AUTHOR_DATE: date,
          GIT_COMMITTER_DATE: date,
          GIT_CONFIG_GLOBAL: "/dev/null",
        },
      }).trim();
    },
    remove() {
      rmSync(root, { recursive: true, force: true });
    },
  };
  checkout.write(files);
  return checkout;
}

/** Why tests of git are skipped on this machine; false where it is installed. */
export function withoutGit(): string | false {
  try {
    execFileSync("git", ["--version"], { stdio: "ignore" });
    return false;
  } catch {
    return "git is not installed";
  }
}
