/** The sentences of `stemma publish` and `stemma pull` about what travelled and what was left out. */
import { formatBytes } from "../../../shared/cli/output.js";
import { counted } from "../../../shared/printable.js";
import type { BundleManifest } from "../../interface/api/models/bundle-schemas.js";
import type { Printed } from "../plain-command.js";
import type { Copied } from "./copy-bundle.js";

export function copiedText(did: string, { manifest, report, objects, bytes }: Copied): Printed {
  const { recorded, alreadyHere, tagsKept } = report;
  const names = recorded.map(
    ({ name, version, versionId }) => `${name}:${version} (${versionId.slice(0, 12)})`,
  );
  const here =
    alreadyHere === 0 ? "" : `; ${counted(alreadyHere, "version was", "versions were")} there before`;
  const lines = [
    `${did} ${counted(recorded.length, "version")}: ${counted(objects, "object")}, ${formatBytes(bytes)}${here}`,
    ...names.slice(-20).map((name) => `  ${name}`),
  ];
  return {
    data: {
      models: manifest.models,
      ...report,
      objects,
      bytes,
      absent: manifest.absent,
      withheld: manifest.withheld,
    },
    names: manifest.models,
    text: lines.join("\n"),
    notes: [
      ...leftOut(manifest),
      ...(tagsKept.length === 0
        ? []
        : [
            `stemma: note: ${counted(tagsKept.length, "tag")} not given there, where another version has it or somebody else sent the model: ${tagsKept
              .map(({ tag }) => tag)
              .slice(0, 5)
              .join(", ")}`,
          ]),
    ],
  };
}

/** Lines that say what does not travel. */
export function leftOut({ absent, redacted, withheld }: BundleManifest): readonly string[] {
  const parents = ["retired", "not asked for", "not known"].flatMap((why) => {
    const count = absent.filter((each) => each.why === why).length;
    return count === 0 ? [] : [`${counted(count, "parent")} (${why})`];
  });
  const parts = [
    ...parents,
    ...(withheld.data === 0
      ? []
      : [`stored samples (${counted(withheld.data, "chunk")}; --with-data sends them)`]),
    ...(withheld.engines === 0 ? [] : [counted(withheld.engines, "engine")]),
    ...(withheld.predictions === 0
      ? []
      : [counted(withheld.predictions, "evaluation") + " with predictions"]),
    ...(redacted.length === 0 ? [] : [counted(redacted.length, "redacted story", "redacted stories")]),
  ];
  return parts.length === 0 ? [] : [`stemma: note: left out: ${parts.join(", ")}`];
}
