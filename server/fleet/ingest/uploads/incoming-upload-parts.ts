/** The parts that the incoming upload of one version works with. Types only. */
import type { Clock, Log, Random } from "../../../../shared/ports.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { WantReason } from "../../../../shared/wire/messages.js";
import type { WindowBudget } from "../../../../shared/wire/transfer/window-budget.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";
import type { Accepted } from "./announcement.js";
import type { Claims } from "./claims.js";
import type { DeviceSender } from "../sessions/device-sender.js";
import type { IngestLimits } from "../limits.js";
import type { SpoolFolder } from "./spool.js";
import type { TransferProgress } from "./upload-transfer.js";

export interface IncomingUploadParts {
  readonly repository: Pick<
    FleetRepository,
    "objects" | "get" | "record" | "recordClaim" | "claim" | "hasHad" | "hasSent" | "assignment"
  >;
  readonly claims: Pick<Claims, "isTaken">;
  readonly spools: SpoolFolder;
  /** The window that all uploads to this server share. */
  readonly budget: WindowBudget;
  /** The window that the uploads of this device share while its link is slow. */
  readonly slowBudget: WindowBudget;
  readonly sender: DeviceSender;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly limits: IngestLimits;
  /** Objects were requested: their number, and their bytes before encoding. */
  onWanted(want: { readonly reason: WantReason; readonly objects: number; readonly bytes: number }): void;
  /** Called when blocks have arrived. */
  onProgress(progress: TransferProgress): void;
}

export interface IncomingUploadOptions {
  readonly device: string;
  readonly accepted: Accepted;
  /** The version before it in its line, if this generation of the device sent it. */
  readonly predecessor: Hash | undefined;
  /** The device does not have the bases, so the missing tensors are requested raw. */
  readonly withoutBase: boolean;
  /** A coded transfer of this version could not be used: the version is requested raw. */
  readonly rawOnly: boolean;
}
