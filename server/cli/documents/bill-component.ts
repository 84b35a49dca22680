/** Components of a bill of materials, as CycloneDX 1.6 has them; every text in them can be shown. Pure. */
import { shownText } from "./card-text.js";

export interface BillComponent {
  readonly type: string;
  readonly "bom-ref": string;
  readonly name: string;
  readonly version?: string;
  readonly description?: string;
  readonly hashes?: readonly { readonly alg: "SHA-256"; readonly content: string }[];
  readonly licenses?: readonly object[];
  readonly modelCard?: object;
  readonly data?: readonly object[];
  readonly properties?: readonly BillProperty[];
}

interface BillProperty {
  readonly name: string;
  readonly value: string;
}

/** Values that are undefined are left out. */
export type Properties = Readonly<Record<string, string | undefined>>;

export function propertiesOf(values: Properties): readonly BillProperty[] {
  return Object.entries(values).flatMap(([name, value]) =>
    value === undefined ? [] : [{ name: shownText(name), value: shownText(value) }],
  );
}

export function hashesOf(hash: string): Required<Pick<BillComponent, "hashes">> {
  return { hashes: [{ alg: "SHA-256", content: hash }] };
}
