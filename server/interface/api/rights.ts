/** The rights that operations need, and the roles, each a named set of rights. Pure. */

/** Every right, with what it allows. */
export const rights = {
  read: "read models, devices, rollouts, releases, facts, events and figures",
  "read-predictions": "read what models predict for each sample, with the true labels",
  "read-data": "read stored samples",
  "read-logs": "read the logs of the server and of devices",
  publish: "publish what the owner's keys signed",
  "roll-out": "roll out signed releases",
  deploy: "choose what devices run without the owner's signature, and publish the first releases",
  "publish-models": "publish models with their lineage, and take models of others",
  "change-models": "import, train, replay, measure, tag and hold models",
  "change-data": "register data, read them again and store their samples",
  "change-devices": "label, set and quarantine devices, and ask them for work",
  enrol: "enrol, accept and revoke devices",
  "change-storage": "check, plan and rearrange what is stored",
  delete: "retire models, remove data and devices, drop and collect what is stored, set rules that do",
  administer: "make tokens, approve code, name authorities, erase, back up, set storage tiers and webhooks",
} as const;
export type Right = keyof typeof rights;

const operator: readonly Right[] = [
  "read",
  "read-predictions",
  "read-data",
  "read-logs",
  "publish",
  "roll-out",
  "deploy",
  "publish-models",
  "change-models",
  "change-data",
  "change-devices",
  "enrol",
  "change-storage",
  "delete",
];

/** The roles of tokens. */
export const roles = ["viewer", "publisher", "releaser", "operator", "admin"] as const;
export type Role = (typeof roles)[number];

export const rightsOfRole: Readonly<Record<Role, ReadonlySet<Right>>> = {
  viewer: new Set(["read", "read-predictions"]),
  publisher: new Set(["read", "publish-models"]),
  releaser: new Set(["read", "publish", "roll-out"]),
  operator: new Set(operator),
  admin: new Set([...operator, "administer"]),
};

/** The rights and the reach of a token's bearer. */
export interface Grant {
  readonly role: Role;
  /** The fleets that it is limited to; absent: all. */
  readonly fleets?: readonly string[] | undefined;
}

/** @param grant undefined: a command, the local socket, or the server itself, which may do everything */
export function holdsRight(grant: Grant | undefined, right: Right): boolean {
  return grant === undefined || rightsOfRole[grant.role].has(right);
}

export function reachesFleet(grant: Grant | undefined, fleet: string): boolean {
  return grant?.fleets === undefined || grant.fleets.includes(fleet);
}
