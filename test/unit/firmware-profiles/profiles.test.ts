/** The profiles that come with Stemma are valid, and their schema is the one that the agent checks. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import * as z from "zod";
import {
  builtInProfilesFolder,
  loadProfile,
  parseProfile,
  profileNames,
  profileSchema,
} from "../../../agent/settings/profile.js";
import { settingsOf } from "../../../agent/trainer/training-settings.js";
import { engineThreads } from "../../../shared/train/backends/capability.js";
import { parseJob } from "../../../shared/train/engine/job-schema.js";
import { jobFormat } from "../../../shared/train/training.js";
import { isStemmaError } from "../../../shared/errors.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { testProfile } from "../../helpers/agent-fixtures.js";

const files = nodeFiles();
const job = {
  format: jobFormat,
  recipe: "r",
  parameters: {},
  dataset: { reader: "samples", parameters: {} },
  seed: "1",
  invocation: 1,
};

describe("firmware profiles", () => {
  it("has a valid profile for each supported board, under the board's name", async () => {
    const names = await profileNames(files);
    for (const wanted of ["jetson-orin", "x86-cuda", "raspberry-pi", "generic"])
      assert.ok(names.includes(wanted), `${wanted} is missing`);
    for (const name of names) {
      const profile = await loadProfile(files, name);
      assert.equal(profile.name, name);
      assert.match(
        profile.measured ?? "",
        /\barm64\b.*(emulated|measured)/,
        `${name} says where it was measured`,
      );
      assert.ok(engineThreads(profile.training.threads, 64) <= profile.training.threads);
      // The engine accepts the job of every profile: a device that is refused would never train.
      parseJob(
        new TextEncoder().encode(
          JSON.stringify({
            ...job,
            ...settingsOf(profile),
            stateEverySeconds: undefined,
            approach: undefined,
          }),
        ),
      );
    }
  });

  it("has a schema.json equal to what the agent checks", async () => {
    const schema = JSON.parse(await readFile(join(builtInProfilesFolder, "schema.json"), "utf8")) as Record<
      string,
      unknown
    >;
    assert.deepEqual(schema, {
      ...z.toJSONSchema(profileSchema, { target: "draft-2020-12", io: "input" }),
      title: "Stemma firmware profile",
    });
  });

  it("describes every field in its schema", () => {
    const bare: string[] = [];
    const walk = (schema: Record<string, unknown>, path: string): void => {
      const properties = schema["properties"] as Record<string, Record<string, unknown>> | undefined;
      if (properties === undefined) {
        if (!("description" in schema)) bare.push(path);
        return;
      }
      for (const [name, inner] of Object.entries(properties))
        if (!["$schema", "format", "name", "description", "activation"].includes(name) || path !== "")
          walk(inner, path === "" ? name : `${path}.${name}`);
    };
    walk(z.toJSONSchema(profileSchema), "");
    assert.deepEqual(
      bare,
      ["disk.reserveBytes.slots", "disk.reserveBytes.outbox", "disk.reserveBytes.head"].filter((name) =>
        bare.includes(name),
      ),
    );
  });

  it("names the field that is wrong", async () => {
    const invalid = (value: unknown, part: string): void => {
      assert.throws(
        () => parseProfile(value, "p"),
        (error) => isStemmaError(error, "PROFILE_INVALID") && error.message.includes(part),
      );
    };
    const good = testProfile();
    invalid({ ...good, activation: "whenever" }, "activation");
    invalid({ ...good, link: { ...good.link, window: 0 } }, "link.window");
    invalid({ ...good, link: { ...good.link, keepaliveSeconds: 5 } }, "link.keepaliveSeconds");
    invalid({ ...good, colour: "red" }, "colour");
    invalid({ ...good, disk: { ...good.disk, budgetBytes: 1 } }, "disk.reserveBytes");
    invalid({ ...good, training: { ...good.training, dutyHours: { from: 5, to: 5 } } }, "training.dutyHours");
    invalid(
      { ...good, training: { ...good.training, dutyHours: { from: 24, to: 0 } } },
      "training.dutyHours",
    );
    invalid({ ...good, training: { ...good.training, backends: ["cuda"] } }, "training.backends");
    invalid("no object", "the file");
    await assert.rejects(
      loadProfile(files, "toaster"),
      (error) => isStemmaError(error, "PROFILE_INVALID") && error.message.includes("raspberry-pi"),
    );
  });
});
