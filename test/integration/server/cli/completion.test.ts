/** The scripts of `stemma completion`, in the shells that this machine has. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";

const programs = {
  server: fileURLToPath(new URL("../../../../server/cli/main.js", import.meta.url)),
  agent: fileURLToPath(new URL("../../../../agent/cli/main.js", import.meta.url)),
};
const isHere = (shell: string): string | false =>
  spawnSync(shell, ["--version"]).status === 0 ? false : `this machine has no ${shell}`;

describe("completion", () => {
  let folder: string;
  const inShell = (shell: string, script: string): readonly string[] => {
    const { stdout, stderr, status } = spawnSync(shell, ["-c", script], {
      encoding: "utf8",
      env: { ...process.env, PATH: `${folder}${delimiter}${process.env["PATH"] ?? ""}` },
    });
    assert.equal(status, 0, stderr);
    return stdout.trim().split("\n");
  };
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-completion-"));
    const program = join(folder, "stemma");
    await writeFile(
      program,
      `#!/bin/sh\nif [ "$1" = agent ]; then shift; exec "${process.execPath}" "${programs.agent}" "$@"; fi\n` +
        `exec "${process.execPath}" "${programs.server}" "$@"\n`,
    );
    await chmod(program, 0o755);
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it("works in bash", { skip: isHere("bash") }, () => {
    const complete = `eval "$(stemma completion bash)"
c() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _stemma_complete; echo "\${COMPREPLY[*]}"; }
c stemma jou; c stemma model reco; c stemma agent sta; c stemma server --log j; c stemma model show x`;
    assert.deepEqual(inShell("bash", complete), ["journal", "recover", "status", "json"]);
  });

  it("works in fish", { skip: isHere("fish") }, () => {
    const complete = `stemma completion fish | source
complete -C "stemma jou"; complete -C "stemma agent sta"; complete -C "stemma server --log j"`;
    const found = inShell("fish", complete);
    assert.deepEqual(
      found.map((line) => line.split("\t")[0]),
      ["journal", "status", "json"],
    );
  });

  it("is a script that zsh can read", { skip: isHere("zsh") }, () => {
    const [first] = inShell("zsh", `stemma completion zsh > ${folder}/z && zsh -n ${folder}/z && echo good`);
    assert.equal(first, "good");
  });
});
