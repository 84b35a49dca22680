/** `stemma device set|label`: settings of devices, and labels by which selections name them. */
import { describeSettings } from "../../../../shared/wire/device-settings.js";
import { changedDevices, describeKeyValues, parseKeyValues } from "../../key-values.js";
import { plain } from "../../plain-command.js";

const set = plain("setDevices", {
  name: "set",
  about: "change settings of a device while it runs, or of many devices at once",
  takes: { words: "<words...> the device, then KEY=VALUE or KEY-; with --select only these" },
  options: {
    select: "<selection> set them on every device that this selection means, instead of one",
    dryRun: "show what would be, change nothing",
  },
  help: `
KEY=VALUE sets one, KEY- returns to what is configured on the device. Settings are kept:
a device that is not connected gets them with its next connection, and one that is
enrolled again gets them too. \`device show\` shows what was set and what the device has.

These can be set:
${describeSettings()
  .map((line) => `  ${line}`)
  .join("\n")}

Examples:
  stemma device set van-7 log.level=debug
  stemma device set van-7 log.level-
  stemma device set --select 'label.region=eu' training=off
`,
  input: ({ words, select }) => {
    const { target, changes } = changedDevices(words, select);
    const advice = "Write log.level=debug, or log.level- to return to the device's own.";
    return { ...target, settings: parseKeyValues(changes, advice) };
  },
  print: (changed, { dryRun }) => ({
    names: changed.map(({ device }) => device),
    text:
      changed.length === 0
        ? "the selection means no device; nothing was changed"
        : changed
            .map(
              ({ device, settings: { desired }, online }) =>
                `${device} ${dryRun ? "would have" : "is to have"}: ${describeKeyValues(desired, "nothing set")}` +
                (online ? "" : " (not connected; it gets them when it is)"),
            )
            .join("\n"),
  }),
});

const label = plain("labelDevices", {
  name: "label",
  about: "give a device labels, or take them away; or many devices at once",
  takes: { words: "<words...> the device, then KEY=VALUE or KEY-; with --select only these" },
  options: {
    select: "<selection> label every device that this selection means, instead of one",
    dryRun: "show what would be, change nothing",
  },
  help: `
KEY=VALUE gives a label, KEY- removes one. Labels stay when a device is enrolled again.

Examples:
  stemma device label van-7 region=eu depot=lyon
  stemma device label van-7 depot-
  stemma device label --select 'profile=jetson-orin and seen<30d' wave=1
  stemma device list --select 'label.region=eu and not label.wave'

docs/selections.md describes selections.
`,
  input: ({ words, select }) => {
    const { target, changes } = changedDevices(words, select);
    return { ...target, labels: parseLabels(changes) };
  },
  print: (changed, { dryRun }) => ({
    names: changed.map(({ device }) => device),
    text:
      changed.length === 0
        ? "the selection means no device; nothing was changed"
        : changed
            .map(
              ({ device, labels }) =>
                `${dryRun ? "would label" : "labelled"} ${device}: ${describeKeyValues(labels, "no labels")}`,
            )
            .join("\n"),
  }),
});

/** Labels by key; null: to be removed. */
export function parseLabels(words: readonly string[]): Record<string, string | null> {
  return parseKeyValues(words, "Write region=eu, or region- to remove the label region.");
}

export const commands = [set, label];
