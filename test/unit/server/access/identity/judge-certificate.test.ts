// The judge of devices' certificates as time goes on: ended lists and what their owner chose, and who is cut off.
import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { before, describe, it } from "node:test";
import {
  authorityWarnings,
  endingCertificates,
  whyCutOff,
} from "../../../../../server/access/identity/authority-upkeep.js";
import { openAuthority } from "../../../../../server/access/identity/authority.js";
import {
  certificateJudge,
  type JudgedCertificate,
} from "../../../../../server/access/identity/judge-certificate.js";
import { checkRevocationList } from "../../../../../server/access/identity/revocation-list.js";
import {
  numberKey,
  type FleetCertificates,
  type TrustedAuthority,
} from "../../../../../server/access/identity/trusted-authority.js";
import { nodeRandom } from "../../../../../shared/adapters/node-ports.js";
import type { EndedListPolicy } from "../../../../../shared/journal/facts/authority-facts.js";
import type { DeviceCertificate } from "../../../../../shared/journal/facts/device-facts.js";
import { certificatesOfPem } from "../../../../../shared/trust/certificates/pem-chain.js";
import { generateKey } from "../../../../../shared/trust/keys.js";
import {
  makeAuthority,
  makeDeviceCertificate,
  makeRevocationList,
  newSerial,
  type TestAuthority,
  type TestCertificate,
} from "../../../../helpers/test-pki.js";

const startMs = Date.now();
const dayMs = 86_400_000;

describe("the judge of certificates", () => {
  let root: TestAuthority;
  let issuing: TestAuthority;
  let device: TestCertificate;
  let judgeAt: (
    state: TrustedAuthority | undefined,
    atMs: number,
    options?: { readonly isFirst?: boolean; readonly ended?: string },
  ) => JudgedCertificate;
  before(async () => {
    root = await makeAuthority("root");
    issuing = await makeAuthority("issuing", root);
    device = await makeDeviceCertificate(issuing, "van-7", { between: [issuing] });
    const own = await openAuthority(generateKey(nodeRandom()), nodeRandom());
    const chain = certificatesOfPem(device.certificate);
    judgeAt = (state, atMs, { isFirst = false, ended } = {}) => {
      const judge = certificateJudge({ authority: own, keyChanges: [], clock: { now: () => atMs } });
      const fleet: FleetCertificates = {
        fleet: "cars",
        authority: (name) => (name === "oem" ? state : undefined),
        isEndedCertificate: (each) => numberKey(each) === ended,
      };
      const known = [{ serial: "aa", keyHash: "", notAfterMs: 0, authority: "oem", issuer: "bb" }];
      return isFirst && state !== undefined
        ? judge.ofEnrolment(chain, state, "van-7", fleet)
        : judge.ofDevice(
            chain,
            { fleet: "cars", device: "van-7", generation: 1, certificates: known },
            fleet,
          );
    };
  });
  async function withList(
    issuer: TestAuthority,
    serials: readonly string[],
    onEndedList: EndedListPolicy = "serve",
  ): Promise<TrustedAuthority> {
    const text = await makeRevocationList(issuer, { serials, untilMs: startMs + dayMs });
    const list = checkRevocationList(`${text}\n${issuing.certificate}`, [root.certificate], startMs);
    return {
      ...stateOf(root),
      onEndedList,
      revoked: new Map([[list.issuer, list.serials]]),
      lists: new Map([[list.issuer, list]]),
    };
  }
  const stateOf = ({ certificate }: TestAuthority): TrustedAuthority => ({
    authority: "oem",
    certificates: [certificate],
    nameForm: "cn:{device}",
    onEndedList: "serve",
    revoked: new Map(),
    lists: new Map(),
  });
  const certificateIn = (judged: JudgedCertificate): DeviceCertificate => {
    assert.ok(judged.why === undefined, judged.why);
    return judged.certificate;
  };

  it("takes a certificate that its issuer has not revoked, and says that it is new", async () => {
    const state = await withList(issuing, [newSerial()]);
    const judged = judgeAt(state, startMs);
    assert.equal(certificateIn(judged).authority, "oem");
    assert.equal(certificateIn(judged).serial, device.serial);
    assert.ok(judged.why === undefined && judged.isNew);
    assert.match(judgeAt(undefined, startMs).why ?? "", /was removed/);
  });

  it("takes none that is on a list, or whose issuer is; the same number of another issuer means nothing", async () => {
    assert.match(judgeAt(await withList(issuing, [device.serial]), startMs).why ?? "", /revocation list/);
    assert.equal(judgeAt(await withList(root, [device.serial]), startMs).why, undefined);
    const issuingSerial = new X509Certificate(issuing.certificate).serialNumber.toLowerCase();
    assert.match(judgeAt(await withList(root, [issuingSerial]), startMs).why ?? "", /revocation list/);
    assert.equal(judgeAt(await withList(issuing, [issuingSerial]), startMs).why, undefined);
  });

  it("takes none of a device that was revoked, by issuer and number", () => {
    const { issuer = "", serial } = certificateIn(judgeAt(stateOf(root), startMs));
    const ended = numberKey({ issuer, serial });
    assert.match(judgeAt(stateOf(root), startMs, { ended }).why ?? "", /was revoked/);
    assert.equal(
      judgeAt(stateOf(root), startMs, { ended: numberKey({ issuer: "cc", serial }) }).why,
      undefined,
    );
  });

  it("serves or refuses after the end of a list, as its owner chose; nobody enrols then", async () => {
    const laterMs = startMs + 2 * dayMs;
    const serving = await withList(issuing, []);
    const refusing = await withList(issuing, [], "refuse");
    assert.equal(judgeAt(serving, laterMs).why, undefined);
    assert.match(judgeAt(serving, laterMs, { isFirst: true }).why ?? "", /list of its issuer ended on/);
    assert.equal(judgeAt(serving, startMs, { isFirst: true }).why, undefined);
    assert.match(judgeAt(refusing, laterMs).why ?? "", /list of its issuer ended on/);
    assert.equal(judgeAt(refusing, startMs).why, undefined);
    const certificates = [certificateIn(judgeAt(serving, startMs))];
    const cut = (state: TrustedAuthority | undefined, atMs: number): string | undefined =>
      whyCutOff({ certificates, state: "enrolled" }, () => state, atMs);
    assert.equal(cut(serving, laterMs), undefined);
    assert.match(cut(refusing, laterMs) ?? "", /ended on/);
    assert.match(cut(undefined, startMs) ?? "", /removed/);
    assert.match(cut(serving, startMs + 400 * dayMs) ?? "", /expired on/);
    assert.match(cut(await withList(issuing, [device.serial]), startMs) ?? "", /revocation list/);
    assert.deepEqual(authorityWarnings(serving, startMs), []);
    assert.match(authorityWarnings(serving, laterMs).join(), /served by it still, and no device enrols/);
    assert.match(authorityWarnings(refusing, laterMs).join(), /refused/);
    assert.match(authorityWarnings(serving, startMs + 3600 * dayMs).join(), /expires on/);
  });

  it("names the devices whose certificates end first", () => {
    const authority = { authority: "oem" };
    const until = (device: string, days: number): Parameters<typeof endingCertificates>[1][number] => ({
      device,
      certificates: [{ serial: "4a", keyHash: "", notAfterMs: startMs + days * dayMs }],
    });
    const devices = [20, 13, 40, -1, 10, 2].map((days) => until(`van${days}`, days));
    assert.deepEqual(endingCertificates(authority, [until("van", 20)], startMs), []);
    assert.match(
      endingCertificates(authority, devices, startMs).join(),
      /for 4 of its devices \(van-1 [^,]+, van2 [^,]+, van10 [^,]+, and 1 more\)/,
    );
  });

  it("says when a certificate ended, and does not let it renew", () => {
    assert.match(judgeAt(stateOf(root), startMs + 366 * dayMs).why ?? "", /expired on \d{4}-\d\d-\d\d/);
  });
});
