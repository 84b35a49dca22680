/** Only what the owner of agent.json (or root) alone can change is run. */
import assert from "node:assert/strict";
import { chmod, chown, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import {
  checkCommand,
  checkSettingsFile,
  identifyCommand,
} from "../../../../shared/programs/trusted-command.js";
import { isStemmaError } from "../../../../shared/errors.js";

const owner = process.getuid?.();
const isAccepted = async (...exec: readonly string[]): Promise<boolean> => {
  try {
    await checkCommand({ exec: [...exec] }, { field: "lines.cam.trainer.exec", owner });
    return true;
  } catch (error) {
    assert.ok(isStemmaError(error, "CONFIG_INVALID"), String(error));
    assert.match(error.message, /lines\.cam\.trainer\.exec/);
    return false;
  }
};

it("refuses a program that others may change, or whose script or folder they may change", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "stemma-trusted-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const program = join(folder, "train");
  const script = join(folder, "train.py");
  await writeFile(program, "#!/bin/sh\n", { mode: 0o755 });
  await writeFile(script, "pass\n", { mode: 0o644 });
  assert.equal(await isAccepted(program, "--fast", script, "/absent/made-by-the-program"), true);
  const [first] = (await identifyCommand({ exec: [program, script] })).files;
  await writeFile(program, "#!/bin/sh\necho\n");
  const [second] = (await identifyCommand({ exec: [program, script] })).files;
  assert.notEqual(first?.sha256, second?.sha256);

  await chmod(program, 0o644);
  assert.equal(await isAccepted(program), false, "not executable");
  assert.equal(await isAccepted(folder), false, "a folder");
  assert.equal(await isAccepted(join(folder, "absent")), false, "absent");
  await chmod(program, 0o757);
  assert.equal(await isAccepted(program), false, "writable by all");
  await chmod(program, 0o755);
  await chmod(script, 0o646);
  assert.equal(await isAccepted(program, script), false, "a script that is writable by all");
  await chmod(script, 0o644);

  const open = join(folder, "open");
  await mkdir(open);
  await chmod(open, 0o777);
  await symlink(program, join(open, "link"));
  assert.equal(await isAccepted(join(open, "link")), false, "a link that others may replace");
  await chmod(open, 0o1777);
  assert.equal(await isAccepted(join(open, "link")), true, "nobody replaces it in a sticky folder");
  const settings = join(folder, "agent.json");
  await writeFile(settings, "{}", { mode: 0o600 });
  await checkSettingsFile(settings, owner);
  await checkSettingsFile(join(folder, "none.json"), owner);
  await chmod(settings, 0o666);
  await assert.rejects(checkSettingsFile(settings, owner), (error) => isStemmaError(error, "CONFIG_INVALID"));

  if (owner === 0) {
    await chown(program, 54321, 54321);
    assert.equal(await isAccepted(program), false, "of another user");
  }
});
