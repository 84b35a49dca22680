/** A profile with which no device can train is refused when a device is enrolled. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { checkEnrolmentProfile } from "../../../../server/operations/devices/enrolment-profile.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";

it("accepts the profiles that come with Stemma, and names the field of one that cannot train", async () => {
  for (const name of ["generic", "raspberry-pi", "jetson-orin", "x86-cuda"])
    await checkEnrolmentProfile(nodeFiles(), name);
  // On the device, whose agent checks them.
  for (const name of ["unknown", "/etc/profile.json", "../../etc/passwd"])
    await checkEnrolmentProfile(nodeFiles(), name);
  const files = memoryFiles();
  await files.makeFolder("/profiles");
  for (const [name, value] of [
    ["cuda-only", { training: { backends: ["cuda"] } }],
    ["no-training", {}],
    ["damaged", undefined],
  ] as const) {
    await writeDurably(
      files,
      `/profiles/${name}.json`,
      new TextEncoder().encode(JSON.stringify(value) ?? "{"),
    );
    await assert.rejects(
      checkEnrolmentProfile(files, name, "/profiles"),
      (error) => isStemmaError(error, "PROFILE_INVALID") && error.message.includes("training.backends"),
      name,
    );
  }
});
