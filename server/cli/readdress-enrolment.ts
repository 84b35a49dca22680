/** `stemma device enroll DEVICE --readdress FILE`: an enrolment file again, with the server's present addresses. */
import { resolve } from "node:path";
import { defined } from "../../shared/defined.js";
import { StemmaError } from "../../shared/errors.js";
import { writeDurably } from "../../shared/files/durable-write.js";
import { regularFiles } from "../../shared/files/regular-files.js";
import { loadEnrolment, pinnedKeys, sealEnrolment } from "../../shared/trust/enrolment.js";
import { followKeyChanges } from "../../shared/trust/key-change.js";
import { publicUrlHint, unreachableAddresses } from "../services/context/public-addresses.js";
import type { CommandContext } from "./context.js";

export interface Readdressing {
  readonly device: string;
  /** The device's present enrolment file. */
  readonly from: string;
  /** The path of the new file; without it, it replaces the present one. */
  readonly to: string | undefined;
  readonly dryRun: boolean;
}

/**
 * Keys, token and generation stay: only the file has them, the server keeps no copy.
 * @throws ENROLMENT_INVALID where the file is not the device's present enrolment at this server; FILE_MISSING
 */
export async function readdressEnrolment(
  { device, from, to, dryRun }: Readdressing,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const files = regularFiles();
  const path = resolve(to ?? from);
  const present = await loadEnrolment(files, resolve(from));
  const opened = await operations();
  const { serverPublicKey, keyChanges = [], mqtt, http, ca, authorities, root } = await opened.addresses();
  const followed = followKeyChanges(present.serverPublicKey, keyChanges);
  const known = await opened.device({ fleet: options.fleet, device });
  if (
    present.device !== device ||
    present.fleet !== options.fleet ||
    followed.publicKey !== serverPublicKey ||
    present.devicePublicKey !== known.publicKey
  )
    throw new StemmaError(
      "ENROLMENT_INVALID",
      `${from} is not the present enrolment of ${device} in the fleet ${options.fleet} at this server. Give the file of its last enrolment, or enrol it again with \`stemma device enroll ${device} --line …\`.`,
    );
  const { http: _http, ca: _ca, authorities: _authorities, ...kept } = present;
  const enrolment = sealEnrolment({
    ...kept,
    ...pinnedKeys(followed, kept.formerServerKeys),
    mqtt: [...mqtt],
    root,
    ...defined({ http, ca, authorities: authorities && [...authorities] }),
  });
  if (!dryRun)
    // regularFiles creates files that only their owner may read.
    await writeDurably(files, path, new TextEncoder().encode(`${JSON.stringify(enrolment, null, 2)}\n`));
  await noteAddresses(enrolment.mqtt, { output, operations });
  output.print({
    data: { device, file: path, mqtt: enrolment.mqtt, http: enrolment.http, written: !dryRun },
    names: [device],
    text: `${dryRun ? "would write" : "wrote"} ${path} with the addresses ${enrolment.mqtt.join(", ")}; its keys are those of before. Bring it to the device and start its agent again`,
  });
}

/**
 * Tells the person if devices on other machines cannot use an address of an enrolment, and if nobody knows whether the
 * server will have these addresses.
 */
export async function noteAddresses(
  urls: readonly string[],
  { output, operations }: Pick<CommandContext, "output" | "operations">,
): Promise<void> {
  if ((await (await operations()).health()).mqttUrl === undefined)
    output.info(
      `stemma: note: no server runs on this home, so the addresses (${urls.join(", ")}) are those of server.json ` +
        "and its defaults. What a server is told on its command line only (--tls, --host, --mqtt-port, --public-url) " +
        "is not known here: put it into server.json, or start the server first",
    );
  const unreachable = unreachableAddresses(urls);
  if (unreachable.length > 0)
    output.info(`stemma: warning: ${unreachable.join("; ")}. For devices elsewhere ${publicUrlHint}`);
}
