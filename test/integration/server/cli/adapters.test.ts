/** LoRA adapters on the command line: a child of its base, stored alone, merged when it is asked for. */
import assert from "node:assert/strict";
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { vectorFolder } from "../../../helpers/foreign-models.js";
import { runStemmaHere, type ProgramResult } from "../../../helpers/run-stemma-here.js";

describe("adapters on the command line", () => {
  let folder: string;
  const at = (...names: string[]): string => join(folder, ...names);
  const run = async (...args: string[]): Promise<ProgramResult> =>
    runStemmaHere(["model", ...args], { home: at("home") });
  const good = async (...args: string[]): Promise<ProgramResult> => {
    const ended = await run(...args);
    assert.equal(ended.status, 0, ended.stderr);
    return ended;
  };
  const refused = async (pattern: RegExp, ...args: string[]): Promise<void> => {
    const { stderr, status } = await run(...args);
    assert.notEqual(status, 0);
    assert.match(stderr, pattern);
  };
  const adapter = (name = "lora"): string => at(name, "adapter_model.safetensors");
  const vector = (name: string): URL => new URL(name, vectorFolder);

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-adapters-"));
    for (const name of ["lora", "alone", "dora"]) {
      await mkdir(at(name));
      await copyFile(vector("lora-adapter.safetensors"), adapter(name));
    }
    await copyFile(vector("lora-base.safetensors"), at("base.safetensors"));
    await copyFile(vector("state.safetensors"), at("other.safetensors"));
    const settings = await readFile(vector("lora-adapter.json"), "utf8");
    await writeFile(at("lora", "adapter_config.json"), settings);
    await writeFile(
      at("dora", "adapter_config.json"),
      settings.replace('"use_dora": false', '"use_dora": true'),
    );
    await good("import", at("base.safetensors"), "--name", "base");
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it("is saved as a child of its base, alone, and comes back alone or merged, the same each time", async () => {
    const saved = await good("import", adapter(), "--name", "tuned", "--base", "base");
    assert.match(saved.stderr, /states the base "example\/small", and is kept with it\n/);
    assert.match(saved.stdout, /all 4 tensors/);
    const shown = JSON.parse((await good("show", "tuned", "-o", "json")).stdout) as {
      readonly bases: readonly { readonly name: string }[];
    };
    assert.deepEqual(
      shown.bases.map(({ name }) => name),
      ["base"],
    );
    await good("recover", "tuned", "--file", at("again.safetensors"));
    assert.deepEqual(await readFile(at("again.safetensors")), await readFile(adapter()));
    // A further training of the adapter is merged into the same base.
    await good("import", adapter(), "--name", "tuned", "--base", "tuned", "--force");
    for (const [model, file] of [
      ["tuned:1", "merged.safetensors"],
      ["tuned:2", "second.safetensors"],
    ] as const)
      assert.match(
        (await good("recover", model, "--merged", "--file", at(file))).stdout,
        /merged into base:1: 2 of 3 tensors changed/,
      );
    const merged = await readFile(at("merged.safetensors"));
    assert.deepEqual(await readFile(at("second.safetensors")), merged);
    const base = await readFile(at("base.safetensors"));
    assert.equal(merged.length, base.length);
    assert.notDeepEqual(merged, base);
    await refused(
      /FILE_EXISTS|exists already/,
      "recover",
      "tuned",
      "--merged",
      "--file",
      at("merged.safetensors"),
    );
  });

  it("is refused where it does not fit, is not understood, or is a link", async () => {
    const imported = (name: string, ...more: string[]): string[] => [
      "import",
      adapter(name),
      "--name",
      "x",
      ...more,
    ];
    await refused(/--base base instead of --onto/, ...imported("lora", "--onto", "base"));
    await refused(/"use_dora" \(true\)/, ...imported("dora", "--base", "base"));
    await good("import", at("other.safetensors"), "--name", "other");
    await refused(/its base has no tensor/, ...imported("lora", "--base", "other"));
    await refused(/another network/, ...imported("alone", "--base", "base"));
    await symlink(at("lora", "adapter_config.json"), at("alone", "adapter_config.json"));
    await refused(/not a regular file|link/, ...imported("alone", "--base", "base"));
    await rm(at("alone", "adapter_config.json"));
  });

  it("without settings or base is kept, and not merged", async () => {
    const alone = await good("import", adapter("alone"), "--name", "opaque");
    assert.match(alone.stderr, /adapter_config\.json is not next to it/);
    const orphan = await good("import", adapter(), "--name", "orphan");
    assert.match(orphan.stderr, /to merge it, import that model, and this one with --base/);
    const out = ["--merged", "--file", at("none.safetensors")];
    await refused(/opaque:1 is not a LoRA adapter/, "recover", "opaque", ...out);
    await refused(/orphan:1 is an adapter without a base/, "recover", "orphan", ...out);
    await refused(/into a file/, "recover", "orphan", "--merged");
    await refused(/Leave out the others/, "recover", "orphan", ...out, "--layers", "a");
    assert.ok(!(await readdir(folder)).some((name) => name.startsWith("none")));
  });
});
