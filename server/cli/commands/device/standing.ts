/** `stemma device quarantine|rm`: whether a device is served, and whether it is listed. */
import { plain } from "../../plain-command.js";

const quarantine = plain("quarantineDevice", {
  name: "quarantine",
  about: "refuse a device for now; unlike a revocation this can be taken back",
  takes: { device: "" },
  options: { because: "<reason> kept with the fact", release: "serve it again" },
  input: ({ release }) => ({ quarantined: !release }),
  help: `
A quarantined device is cut off and refused, and everything on it stays: its agent waits
and reports all it has when it is served again. The server quarantines a device by itself
where two copies of its enrolment are in use; then enrol it again rather than releasing it.

  stemma device quarantine van-7 --because "sends strange models"
  stemma device quarantine van-7 --release
`,
  print: (_, { device, release }) => ({
    names: [device],
    text: release
      ? `${device} is served again; its agent connects when it tries next, at the latest after 15 minutes`
      : `${device} is quarantined; serve it again with: stemma device quarantine ${device} --release`,
  }),
});

const remove = plain("removeDevice", {
  name: "rm",
  about: "take a revoked device out of the lists; its models and facts stay",
  takes: { device: "" },
  options: {
    because: "<reason> kept with the fact",
    dryRun: "only check that the device can be removed",
  },
  print: (_, { device, dryRun }) => ({
    data: { device, removed: !dryRun },
    names: [device],
    text: `${dryRun ? "would remove" : "removed"} ${device}; its models stay: stemma model list --device ${device}`,
  }),
});

export const commands = [quarantine, remove];
