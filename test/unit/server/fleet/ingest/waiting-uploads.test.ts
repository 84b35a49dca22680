/** Announcements that wait for an upload slot: in order, by device, and within bounds. */
import assert from "node:assert/strict";
import { beforeEach, it } from "node:test";
import type { Accepted } from "../../../../../server/fleet/ingest/uploads/announcement.js";
import { announcementBytes } from "../../../../../server/fleet/ingest/uploads/message-bytes.js";
import { WaitingUploads } from "../../../../../server/fleet/ingest/uploads/waiting-uploads.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";

const accepted = (name: string): Accepted =>
  ({
    versionId: sha256(name),
    recordBytes: new Uint8Array(100),
    objects: new Map(),
    record: {},
  }) as unknown as Accepted;
const each = announcementBytes(accepted("a"));
let waiting: WaitingUploads;
const add = (device: string, name: string): void =>
  waiting.add(device, { accepted: accepted(name), withoutBase: false });
const code = (device: string): string | undefined => waiting.refusalOf(device, accepted("next"))?.code;
const any = (): boolean => true;

beforeEach(() => {
  waiting = new WaitingUploads({ waitingPerDevice: 3, waitingBytes: 5 * each });
});

it("takes them in the order in which they came, the first that matches", () => {
  for (const name of ["a", "b", "c"]) add("van-7", name);
  const isB = ({ versionId }: Accepted): boolean => versionId === sha256("b");
  assert.equal(waiting.take("van-7", isB)?.accepted.versionId, sha256("b"));
  assert.equal(waiting.take("van-7", isB), undefined);
  assert.equal(waiting.take("van-8", any), undefined);
  assert.equal(waiting.take("van-7", any)?.accepted.versionId, sha256("a"));
  assert.deepEqual(
    [...waiting.all()].map(({ device, accepted: { versionId } }) => [device, versionId]),
    [["van-7", sha256("c")]],
  );
  assert.equal(waiting.has("van-7", sha256("c")), true);
  assert.equal(waiting.has("van-8", sha256("c")), false);
});

it("refuses what is over the bounds of a device or of all, until others were taken or dropped", () => {
  for (const name of ["a", "b", "c"]) {
    assert.equal(code("van-7"), undefined);
    add("van-7", name);
  }
  assert.equal(code("van-7"), "QUOTA_EXCEEDED");
  assert.equal(code("van-8"), undefined, "of another device");
  waiting.take("van-7", any);
  assert.equal(code("van-7"), undefined);
  for (const name of ["d", "e", "f"]) add("van-8", name);
  assert.equal(code("van-7"), "QUOTA_EXCEEDED", "the bytes of all");
  assert.equal(code("van-9"), "QUOTA_EXCEEDED");
  waiting.drop("van-8");
  assert.equal(code("van-9"), undefined);
  assert.equal(waiting.has("van-8", sha256("d")), false);
  assert.equal(waiting.has("van-7", sha256("b")), true);
  for (const name of ["g", "h", "i"]) add("van-8", name);
  waiting.clear();
  for (const name of ["a", "b", "c"]) add("van-8", name);
  assert.equal(code("van-9"), undefined, "nothing of before is counted");
});
