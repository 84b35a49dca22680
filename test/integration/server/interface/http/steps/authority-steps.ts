/** Certificate authorities of the fleet's owner. */
import { makeAuthority, makeRevocationList } from "../../../../../helpers/test-pki.js";
import { testFleet as fleet } from "../../../../../helpers/test-server.js";
import type { Step } from "./step.js";

interface OwnersPki {
  /** PEM. */
  readonly root: string;
  readonly list: string;
}

let made: Promise<OwnersPki> | undefined;
/** The same for both homes, whose answers are compared. */
function ownersPki(): Promise<OwnersPki> {
  made ??= makePki();
  return made;
}

async function makePki(): Promise<OwnersPki> {
  const authority = await makeAuthority("root");
  return { root: authority.certificate, list: await makeRevocationList(authority, { serials: ["4a"] }) };
}

export const authoritySteps: readonly Step[] = [
  {
    name: "addAuthority",
    ask: async (at) => at.addAuthority({ fleet, authority: "oem", certificates: (await ownersPki()).root }),
  },
  { name: "authorities", ask: (at) => at.authorities({ fleet }) },
  {
    name: "takeRevocationList",
    ask: async (at) => at.takeRevocationList({ fleet, authority: "oem", list: (await ownersPki()).list }),
  },
  { name: "removeAuthority", ask: (at) => at.removeAuthority({ fleet, authority: "oem" }) },
];
