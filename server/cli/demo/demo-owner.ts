/**
 * The owner of the demo's fleet: signs offline which versions its vehicles may run, with a key that the server does not
 * have. The vehicles pin the owner's root when they are enrolled, and install nothing else but what they made
 * themselves.
 */
import { join } from "node:path";
import { StemmaError } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { makeFolderDurably } from "../../../shared/files/make-folder.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { nodeRandom } from "../../../shared/adapters/node-ports.js";
import { generateKey, type PrivateKey } from "../../../shared/trust/keys.js";
import { changeText } from "../../../shared/trust/releases/change-file.js";
import { unsignedManifest } from "../../../shared/trust/releases/manifest.js";
import {
  addRelease,
  defaultValidDays,
  firstChange,
  publishedOfSet,
  refreshReleases,
  signChange,
  type PublishedReleases,
  type ReleaseChange,
  type RoleKeys,
  type Validity,
} from "../../../shared/trust/releases/release-change.js";
import { openSealedKey, saveSealedKey } from "../../../shared/trust/sealed-key.js";
import type { FleetReleasesAnswer } from "../../interface/api/rollouts/release-definitions.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import { demoFleet } from "./demo-plan.js";

/** Releases that end sooner are signed for longer: a demo may be run again after months. */
const refreshBeforeMs = 30 * 86_400_000;

export class DemoOwner {
  private constructor(
    private readonly operations: Pick<ServerOperations, "releases" | "releaseManifest" | "publishReleases">,
    private readonly key: PrivateKey,
    private readonly now: () => number,
  ) {}

  /**
   * The owner of an earlier run, or a new one, who begins the fleet's releases.
   * @param folder of the owner: the key, encrypted, and its passphrase
   * @throws CHECK_FAILED where the fleet has releases and the key that signed them is not there
   */
  static async open(
    operations: DemoOwner["operations"],
    folder: string,
    now: () => number = Date.now,
  ): Promise<DemoOwner> {
    const before = await operations.releases({ fleet: demoFleet });
    const key = await ownersKey(folder, before.versions !== null);
    const owner = new DemoOwner(operations, key, now);
    const validity = owner.#validity();
    if (before.metadata === null) await owner.#publish(firstChange(demoFleet, rolesOf(key), validity));
    else if (Date.parse(before.expires ?? "") - validity.nowMs < refreshBeforeMs)
      await owner.#publish(refreshReleases(demoFleet, publishedOf(before), validity, false));
    return owner;
  }

  /**
   * Releases a version, where that was not done before.
   * @param model name:version
   * @returns the release's name
   */
  async release(model: string): Promise<string> {
    const now = await this.operations.releases({ fleet: demoFleet });
    if (now.releases.some(({ name }) => name === model)) return model;
    const { manifest } = await this.operations.releaseManifest({ fleet: demoFleet, model });
    const change = addRelease(publishedOf(now), model, unsignedManifest(manifest), this.#validity());
    await this.#publish(change);
    return model;
  }

  /** What `stemma release sign` and `publish` do. */
  async #publish(change: ReleaseChange): Promise<void> {
    const signed = signChange(change, this.key).change;
    await this.operations.publishReleases({ fleet: demoFleet, change: changeText(signed) });
  }

  #validity(): Validity {
    return { nowMs: this.now(), days: defaultValidDays };
  }
}

function publishedOf({ metadata }: FleetReleasesAnswer): PublishedReleases {
  if (metadata === null) throw new StemmaError("INTERNAL", "The demo's fleet has no releases.");
  return publishedOfSet(metadata);
}

/** One key for all roles. */
function rolesOf({ publicKey }: PrivateKey): RoleKeys {
  const keys = { publicKeys: [publicKey], threshold: 1 };
  return { root: keys, targets: keys, snapshot: keys, timestamp: keys };
}

/** @throws CHECK_FAILED */
async function ownersKey(folder: string, hasReleases: boolean): Promise<PrivateKey> {
  const files = nodeFiles();
  const paths = { key: join(folder, "owner.key"), phrase: join(folder, "passphrase") };
  if ((await files.stat(paths.key)) !== undefined)
    return openSealedKey(files, paths.key, new TextDecoder().decode(await files.read(paths.phrase)));
  if (hasReleases)
    throw new StemmaError(
      "CHECK_FAILED",
      `${paths.key}, which signed the releases of this demo, is gone. Remove the demo's folder with \`npm start -- --clean\` and run it again.`,
    );
  await makeFolderDurably(files, folder);
  const phrase = Buffer.from(nodeRandom().bytes(24)).toString("base64url");
  const key = generateKey(nodeRandom());
  // Before the key: without it the key would be of no use.
  await writeDurably(files, paths.phrase, new TextEncoder().encode(phrase));
  await saveSealedKey({ files, random: nodeRandom() }, paths.key, key, phrase);
  return key;
}
