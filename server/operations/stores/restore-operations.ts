/** Operations on a restore that the fleet's owner signs: what is to be signed, and bringing the signature. */
import { describeRestore, restoreFileText } from "../../../shared/trust/releases/restore-approval.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import { checkedRestoreApproval, restoreToSign } from "../../storage/repository/restore-approvals.js";

export function restoreOperations({
  fleets,
  live,
  home,
}: OperationsContext): Pick<ServerOperations, "restoreToSign" | "approveRestore"> {
  return {
    restoreToSign: async ({ fleet }) => {
      const file = await restoreToSign(await fleets.get(fleet));
      const restore = file.approval.signed.length - 1;
      return { restore, says: [...describeRestore(file)], file: restoreFileText(file) };
    },
    approveRestore: async ({ fleet, file: text, dryRun = false }) => {
      const repository = await fleets.get(fleet);
      const { file, restore, approval } = await checkedRestoreApproval(repository, text);
      const { factPosition } = restore;
      if (!dryRun && restore.approval !== approval) {
        const atMs = home.ports.clock.now();
        await repository.append({ type: "restore-approved", atMs, restore: factPosition, approval });
        await (await live?.fleet(fleet))?.restoreApproved();
      }
      return { restore: factPosition, says: [...describeRestore(file)] };
    },
  };
}
