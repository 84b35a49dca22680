/** A consistent lie: a story with another value of a member, all of its commitments and hashes made anew. */
import { commitTo } from "../../shared/provenance/commitments.js";
import { shortOf } from "../../shared/provenance/encode-provenance.js";
import { decodeCanonical, encodeCanonical, type CanonicalValue } from "../../shared/model/canonical-json.js";
import type { ObjectKind } from "../../shared/model/model.js";
import { objectId } from "../../shared/tensor/hash.js";

type Tree = Record<string, CanonicalValue>;
type Opening = { readonly salt: string; value: CanonicalValue };
interface StoryTree {
  readonly record: Tree & { readonly objects: Tree };
  readonly provenance: Tree & { readonly committed: Tree };
  readonly openings: { readonly openings: Record<string, Opening> };
  readonly environment: { readonly fields: Tree };
  readonly metadata: { readonly fields: Tree };
}

const limits = { maxBytes: 4 * 1024 * 1024, maxDepth: 32 };

export interface StoryLeaf {
  /** By the table of members. */
  readonly path: readonly string[];
  readonly value: CanonicalValue;
  /** The story with this value in the leaf's place. */
  readonly with: (value: CanonicalValue) => string;
}

/** Every value of a story that is not a hash of something else in it, nor a format. */
export function leavesOfStory(text: string): readonly StoryLeaf[] {
  const story = read(text);
  const roots: readonly (readonly [prefix: readonly string[], at: readonly string[]])[] = [
    [["record"], ["record"]],
    [["provenance"], ["provenance"]],
    [["metadata"], ["metadata", "fields"]],
    [["environment"], ["environment", "fields"]],
    ...Object.keys(story.openings.openings).map(
      (name) => [[name], ["openings", "openings", name, "value"]] as const,
    ),
  ];
  return roots
    .flatMap(([prefix, at]) =>
      leavesBelow([], at.reduce<CanonicalValue>(inside, story as never)).map(({ path, value }) => ({
        path: [...prefix, ...path],
        value,
        with: (other: CanonicalValue) => {
          const changed = read(text);
          const place = [...at, ...path];
          const holder = place.slice(0, -1).reduce<CanonicalValue>(inside, changed as never) as Tree;
          holder[place.at(-1) as string] = other;
          return withHashes(changed);
        },
      })),
    )
    .filter(({ path }) => !isMadeAnew(path.join(".")));
}

function read(text: string): StoryTree {
  return decodeCanonical(Buffer.from(text), limits) as unknown as StoryTree;
}

function inside(value: CanonicalValue, name: string): CanonicalValue {
  return (value as Tree)[name] as CanonicalValue;
}

function isMadeAnew(path: string): boolean {
  return (
    /^record\.objects\.(openings|metadata|environment|provenance)$|^provenance\.(committed|environment)|format$/.test(
      path,
    ) && !path.startsWith("data.")
  );
}

function leavesBelow(
  path: readonly string[],
  value: CanonicalValue,
): readonly { readonly path: readonly string[]; readonly value: CanonicalValue }[] {
  if (typeof value !== "object" || value === null) return [{ path, value }];
  return Object.entries(value).flatMap(([name, member]) =>
    leavesBelow([...path, name], member as CanonicalValue),
  );
}

function withHashes(story: StoryTree): string {
  const { record, provenance, openings, environment, metadata } = story;
  const idOf = (kind: ObjectKind, value: unknown): string =>
    shortOf(objectId(kind, encodeCanonical(value as CanonicalValue, limits)));
  for (const [name, { salt, value }] of Object.entries(openings.openings))
    provenance.committed[name] = shortOf(
      commitTo({ salt: new Uint8Array(Buffer.from(salt, "base64url")), value }),
    );
  provenance["environment"] = idOf("environment", environment);
  Object.assign(record.objects, {
    environment: provenance["environment"],
    metadata: idOf("metadata", metadata),
    openings: idOf("openings", openings),
    provenance: idOf("provenance", provenance),
  });
  return Buffer.from(encodeCanonical(story as unknown as CanonicalValue, limits)).toString("utf8");
}
