/** `stemma release list|show|root`: what is released, by which keys, and until when. */
import { resolve } from "node:path";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { noSuchRelease } from "../../../../shared/missing-errors.js";
import { releaseRoles } from "../../../../shared/trust/releases/metadata.js";
import {
  keysOf,
  publishedOfSet,
  type PublishedReleases,
} from "../../../../shared/trust/releases/release-change.js";
import { listed, plain, type Printed } from "../../plain-command.js";
import { published } from "../../release-choices.js";

const list = plain("releases", {
  name: "list",
  about: "the releases of the fleet",
  print: ({ releases, revoked, expires, isExpired }, _, { fleet }) =>
    listed(
      [
        ...releases.map(({ name, model, recipe, versionId }) => ({
          name,
          model: model ?? (recipe === null ? "not here" : `recipe ${recipe}`),
          versionId,
          state: "valid",
        })),
        ...revoked.map(({ name, versionId, because }) => ({
          name,
          model: "",
          versionId,
          state: `revoked: ${because}`,
        })),
      ],
      {
        nameOf: (row) => row.name,
        columns: [
          { title: "RELEASE", value: (row) => row.name },
          { title: "MODEL", value: (row) => row.model },
          { title: "VERSION", value: (row) => row.versionId.slice(0, 16) },
          { title: "STATE", value: (row) => row.state },
        ],
        empty: `no releases in the fleet ${fleet}`,
        ...(expires === null ? {} : { text: `${isExpired ? "EXPIRED at" : "valid until"} ${expires}` }),
      },
    ),
});

const show = plain("releases", {
  name: "show",
  about: "what a release states, or who signs releases",
  takes: { name: "[name] a release; absent: keys, and until when each role is valid" },
  print: (answer, { name }, { fleet }) => {
    const now = publishedOfSet(published(answer, fleet));
    if (name === undefined) return describeKeys(now);
    const found = answer.releases.find((one) => one.name === name);
    if (found === undefined) throw noSuchRelease(fleet, name);
    const manifest = JSON.parse(found.manifest) as unknown;
    return {
      data: { ...found, manifest },
      names: [name],
      text: JSON.stringify(manifest, undefined, 2),
      isVerbatim: true,
    };
  },
});

function describeKeys(now: PublishedReleases): Printed {
  const keys = keysOf(now.root);
  const rows = releaseRoles.map((role) => ({
    role,
    version: now[role].signed.version,
    expires: now[role].signed.expires,
    threshold: keys[role].threshold,
    publicKeys: keys[role].publicKeys,
  }));
  return listed(rows, {
    nameOf: (row) => row.role,
    columns: [
      { title: "ROLE", value: (row) => row.role },
      { title: "VERSION", value: (row) => String(row.version) },
      { title: "VALID UNTIL", value: (row) => row.expires },
      {
        title: "SIGNATURES",
        value: ({ threshold, publicKeys }) =>
          `${threshold} of ${publicKeys.map((key) => `${key.slice(0, 16)}…`).join(", ")}`,
      },
    ],
  });
}

const root = plain("releases", {
  name: "root",
  about: "write the root for devices to pin: stemma agent trust FILE",
  options: { file: { text: "<file> where it goes", required: true } },
  print: async (answer, { file }, { fleet }) => {
    const set = published(answer, fleet);
    // Refuses metadata that is not signed as it says: devices would pin its root.
    publishedOfSet(set);
    const text = set.roots.at(-1) ?? "";
    await writeDurably(nodeFiles(), resolve(file), Buffer.from(text));
    return { data: { file: resolve(file) }, names: [resolve(file)], text: `wrote ${file}` };
  },
});

export const commands = [list, show, root];
