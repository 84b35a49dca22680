"""Data types of the HTTP API. `npm run http-api` writes this file from the table of operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from typing_extensions import NotRequired


class ServerHealth(TypedDict):
    version: str
    pid: NotRequired[int]
    home: NotRequired[str]
    mqttUrl: NotRequired[str]
    httpUrl: NotRequired[str]
    publicKey: NotRequired[str]
    fleets: NotRequired[list[str]]


class FleetSummary(TypedDict):
    fleet: str
    versions: int
    devices: int
    online: int
    journalLength: int


class NamedToken(TypedDict):
    name: str
    role: Literal["viewer", "publisher", "releaser", "operator", "admin"]
    madeAtMs: float
    fleets: NotRequired[list[str]]
    expiresAtMs: NotRequired[float]


class ServerEventChoice1(TypedDict):
    event: Literal["device-connected"]
    atMs: float
    fleet: str
    device: str
    session: int
    profile: str


class ServerEventChoice2(TypedDict):
    event: Literal["device-disconnected"]
    atMs: float
    fleet: str
    device: str


class ServerEventChoice3(TypedDict):
    event: Literal["device-quarantined"]
    atMs: float
    fleet: str
    device: str
    because: str


class ServerEventChoice4(TypedDict):
    event: Literal["announced"]
    atMs: float
    fleet: str
    device: str
    line: str
    versionId: str
    name: str
    tensorBytes: float


class ServerEventChoice5(TypedDict):
    event: Literal["parked"]
    atMs: float
    fleet: str
    device: str
    line: str
    versionId: str
    bases: list[str]


class ServerEventChoice6(TypedDict):
    event: Literal["wanted"]
    atMs: float
    fleet: str
    device: str
    line: str
    versionId: str
    reason: str
    objects: int
    bytes: float


class ServerEventChoice7(TypedDict):
    event: Literal["transfer"]
    atMs: float
    fleet: str
    device: str
    line: str
    versionId: str
    transfer: str
    bytes: float
    totalBytes: float
    resumedBytes: float


class ServerEventChoice8(TypedDict):
    event: Literal["claimed"]
    atMs: float
    fleet: str
    device: str
    line: str
    versionId: str
    name: str
    wireBytes: float
    tensorBytes: float
    tookMs: float


class ServerEventChoice9(TypedDict):
    event: Literal["claim-ended"]
    atMs: float
    fleet: str
    device: str
    line: str
    versionId: str
    name: str
    verdict: Literal["proved", "refuted", "unreplayable"]
    because: str


class ServerEventChoice10(TypedDict):
    event: Literal["recorded"]
    atMs: float
    fleet: str
    device: str
    line: str
    versionId: str
    name: str
    version: int
    wireBytes: float
    tensorBytes: float
    tookMs: float


class ServerEventChoice11(TypedDict):
    event: Literal["stored"]
    atMs: float
    fleet: str
    device: str
    line: str
    versionId: str
    name: str
    version: int
    wireBytes: float
    tensorBytes: float
    tookMs: float


class ServerEventChoice12(TypedDict):
    event: Literal["released"]
    atMs: float
    fleet: str
    device: str
    line: str
    versionId: str
    name: str
    version: int
    wireBytes: float
    tensorBytes: float
    tookMs: float


class ServerEventChoice13(TypedDict):
    event: Literal["damaged"]
    atMs: float
    fleet: str
    device: str
    line: str
    versionId: str
    code: str
    message: str


class ServerEventChoice14(TypedDict):
    event: Literal["refused"]
    atMs: float
    fleet: str
    device: str
    versionId: str | None
    code: str
    message: str


class ServerEventChoice15(TypedDict):
    event: Literal["connection-refused"]
    atMs: float
    fleet: str
    device: str
    code: str
    message: str
    address: str
    count: int


class ServerEventChoice16(TypedDict):
    event: Literal["offered"]
    atMs: float
    fleet: str
    device: str
    line: str
    versionId: str


class ServerEventChoice17(TypedDict):
    event: Literal["activated"]
    atMs: float
    fleet: str
    device: str
    line: str
    versionId: str


class ServerEventChoice18(TypedDict):
    event: Literal["retired"]
    atMs: float
    fleet: str
    device: str
    line: str
    versionId: str
    name: str
    version: int
    because: str


class ServerEventChoice19(TypedDict):
    event: Literal["retention"]
    atMs: float
    fleet: str
    retired: int
    kept: int
    freedBytes: float | None


class ServerEventChoice20(TypedDict):
    event: Literal["device-event"]
    atMs: float
    fleet: str
    device: str
    line: str
    name: str
    text: str
    versionId: NotRequired[str]


class ServerEventChoice21(TypedDict):
    event: Literal["guard"]
    atMs: float
    fleet: str
    device: str
    message: str


class ServerEventChoice22(TypedDict):
    event: Literal["training"]
    atMs: float
    fleet: str
    job: str
    state: Literal["running", "done", "failed"]
    epoch: float
    loss: float | None


class ServerEventChoice23(TypedDict):
    event: Literal["missed"]
    atMs: float
    fleet: str
    count: int


ServerEvent: TypeAlias = (
    "ServerEventChoice1"
    " | ServerEventChoice2"
    " | ServerEventChoice3"
    " | ServerEventChoice4"
    " | ServerEventChoice5"
    " | ServerEventChoice6"
    " | ServerEventChoice7"
    " | ServerEventChoice8"
    " | ServerEventChoice9"
    " | ServerEventChoice10"
    " | ServerEventChoice11"
    " | ServerEventChoice12"
    " | ServerEventChoice13"
    " | ServerEventChoice14"
    " | ServerEventChoice15"
    " | ServerEventChoice16"
    " | ServerEventChoice17"
    " | ServerEventChoice18"
    " | ServerEventChoice19"
    " | ServerEventChoice20"
    " | ServerEventChoice21"
    " | ServerEventChoice22"
    " | ServerEventChoice23"
)


class JournalPage(TypedDict):
    length: int
    facts: list[ListedFact]


class ListedFact(TypedDict):
    position: int
    type: str
    atMs: float


class ProvenHead(TypedDict):
    head: SignedJournalHead
    consistency: list[Hash] | None


SignedJournalHeadKeyChangesItem = TypedDict(
    "SignedJournalHeadKeyChangesItem",
    {
        "atMs": "int",
        "from": "str",
        "to": "str",
        "signature": "str",
        "proof": "str",
    },
)


class SignedJournalHead(TypedDict):
    length: int
    chain: Hash
    root: Hash
    publicKey: str
    signature: str
    keyChanges: NotRequired[list[SignedJournalHeadKeyChangesItem]]


Hash: TypeAlias = "str"


class CheckpointToCosign(TypedDict):
    origin: str
    verifierKey: str
    length: int
    root: Hash
    text: str
    cosigners: list[str]
    request: str | None


class CheckpointText(TypedDict):
    origin: str
    verifierKey: str
    length: int
    root: Hash
    text: str
    cosigners: list[str]


class FactProofLog(TypedDict):
    length: int
    root: Hash


class FactProof(TypedDict):
    position: int
    fact: str | None
    leaf: Hash
    log: FactProofLog
    inclusion: list[Hash]
    head: SignedJournalHead
    consistency: list[Hash]


class JournalLeaves(TypedDict):
    head: SignedJournalHead
    facts: list[str]


class RestoreStatement(TypedDict):
    restore: int
    says: list[str]
    file: str


class ApprovedRestore(TypedDict):
    restore: int
    says: list[str]


class TracedSubject(TypedDict):
    kind: Literal["version", "rollout", "request"]
    id: str
    name: NotRequired[str]
    device: NotRequired[str]
    facts: list[ListedFact]
    next: int | None
    log: list[LoggedEvent]
    logSinceMs: float | None


class LoggedEvent(TypedDict):
    number: int
    atMs: float
    level: Literal["debug", "info", "warn", "error"]
    event: str
    fields: dict[str, str | float | bool]


class Webhook(TypedDict):
    name: str
    fleet: str
    url: str
    types: NotRequired[list[str]]
    madeAtMs: float
    position: int
    behind: int
    deliveredAtMs: NotRequired[float]
    failures: NotRequired[int]
    because: NotRequired[str]
    againAtMs: NotRequired[float]


class ListedDeviceAssignedValue(TypedDict):
    versionId: Hash
    atMs: float
    rollout: NotRequired[str]
    by: NotRequired[str]


class ListedDeviceCertificatesItem(TypedDict):
    serial: str
    keyHash: str
    notAfterMs: float
    authority: NotRequired[str]
    issuer: NotRequired[str]


class ListedDeviceActiveValue(TypedDict):
    versionId: Hash
    deviceAtMs: float
    deviceClockErrorMs: float | None
    serverAtMs: float
    number: NotRequired[int]


class ListedDeviceDoubt(TypedDict):
    sinceMs: float
    text: str


class ListedDevice(TypedDict):
    device: str
    profile: str
    lines: list[str]
    generation: int
    enrolledAtMs: float
    enrolledBy: NotRequired[str]
    revoked: NotRequired[Ended]
    quarantined: NotRequired[Ended]
    batch: NotRequired[str]
    waits: NotRequired[Literal[True]]
    removed: NotRequired[Ended]
    erased: NotRequired[Ended]
    settings: NotRequired[DeviceSettings]
    assigned: NotRequired[dict[str, ListedDeviceAssignedValue]]
    labels: NotRequired[dict[str, str]]
    seenAtMs: NotRequired[float]
    state: Literal["enrolled", "revoked", "quarantined"]
    session: int
    publicKey: str
    certificates: NotRequired[list[ListedDeviceCertificatesItem]]
    active: dict[str, ListedDeviceActiveValue]
    online: bool
    doubt: NotRequired[ListedDeviceDoubt]
    runs: dict[str, str]


class Ended(TypedDict):
    atMs: float
    because: str
    by: NotRequired[str]


class DeviceSettings(TypedDict):
    desired: dict[str, str | float]
    desiredAtMs: NotRequired[float]
    by: NotRequired[str]
    reported: dict[str, str | float] | None
    reportedAtMs: NotRequired[float]


class ShownDeviceHeadsItem(TypedDict):
    line: str
    versionId: Hash
    name: str
    version: int
    sequence: int
    state: str


class ShownDeviceClaims(TypedDict):
    waiting: int
    wanted: int
    lost: int


class ShownDevice(TypedDict):
    device: str
    profile: str
    lines: list[str]
    generation: int
    enrolledAtMs: float
    enrolledBy: NotRequired[str]
    revoked: NotRequired[Ended]
    quarantined: NotRequired[Ended]
    batch: NotRequired[str]
    waits: NotRequired[Literal[True]]
    removed: NotRequired[Ended]
    erased: NotRequired[Ended]
    settings: NotRequired[DeviceSettings]
    assigned: NotRequired[dict[str, ListedDeviceAssignedValue]]
    labels: NotRequired[dict[str, str]]
    seenAtMs: NotRequired[float]
    state: Literal["enrolled", "revoked", "quarantined"]
    session: int
    publicKey: str
    certificates: NotRequired[list[ListedDeviceCertificatesItem]]
    active: dict[str, ListedDeviceActiveValue]
    online: bool
    doubt: NotRequired[ListedDeviceDoubt]
    runs: dict[str, str]
    heads: list[ShownDeviceHeadsItem]
    versions: int
    refusals: NotRequired[list[RefusedConnections]]
    claims: ShownDeviceClaims


class RefusedConnections(TypedDict):
    code: str
    message: str
    address: str
    count: int
    atMs: float


class LabelledDevice(TypedDict):
    device: str
    labels: dict[str, str]


class EnrolmentReleases(TypedDict):
    root: str
    policy: Literal["required", "accepted", "off"]


class Enrolment(TypedDict):
    kind: NotRequired[Literal["stemma-enrolment"]]
    format: NotRequired[Literal[1]]
    fleet: NotRequired[str]
    device: NotRequired[str]
    generation: NotRequired[int]
    lines: NotRequired[list[str]]
    mqtt: NotRequired[list[str]]
    http: NotRequired[str]
    ca: NotRequired[str]
    authorities: NotRequired[list[str]]
    root: NotRequired[str]
    token: NotRequired[str]
    deviceSeed: NotRequired[str]
    devicePublicKey: NotRequired[str]
    serverPublicKey: NotRequired[str]
    profile: NotRequired[str]
    releases: NotRequired[EnrolmentReleases]
    checksum: NotRequired[str]


class InvitationReleases(TypedDict):
    root: str
    policy: Literal["required", "accepted", "off"]


class InvitationBy(TypedDict):
    who: str
    through: Literal["command", "socket", "http", "server"]
    role: NotRequired[str]
    claims: NotRequired[str]


class Invitation(TypedDict):
    kind: Literal["stemma-invitation"]
    format: Literal[1]
    fleet: str
    device: str
    generation: int
    lines: list[str]
    profile: str
    mqtt: list[str]
    http: NotRequired[str]
    ca: NotRequired[str]
    root: str
    authorities: list[str]
    serverPublicKey: str
    initial: NotRequired[dict[str, str]]
    releases: NotRequired[InvitationReleases]
    authority: NotRequired[str]
    issuedAtMs: int
    expiresAtMs: int
    by: NotRequired[InvitationBy]
    signature: str


class CertificateAnswer(TypedDict):
    kind: Literal["stemma-certificate"]
    format: Literal[1]
    request: str
    certificate: str
    generation: NotRequired[int]
    authorities: list[str]
    keyChanges: NotRequired[list[SignedJournalHeadKeyChangesItem]]
    issuedAtMs: int
    signature: str


class ServerAddresses(TypedDict):
    mqtt: list[str]
    http: NotRequired[str]
    ca: NotRequired[str]
    authorities: NotRequired[list[str]]
    root: str
    serverPublicKey: str
    keyChanges: NotRequired[list[SignedJournalHeadKeyChangesItem]]


class VersionSummaryReplayed(TypedDict):
    atMs: float
    verdict: Literal["proved", "refuted"]
    grade: Literal["bit-exact", "execution-exact", "different"]
    engineId: Hash
    because: str
    by: NotRequired[str]
    workMs: NotRequired[int]
    dataFrom: NotRequired[Literal["stored", "registered", "generator"]]
    description: NotRequired[Literal["reader", "stored", "sent", "none"]]


class VersionSummarySpotCheck(TypedDict):
    atMs: float
    because: str
    by: NotRequired[str]
    outcome: Literal["asked", "passed", "refuted", "not-available"]
    segments: list[int]
    of: int
    engineId: Hash


class VersionSummaryDropped(TypedDict):
    atMs: float
    because: str
    by: NotRequired[str]
    base: Hash | None
    engine: Hash
    engineId: Hash
    data: Hash | None
    replayMs: int


class VersionSummaryClaimEnded(TypedDict):
    verdict: Literal["refuted", "unreplayable"]
    atMs: float
    because: str
    grade: NotRequired[Literal["bit-exact", "execution-exact", "different"]]
    engineId: NotRequired[Hash]
    by: NotRequired[str]


class VersionSummaryClaim(TypedDict):
    recordedAtMs: float
    position: int
    isProved: bool
    ended: NotRequired[VersionSummaryClaimEnded]


class VersionSummary(TypedDict):
    versionId: Hash
    name: str
    version: int
    record: SaveRecord
    position: int
    recordedAtMs: float
    state: Literal["recorded", "stored", "released", "retired"]
    tags: list[str]
    held: bool
    hold: NotRequired[Ended]
    retired: NotRequired[Ended]
    replayed: NotRequired[VersionSummaryReplayed]
    spotCheck: NotRequired[VersionSummarySpotCheck]
    dropped: NotRequired[VersionSummaryDropped]
    dataDropped: NotRequired[Ended]
    provedBy: NotRequired[list[Hash]]
    evaluations: NotRequired[int]
    claim: NotRequired[VersionSummaryClaim]
    by: NotRequired[str]
    tensorBytes: int
    ownBytes: int
    received: NotRequired[Literal[True]]
    storedBytes: NotRequired[int]


class SaveRecordObjectsAttachmentsItem(TypedDict):
    name: str
    hash: Hash


class SaveRecordObjects(TypedDict):
    tree: Hash
    architecture: NotRequired[Hash]
    names: Hash
    ownerMap: Hash
    environment: Hash
    measurements: NotRequired[Hash]
    checkpoints: NotRequired[Hash]
    provenance: NotRequired[Hash]
    metadata: NotRequired[Hash]
    openings: NotRequired[Hash]
    attachments: NotRequired[list[SaveRecordObjectsAttachmentsItem]]


class SaveRecordUsesCheckpointsItem(TypedDict):
    iteration: int
    tree: Hash


class SaveRecordUses(TypedDict):
    engine: NotRequired[Hash]
    recipe: NotRequired[Hash]
    data: NotRequired[list[Hash]]
    optimizer: NotRequired[Hash]
    checkpoints: NotRequired[list[SaveRecordUsesCheckpointsItem]]


class SaveRecord(TypedDict):
    format: Literal[1] | Literal[2]
    name: str
    fleet: str
    device: str
    line: str
    sequence: int
    bases: list[Hash]
    successorOf: NotRequired[Hash]
    kind: Literal["architecture", "opaque"]
    contentId: Hash
    architecture: Hash
    root: Hash
    approach: Literal["snapshot", "update", "provenance"]
    scheme: NotRequired[str]
    savedAtMs: float
    clockErrorMs: float | None
    objects: SaveRecordObjects
    uses: NotRequired[SaveRecordUses]


class DeviceEvaluationVersionsItemMetric(TypedDict):
    name: str
    unit: str
    lowerIsBetter: bool
    value: float | None


class DeviceEvaluationVersionsItemInference(TypedDict):
    milliseconds: float
    peakBytes: int


class DeviceEvaluationVersionsItem(TypedDict):
    versionId: Hash
    name: NotRequired[str]
    metric: DeviceEvaluationVersionsItemMetric
    durationMs: float
    inference: NotRequired[DeviceEvaluationVersionsItemInference]


class DeviceEvaluationSamples(TypedDict):
    evaluated: int
    heldOut: int


class DeviceEvaluationPaired1(TypedDict):
    samples: int
    better: int
    worse: int
    equal: int
    meanDifference: float
    standardDeviation: float


class DeviceEvaluation(TypedDict):
    line: str
    measuredBy: NotRequired[Literal["engine", "program"]]
    versions: list[DeviceEvaluationVersionsItem]
    samples: DeviceEvaluationSamples
    datasetHash: Hash
    paired: DeviceEvaluationPaired1 | None
    change: NotRequired[float | None]


class BatchInvitationTerms(TypedDict):
    kind: Literal["stemma-batch-invitation"]
    format: Literal[1]
    fleet: str
    batch: str
    publicKey: str
    lines: list[str]
    profile: str
    mqtt: list[str]
    http: NotRequired[str]
    ca: NotRequired[str]
    root: str
    authorities: list[str]
    serverPublicKey: str
    releases: NotRequired[InvitationReleases]
    authority: NotRequired[str]
    issuedAtMs: int
    expiresAtMs: int
    signature: str


class BatchInvitation(TypedDict):
    kind: Literal["stemma-batch-file"]
    format: Literal[1]
    terms: BatchInvitationTerms
    seed: str


class Batch(TypedDict):
    batch: str
    atMs: float
    by: NotRequired[str]
    state: Literal["open", "ended", "used up", "revoked"]
    count: int
    used: int
    expiresAtMs: float
    profile: str
    lines: list[str]
    namePattern: NotRequired[str]
    names: NotRequired[list[str]]
    hold: bool
    mayReplace: bool
    labels: NotRequired[dict[str, str]]
    initial: NotRequired[dict[str, Hash]]
    authority: NotRequired[str]
    revoked: NotRequired[Ended]
    devices: list[str]
    waiting: list[str]


class AuthorityCertificatesItem(TypedDict):
    subject: str
    sha256: str
    notAfterMs: float


class AuthorityListsItem(TypedDict):
    issuer: str
    number: str
    thisUpdateMs: float
    nextUpdateMs: float
    revoked: int


class Authority(TypedDict):
    authority: str
    atMs: float
    by: NotRequired[str]
    nameForm: str
    onEndedList: Literal["serve", "refuse"]
    certificates: list[AuthorityCertificatesItem]
    lists: list[AuthorityListsItem]
    devices: int
    warnings: list[str]


class SetDevice(TypedDict):
    device: str
    settings: DeviceSettings
    online: bool


class DeviceFacts(TypedDict):
    facts: list[ListedFact]
    next: int | None


class DeviceLog(TypedDict):
    events: list[LoggedEvent]
    hasMore: bool
    logged: int


class ErasureBackupsItem(TypedDict):
    location: str
    atMs: float


class Erasure(TypedDict):
    devices: list[str]
    unfinished: list[str]
    versions: int
    versionsInAll: int
    claims: int
    objects: int
    bytes: int
    sharedTensors: int
    sharedBytes: int
    recodedTensors: int
    recodedBytes: int
    descendants: int
    leased: int
    backups: list[ErasureBackupsItem]
    setAside: int
    freedBytes: NotRequired[int]
    left: NotRequired[int]


class RolloutSummaryPolicyLive(TypedDict):
    inputs: int
    minutes: float
    maxFailed: float


class RolloutSummaryPolicy(TypedDict):
    waves: list[str]
    soakMinutes: float
    timeoutMinutes: float
    level: float
    margin: float
    maxFailed: float
    minAnswered: float
    own: Literal["replace", "keep"]
    unmeasured: Literal["fail", "switch"]
    onFailure: Literal["pause", "undo"]
    atOnce: int
    samples: NotRequired[int]
    maxSlowdown: NotRequired[float]
    maxMoreMemoryMb: NotRequired[float]
    maxChange: NotRequired[float]
    live: NotRequired[RolloutSummaryPolicyLive]
    wait: NotRequired[bool]
    approval: NotRequired[bool]
    deadlineMinutes: NotRequired[float]
    windows: NotRequired[list[str]]
    maxBytesPerSecond: NotRequired[int]
    priority: NotRequired[int]
    onlyOnPower: NotRequired[bool]
    links: NotRequired[list[str]]


class RolloutSummaryDevices(TypedDict):
    undecided: int
    passed: int
    switched: int
    replaced: NotRequired[int]
    missed: NotRequired[int]
    kept: int
    worse: int
    failed: int
    left: int
    unknown: int


class RolloutSummary(TypedDict):
    name: str
    line: str
    versionId: Hash
    model: str
    select: str
    policy: RolloutSummaryPolicy
    phase: Literal["created", "running", "paused", "aborted", "undone", "done"]
    because: str
    phaseAtMs: float
    createdAtMs: float
    createdBy: NotRequired[str]
    approvedBy: NotRequired[str]
    supersedes: NotRequired[str]
    wave: int
    devices: RolloutSummaryDevices
    evidence: float


class RolloutDetailMembersItemCompared(TypedDict):
    samples: int
    meanDifference: float
    standardError: float


class RolloutDetailMembersItemTrial(TypedDict):
    slowdown: NotRequired[float]
    moreBytes: NotRequired[float]
    change: NotRequired[float]


class RolloutDetailMembersItemLive(TypedDict):
    inputs: int
    failed: int
    compared: NotRequired[RolloutDetailMembersItemCompared]
    slowdown: NotRequired[float]
    change: NotRequired[float]


class RolloutDetailMembersItem(TypedDict):
    device: str
    wave: int
    joinedAtMs: float
    online: bool
    verdict: Literal["passed", "kept", "worse", "failed", "left", "unknown"] | None
    because: str
    judgedAtMs: NotRequired[float]
    switched: bool
    givenOther: NotRequired[Literal[True]]
    before: str | None
    compared: NotRequired[RolloutDetailMembersItemCompared]
    trial: NotRequired[RolloutDetailMembersItemTrial]
    live: NotRequired[RolloutDetailMembersItemLive]


class RolloutDetailExcludedItem(TypedDict):
    device: str
    because: str


class RolloutDetail(TypedDict):
    name: str
    line: str
    versionId: Hash
    model: str
    select: str
    policy: RolloutSummaryPolicy
    phase: Literal["created", "running", "paused", "aborted", "undone", "done"]
    because: str
    phaseAtMs: float
    createdAtMs: float
    createdBy: NotRequired[str]
    approvedBy: NotRequired[str]
    supersedes: NotRequired[str]
    wave: int
    devices: RolloutSummaryDevices
    evidence: float
    members: list[RolloutDetailMembersItem]
    excluded: NotRequired[list[RolloutDetailExcludedItem]]


class RolloutTransfersDevicesItemPlanned(TypedDict):
    bytes: int
    ms: int | None


class RolloutTransfersDevicesItemActual(TypedDict):
    bytes: int
    ms: int
    atMs: float


class RolloutTransfersDevicesItem(TypedDict):
    device: str
    wave: int
    planned: NotRequired[RolloutTransfersDevicesItemPlanned]
    actual: NotRequired[RolloutTransfersDevicesItemActual]
    decidedMs: NotRequired[int]


class RolloutTransfers(TypedDict):
    name: str
    phase: Literal["created", "running", "paused", "aborted", "undone", "done"]
    devices: list[RolloutTransfersDevicesItem]
    compared: int
    plannedBytes: int
    actualBytes: int
    bytesError: float | None
    timeError: float | None
    excluded: list[RolloutDetailExcludedItem]


class RolloutPlanGatesItem(TypedDict):
    device: str
    measuredBy: NotRequired[Literal["engine", "program", "nothing"]]
    losses: str
    outputs: str
    live: str


class RolloutPlanTakesItem(TypedDict):
    device: str
    rollout: str


class RolloutPlanTransfersItem(TypedDict):
    device: str
    wave: int
    bytes: int
    isEstimated: bool
    metered: bool
    ms: int | None


class RolloutPlan(TypedDict):
    name: str
    model: str
    versionId: Hash
    line: str
    policy: RolloutSummaryPolicy
    waves: list[list[str]]
    notReached: int
    excluded: list[RolloutDetailExcludedItem]
    goingBack: int
    gates: list[RolloutPlanGatesItem]
    deferring: list[RolloutDetailExcludedItem]
    takes: list[RolloutPlanTakesItem]
    noModel: int
    offline: int
    refusing: list[str]
    doubts: NotRequired[list[str]]
    bytes: int
    storageBytes: int
    transfers: NotRequired[list[RolloutPlanTransfersItem]]
    fleetBytesPerSecond: NotRequired[int]
    expectedMs: NotRequired[int | None]


class CreatedRollout(TypedDict):
    name: str
    line: str
    versionId: Hash
    model: str
    select: str
    policy: RolloutSummaryPolicy
    phase: Literal["created", "running", "paused", "aborted", "undone", "done"]
    because: str
    phaseAtMs: float
    createdAtMs: float
    createdBy: NotRequired[str]
    approvedBy: NotRequired[str]
    supersedes: NotRequired[str]
    wave: int
    devices: RolloutSummaryDevices
    evidence: float
    excluded: list[RolloutDetailExcludedItem]


class FleetReleasesVersions1(TypedDict):
    root: int
    timestamp: int
    snapshot: int
    targets: int


class FleetReleasesMetadata1(TypedDict):
    roots: list[str]
    timestamp: str
    snapshot: str
    targets: str


class FleetReleasesReleasesItem(TypedDict):
    name: str
    versionId: Hash
    model: str | None
    recipe: str | None
    manifest: str


class FleetReleasesRevokedItem(TypedDict):
    name: str
    versionId: str
    because: str


class FleetReleasesOwnerTime1(TypedDict):
    number: int
    time: str


class FleetReleases(TypedDict):
    fleet: str
    versions: FleetReleasesVersions1 | None
    metadata: FleetReleasesMetadata1 | None
    expires: str | None
    isExpired: bool
    releases: list[FleetReleasesReleasesItem]
    revoked: list[FleetReleasesRevokedItem]
    ownerTime: FleetReleasesOwnerTime1 | None


class VersionPage(TypedDict):
    versions: list[VersionSummary]
    total: int
    unreadable: list[UnreadableVersion]


class UnreadableVersion(TypedDict):
    versionId: Hash
    name: str
    version: float
    code: str
    message: str


class ModelDescriptionLeavesItemOwner(TypedDict):
    versionId: Hash
    name: str
    version: float


class ModelDescriptionLeavesItem(TypedDict):
    path: str
    name: str
    dtype: str
    shape: list[int]
    bytes: int
    owner: ModelDescriptionLeavesItemOwner


class ModelDescriptionLayersItem(TypedDict):
    name: str
    className: str


class ModelDescriptionFile(TypedDict):
    name: str
    bytes: int
    sha256: Hash


class ModelDescriptionMeasurementsItem(TypedDict):
    iteration: int
    epoch: float | None
    loss: float | None
    learningRate: float | None
    validation: NotRequired[float | None]
    metrics: NotRequired[dict[str, float | None]]


class ModelDescriptionUsesItem(TypedDict):
    kind: Literal["engine", "recipe", "data"]
    id: Hash
    byteLength: int | None


class ModelDescriptionBasesItem(TypedDict):
    versionId: Hash
    name: str
    version: float
    state: str


class ModelDescriptionListed(TypedDict):
    license: NotRequired[str]
    task: NotRequired[str]
    atMs: float
    by: NotRequired[str]


class ModelDescription(TypedDict):
    versionId: Hash
    name: str
    version: int
    record: SaveRecord
    position: int
    recordedAtMs: float
    state: Literal["recorded", "stored", "released", "retired"]
    tags: list[str]
    held: bool
    hold: NotRequired[Ended]
    retired: NotRequired[Ended]
    replayed: NotRequired[VersionSummaryReplayed]
    spotCheck: NotRequired[VersionSummarySpotCheck]
    dropped: NotRequired[VersionSummaryDropped]
    dataDropped: NotRequired[Ended]
    provedBy: NotRequired[list[Hash]]
    evaluations: NotRequired[int]
    claim: NotRequired[VersionSummaryClaim]
    by: NotRequired[str]
    tensorBytes: int
    ownBytes: int
    received: NotRequired[Literal[True]]
    storedBytes: NotRequired[int]
    leaves: list[ModelDescriptionLeavesItem]
    layers: NotRequired[list[ModelDescriptionLayersItem]]
    file: NotRequired[ModelDescriptionFile]
    environment: dict[str, str]
    measurements: NotRequired[list[ModelDescriptionMeasurementsItem]]
    metadata: NotRequired[dict[str, str | float | bool]]
    provenance: NotRequired[Any]
    proof: NotRequired[MemberProof]
    uses: list[ModelDescriptionUsesItem]
    bases: list[ModelDescriptionBasesItem]
    derived: list[ModelDescriptionLeavesItemOwner]
    listed: NotRequired[ModelDescriptionListed]


class MemberProof(TypedDict):
    rebuilt: list[str]
    bound: list[str]
    stated: list[str]
    notRebuildable: list[str]


class NearestModelNearest1TensorsItem(TypedDict):
    path: str
    ancestor: str
    name: str
    bytes: int


class NearestModelNearest1(TypedDict):
    versionId: Hash
    name: str
    version: int
    layers: int
    ofLayers: int
    tensors: list[NearestModelNearest1TensorsItem]


class NearestModel(TypedDict):
    layers: int
    indexed: int
    nearest: NearestModelNearest1 | None


class ModelDiffFiles(TypedDict):
    a: int
    b: int
    differing: NotRequired[int]


class ModelDiffChangesItemA(TypedDict):
    path: str
    tensor: Hash
    dtype: str
    shape: list[int]


class ModelDiffChangesItem(TypedDict):
    kind: Literal["changed", "added", "removed", "renamed", "moved", "reshaped"]
    path: str
    name: str
    otherPath: NotRequired[str]
    otherName: NotRequired[str]
    a: NotRequired[ModelDiffChangesItemA]
    b: NotRequired[ModelDiffChangesItemA]
    relation: NotRequired[str]


class ModelDiff(TypedDict):
    a: Hash
    b: Hash
    sameArchitecture: bool
    opaque: bool
    comparisons: int
    files: NotRequired[ModelDiffFiles]
    changes: list[ModelDiffChangesItem]
    provenance: NotRequired[ProvenanceDiff]


class ProvenanceDiff(TypedDict):
    differences: dict[str, Any]
    redacted: list[str]
    sameStory: bool


class FleetMoment(TypedDict):
    device: str
    line: str
    versionId: Hash | Literal["unknown"]
    why: str
    sinceMs: NotRequired[float]
    uncertainMs: NotRequired[float | None]


class RecoveryExplanationTrainingsItem(TypedDict):
    versionId: Hash
    name: str
    version: int
    engineId: Hash
    ms: int


class RecoveryExplanationReplay(TypedDict):
    isPossible: bool
    because: str
    predictedMs: float | None
    verdict: Literal["proved", "refuted"] | None


RecoveryExplanation = TypedDict(
    "RecoveryExplanation",
    {
        "versionId": "Hash",
        "name": "str",
        "version": "int",
        "from": 'Literal["snapshot", "chain", "replay", "nothing"]',
        "tensors": "int",
        "raw": "int",
        "coded": "int",
        "references": "int",
        "deepest": "int",
        "byteLength": "int",
        "readBytes": "int",
        "decodedBytes": "int",
        "inTier": "int",
        "missing": "list[str]",
        "predictedMs": "float",
        "trainings": "list[RecoveryExplanationTrainingsItem]",
        "owners": "int",
        "replay": "RecoveryExplanationReplay",
    },
)


class TfjsModelWeightsManifestItemWeightsItem(TypedDict):
    name: str
    shape: list[int]
    dtype: str


class TfjsModelWeightsManifestItem(TypedDict):
    paths: list[str]
    weights: list[TfjsModelWeightsManifestItemWeightsItem]


class TfjsModel(TypedDict):
    format: Literal["layers-model"]
    generatedBy: str
    convertedBy: None
    modelTopology: dict[str, Any]
    weightsManifest: list[TfjsModelWeightsManifestItem]


class AttachedFile(TypedDict):
    name: str
    hash: Hash
    byteLength: int
    base64: str


class VerificationReportSteps(TypedDict):
    loadMs: float
    rebuildMs: float
    checkEnvironmentMs: float
    verifyMs: float


class VerificationReportEnvironmentDifferingItem(TypedDict):
    field: str
    recorded: NotRequired[str]
    here: NotRequired[str]


class VerificationReportEnvironment(TypedDict):
    verdict: Literal["same", "compatible", "different"]
    differing: list[VerificationReportEnvironmentDifferingItem]


class VerificationReportLayout(TypedDict):
    versionId: Hash
    name: str
    version: int
    inexact: NotRequired[int]


class VerificationReport(TypedDict):
    versionId: Hash
    name: str
    version: int
    root: Hash
    byteLength: int
    tensors: int
    steps: VerificationReportSteps
    environment: VerificationReportEnvironment
    scheme: NotRequired[str]
    part: NotRequired[Literal["optimizer"]]
    checkpoint: NotRequired[int]
    partOf: NotRequired[int]
    story: NotRequired[Hash]
    file: NotRequired[str]
    layout: NotRequired[VerificationReportLayout]
    parts: list[str]


class ImportReportLikelyBasesItem(TypedDict):
    versionId: Hash
    name: str
    version: int


class ImportReportStory(TypedDict):
    versionId: Hash
    fleet: str
    name: str
    device: str


class ImportReport(TypedDict):
    summary: NotRequired[VersionSummary]
    approach: Literal["snapshot", "update"]
    changed: int
    tensors: int
    tensorBytes: int
    newTensorBytes: int
    overheadBytes: int
    unchanged: bool
    isFile: NotRequired[Literal[True]]
    notes: NotRequired[list[str]]
    likelyBases: NotRequired[list[ImportReportLikelyBasesItem]]
    story: NotRequired[ImportReportStory]


EvaluatedModelsNewWeightsItem = TypedDict(
    "EvaluatedModelsNewWeightsItem",
    {
        "model": "str",
        "from": "ImportReportLikelyBasesItem | None",
        "inherited": "int",
        "bytes": "int",
        "drawn": "int",
    },
)


class EvaluatedModelsNotMadeItem(TypedDict):
    name: str
    settings: dict[str, str | float | bool]
    reason: str


class EvaluatedModelsOtherDevicesItem(TypedDict):
    device: str
    why: str


class EvaluatedModels(TypedDict):
    seed: str
    rule: str
    newWeights: list[EvaluatedModelsNewWeightsItem]
    candidates: list[EvaluatedCandidate]
    notMade: list[EvaluatedModelsNotMadeItem]
    judgedAtEnd: NotRequired[int]
    otherDevices: NotRequired[list[EvaluatedModelsOtherDevicesItem]]


class EvaluatedCandidate(TypedDict):
    candidate: int
    model: str
    settings: dict[str, str | float | bool]
    figure: float | None
    iteration: int | None
    saved: NotRequired[ImportReportLikelyBasesItem]
    reason: NotRequired[str]
    device: NotRequired[str]


class Error(TypedDict):
    code: str
    message: str
    details: dict[str, Any]


class SavedQuery(TypedDict):
    name: str
    query: str
    savedAtMs: float
    by: NotRequired[str]


class SavedDerivedModels(TypedDict):
    seed: str | None
    derived: list[DerivedModel]


class DerivedModelNetworkInputsItem(TypedDict):
    name: str
    shape: list[int | None]
    isExtra: bool


class DerivedModelNetworkInherited(TypedDict):
    tensors: int
    bytes: int


class DerivedModelNetwork(TypedDict):
    layers: int
    added: list[str]
    removed: list[str]
    reshaped: list[str]
    inputs: list[DerivedModelNetworkInputsItem]
    inherited: DerivedModelNetworkInherited
    drawn: DerivedModelNetworkInherited


class DerivedModelSaved(TypedDict):
    versionId: Hash
    version: int
    isNew: bool


class DerivedModel(TypedDict):
    source: ImportReportLikelyBasesItem
    name: str
    reason: NotRequired[str]
    network: NotRequired[DerivedModelNetwork]
    saved: NotRequired[DerivedModelSaved]


class QueryAnswerPlanItem(TypedDict):
    variable: str
    step: str
    lookedAt: int
    kept: int
    unknown: NotRequired[int]
    networks: NotRequired[int]


class QueryAnswer(TypedDict):
    variables: list[str]
    rows: list[list[FoundModel]]
    total: int | None
    withoutNetwork: int
    unreadable: int
    plan: list[QueryAnswerPlanItem]
    evaluation: NotRequired[PlannedEvaluation]
    derived: NotRequired[list[DerivedModel]]


class FoundModel(TypedDict):
    versionId: Hash
    name: str
    version: int
    state: Literal["recorded", "stored", "released", "retired"]
    tags: list[str]
    device: str
    line: str
    savedAtMs: float
    recordedAtMs: float


class PlannedEvaluationSettingsItem(TypedDict):
    name: str
    count: int
    values: list[str | float | bool] | None


class PlannedEvaluationRoundsItem(TypedDict):
    iteration: int | None
    candidates: int
    keeps: int


class PlannedEvaluation(TypedDict):
    models: list[str]
    newWeights: list[EvaluatedModelsNewWeightsItem]
    candidates: int
    settings: list[PlannedEvaluationSettingsItem]
    rule: str
    rounds: list[PlannedEvaluationRoundsItem]
    steps: int | None
    notMade: list[EvaluatedModelsNotMadeItem]


class DescendantPageDescendantsItem(TypedDict):
    version: VersionSummary
    generation: int


class DescendantPage(TypedDict):
    descendants: list[DescendantPageDescendantsItem]
    total: int


class AncestorInCommonGenerations(TypedDict):
    a: int
    b: int


class AncestorInCommon(TypedDict):
    version: VersionSummary
    generations: AncestorInCommonGenerations


class LineageGraph(TypedDict):
    versions: list[LineageVersion]
    total: int


class LineageVersion(TypedDict):
    versionId: Hash
    name: str
    version: int
    state: Literal["recorded", "stored", "released", "retired"]
    tags: list[str]
    held: bool
    device: str
    line: str
    savedAtMs: float
    clockErrorMs: float | None
    recordedAtMs: float
    ownBytes: int
    storedBytes: NotRequired[int]
    bases: list[Hash]
    after: list[Hash]


class OwnerPage(TypedDict):
    versionId: Hash
    owners: list[TensorOwner]
    total: int
    withoutTensors: int


class TensorOwnerTensorsItem(TypedDict):
    path: str
    name: str
    bytes: int


class TensorOwner(TypedDict):
    versionId: Hash
    name: str
    version: int
    state: str
    savedAtMs: float | None
    clockErrorMs: float | None
    recordedAtMs: float | None
    generation: int | None
    bytes: int
    tensors: list[TensorOwnerTensorsItem]


class PreparedTransferNearest1TensorsItem(TypedDict):
    path: str
    ancestor: str
    name: str
    childName: str
    bytes: int


class PreparedTransferNearest1(TypedDict):
    versionId: Hash
    name: str
    version: int
    layers: int
    ofLayers: int
    tensors: list[PreparedTransferNearest1TensorsItem]


class PreparedTransferLease1(TypedDict):
    id: str
    expiresAtMs: float


class PreparedTransfer(TypedDict):
    layers: int
    indexed: int
    nearest: PreparedTransferNearest1 | None
    lease: PreparedTransferLease1 | None
    frozen: list[str]


class SuccessorList(TypedDict):
    versionId: Hash
    before: list[DeclaredRelation]
    after: list[DeclaredRelation]


class DeclaredRelation(TypedDict):
    versionId: Hash
    name: str
    version: int
    state: str
    declared: NotRequired[Ended]


class ReduceReportDifference(TypedDict):
    numbers: int
    changed: int
    largest: float
    mean: float


class ReduceReport(TypedDict):
    base: ModelDescriptionLeavesItemOwner
    summary: VersionSummary | None
    scheme: str
    tensors: int
    reducedTensors: int
    rawBytes: int
    storedBytes: int
    ratio: float
    packBytes: int
    difference: ReduceReportDifference


class MergeReportBasesItem(TypedDict):
    versionId: Hash
    name: str
    version: float
    weight: NotRequired[float]


class MergeReport(TypedDict):
    rule: Literal["mean", "weighted", "trimmed"]
    trimmedEach: NotRequired[int]
    tensors: int
    sameTensors: int
    summary: VersionSummary
    bases: list[MergeReportBasesItem]


class FleetAverageReportTakenItem(TypedDict):
    versionId: Hash
    name: str
    version: float
    weight: NotRequired[float]
    device: str
    samples: NotRequired[int]
    distance: NotRequired[float]


class FleetAverageReportLeftOutItem(TypedDict):
    device: str
    because: str
    versionId: NotRequired[Hash]


class FleetAverageReport(TypedDict):
    rule: Literal["mean", "weighted", "trimmed"]
    trimmedEach: NotRequired[int]
    tensors: int
    sameTensors: int
    summary: VersionSummary | None
    taken: list[FleetAverageReportTakenItem]
    leftOut: list[FleetAverageReportLeftOutItem]
    medianSamples: NotRequired[float]
    medianDistance: NotRequired[float]
    haveCommonAncestor: bool


class EvaluationReportBackend(TypedDict):
    backend: str
    reason: str


class EvaluationReportWords(TypedDict):
    model: list[str]
    data: list[str]


class EvaluationReport(TypedDict):
    versionId: Hash
    name: str
    version: int
    scheme: str | None
    data: str
    metric: DeviceEvaluationVersionsItemMetric
    stored: Hash | None
    format: Literal[1]
    engine: Hash
    backend: EvaluationReportBackend
    evaluation: EvaluationMeasures
    samples: DeviceEvaluationSamples
    datasetHash: Hash
    durationMs: float
    words: NotRequired[EvaluationReportWords]


class EvaluationMeasuresChoice1Reconstruction(TypedDict):
    mean: float | None
    standardDeviation: float | None
    largest: float | None


class EvaluationMeasuresChoice1(TypedDict):
    task: Literal["regression"]
    samples: int
    meanAbsoluteError: float | None
    rootMeanSquareError: float | None
    r2: float | None
    reconstruction: NotRequired[EvaluationMeasuresChoice1Reconstruction]
    clusters: NotRequired[list[int]]


class EvaluationMeasuresChoice2Top(TypedDict):
    k: int
    correct: int
    accuracy: float | None


class EvaluationMeasuresChoice2ClassesItem(TypedDict):
    samples: int
    recall: float | None
    precision: float | None
    f1: float | None


class EvaluationMeasuresChoice2(TypedDict):
    task: Literal["classification"]
    samples: int
    correct: int
    accuracy: float | None
    top: NotRequired[EvaluationMeasuresChoice2Top]
    classes: list[EvaluationMeasuresChoice2ClassesItem]
    confusion: list[list[int]]


class EvaluationMeasuresChoice3OutputsItemEvaluation3(TypedDict):
    task: Literal["multi-label"]
    samples: int
    correct: int
    accuracy: float | None
    labels: list[EvaluationMeasuresChoice2ClassesItem]


class EvaluationMeasuresChoice3OutputsItem(TypedDict):
    name: str
    evaluation: EvaluationMeasuresChoice1 | EvaluationMeasuresChoice2 | EvaluationMeasuresChoice3OutputsItemEvaluation3


class EvaluationMeasuresChoice3(TypedDict):
    task: Literal["general"]
    samples: int
    loss: float | None
    outputs: list[EvaluationMeasuresChoice3OutputsItem]


EvaluationMeasures: TypeAlias = "EvaluationMeasuresChoice1 | EvaluationMeasuresChoice2 | EvaluationMeasuresChoice3"


ListedEvaluationData = TypedDict(
    "ListedEvaluationData",
    {
        "content": "Hash",
        "name": "NotRequired[str]",
        "reader": "str",
        "parameters": "dict[str, str | float | bool | list[str]]",
        "from": 'Literal["stored", "registered", "generator"]',
        "part": 'Literal["heldOut"]',
        "heldOut": "int",
        "evaluated": "int",
    },
)


class ListedEvaluation(TypedDict):
    evaluation: Hash
    versionId: Hash
    name: str
    version: int
    atMs: float
    by: NotRequired[str]
    data: ListedEvaluationData
    top: NotRequired[int]
    metric: DeviceEvaluationVersionsItemMetric
    measures: EvaluationMeasures
    engine: Hash
    backend: EvaluationReportBackend
    hasPredictions: bool


EvaluationDetailsPredictions1 = TypedDict(
    "EvaluationDetailsPredictions1",
    {
        "object": "Hash",
        "width": "int",
        "targets": "int",
        "from": "int",
        "rows": "list[list[float | None]]",
        "actual": "list[list[float | None]]",
    },
)


class EvaluationDetails(TypedDict):
    evaluation: Hash
    versionId: Hash
    name: str
    version: int
    atMs: float
    by: NotRequired[str]
    data: ListedEvaluationData
    top: NotRequired[int]
    metric: DeviceEvaluationVersionsItemMetric
    measures: EvaluationMeasures
    engine: Hash
    backend: EvaluationReportBackend
    root: Hash
    environment: dict[str, str]
    workMs: float
    predictions: EvaluationDetailsPredictions1 | None


class ProgressiveEvaluationReportLevelsItemTopsItem(TypedDict):
    top: int
    decided: int
    open: int


class ProgressiveEvaluationReportLevelsItem(TypedDict):
    level: int
    dataShare: float
    readBytes: int
    tops: list[ProgressiveEvaluationReportLevelsItemTopsItem]


class ProgressiveEvaluationReportTopsItem(TypedDict):
    top: int
    correct: int
    unanswerable: int
    equal: bool | None


class ProgressiveEvaluationReport(TypedDict):
    versionId: Hash
    name: str
    version: int
    data: str
    layout: Literal["stored", "fixed"]
    samples: DeviceEvaluationSamples
    totalBytes: int
    levels: list[ProgressiveEvaluationReportLevelsItem]
    tops: list[ProgressiveEvaluationReportTopsItem]
    durationMs: float
    words: NotRequired[EvaluationReportWords]


class ReplayReportDifferenceLargest(TypedDict):
    tensor: str
    difference: float


class ReplayReportDifference(TypedDict):
    tensors: int
    first: str
    largest: NotRequired[ReplayReportDifferenceLargest]


class ReplayReportCheckpoints(TypedDict):
    compared: int
    lastEqual: NotRequired[int]
    firstDifferent: NotRequired[int]


class ReplayReportLibraries(TypedDict):
    verdict: Literal["equal", "different", "not recorded"]
    text: str


class ReplayReport(TypedDict):
    versionId: Hash
    name: str
    version: int
    verdict: Literal["proved", "refuted", "unreplayable"]
    grade: NotRequired[Literal["bit-exact", "execution-exact", "different"]]
    reason: NotRequired[
        Literal[
            "no-provenance",
            "other-trainer",
            "redacted",
            "unsupported",
            "recipe-not-approved",
            "engine-missing",
            "base-missing",
            "data-missing",
            "other-class",
            "other-engine",
            "program-missing",
            "program-not-approved",
            "job-differs",
            "machine-inexact",
            "failed",
            "too-long",
        ]
    ]
    text: str
    difference: NotRequired[ReplayReportDifference]
    checkpoints: NotRequired[ReplayReportCheckpoints]
    libraries: NotRequired[ReplayReportLibraries]
    members: NotRequired[list[str]]
    proof: NotRequired[MemberProof]
    description: NotRequired[Literal["reader", "stored", "sent", "none"]]
    engineId: NotRequired[Hash]
    dataFrom: NotRequired[Literal["stored", "registered", "generator", "named"]]
    workMs: NotRequired[float]


class TrainReport(TypedDict):
    summary: VersionSummary
    result: TrainingResult


class TrainingResultMetric1(TypedDict):
    name: str
    unit: str
    lowerIsBetter: bool
    before: float | None
    after: float | None


class TrainingResultEvaluation(TypedDict):
    before: EvaluationMeasures
    after: EvaluationMeasures


class TrainingResultMeasurementsItem(TypedDict):
    iteration: int
    epoch: float
    loss: float | None
    learningRate: float | None
    validation: NotRequired[float | None]


class TrainingResultSamples(TypedDict):
    train: int
    validation: int
    heldOut: int


class TrainingResult(TypedDict):
    format: Literal[1]
    engine: Hash
    backend: EvaluationReportBackend
    metric: TrainingResultMetric1 | None
    evaluation: NotRequired[TrainingResultEvaluation]
    measurements: list[TrainingResultMeasurementsItem]
    epochs: float
    stoppedEarly: bool
    samples: TrainingResultSamples
    datasetHash: Hash
    provenance: dict[str, Any]
    durationMs: float
    continuations: NotRequired[float]
    checkpointsDropped: NotRequired[int]
    files: dict[str, Any]


BundleManifestObjects = TypedDict(
    "BundleManifestObjects",
    {
        "tree": "NotRequired[list[Hash]]",
        "architecture": "NotRequired[list[Hash]]",
        "names": "NotRequired[list[Hash]]",
        "owner-map": "NotRequired[list[Hash]]",
        "environment": "NotRequired[list[Hash]]",
        "metadata": "NotRequired[list[Hash]]",
        "measurements": "NotRequired[list[Hash]]",
        "provenance": "NotRequired[list[Hash]]",
        "openings": "NotRequired[list[Hash]]",
        "checkpoints": "NotRequired[list[Hash]]",
        "attachment": "NotRequired[list[Hash]]",
        "evaluation": "NotRequired[list[Hash]]",
        "recipe": "NotRequired[list[Hash]]",
        "data": "NotRequired[list[Hash]]",
        "tensor": "NotRequired[list[Hash]]",
    },
)


class BundleManifestAbsentItem(TypedDict):
    versionId: Hash
    why: Literal["retired", "not asked for", "not known"]


class BundleManifestWithheld(TypedDict):
    data: int
    engines: int
    predictions: int


class BundleManifestTagsItem(TypedDict):
    versionId: Hash
    tag: str


class BundleManifestEvaluationsItem(TypedDict):
    versionId: Hash
    object: Hash


class BundleManifestListingsItem(TypedDict):
    versionId: Hash
    license: NotRequired[str]
    task: NotRequired[str]


class BundleManifestSucceededItem(TypedDict):
    versionId: Hash
    successor: Hash
    because: str


class BundleManifest(TypedDict):
    format: Literal[1]
    models: list[Hash]
    records: list[str]
    objects: BundleManifestObjects
    absent: list[BundleManifestAbsentItem]
    redacted: list[Hash]
    withheld: BundleManifestWithheld
    tags: list[BundleManifestTagsItem]
    evaluations: list[BundleManifestEvaluationsItem]
    listings: list[BundleManifestListingsItem]
    succeeded: NotRequired[list[BundleManifestSucceededItem]]


class BundleProof(TypedDict):
    proof: Hash


class BegunDeposit(TypedDict):
    deposit: str
    lacking: list[Hash]
    begun: NotRequired[BegunEntry]
    versions: int


class BegunEntry(TypedDict):
    id: Hash
    bytes: int
    offset: int
    code: NotRequired[int]
    references: NotRequired[list[Hash]]


class DepositedObjects(TypedDict):
    taken: int


class DepositEndProve(TypedDict):
    challenge: Hash
    objects: list[Hash]


class DepositEnd(TypedDict):
    prove: NotRequired[DepositEndProve]
    report: NotRequired[DepositReport]


class DepositReportTagsKeptItem(TypedDict):
    versionId: Hash
    tag: str


class DepositReport(TypedDict):
    recorded: list[ImportReportLikelyBasesItem]
    alreadyHere: int
    tagsKept: list[DepositReportTagsKeptItem]


class HubModels(TypedDict):
    models: list[HubModel]
    total: int


class HubModel(TypedDict):
    versionId: Hash
    name: str
    version: int
    tags: list[str]
    license: NotRequired[str]
    task: NotRequired[str]
    listedAtMs: float
    by: NotRequired[str]
    tensorBytes: int
    layersInCommon: NotRequired[int]


class DatasetFiles(TypedDict):
    count: int
    bytes: int
    sha256: str
    modifiedAtMs: NotRequired[float]


class Dataset(TypedDict):
    name: str
    kind: str
    location: str
    parameters: dict[str, str | float | bool | list[str]]
    hash: str | None
    files: NotRequired[DatasetFiles]


class AddedDatasetLikeDifferencesItem(TypedDict):
    setting: str
    found: str
    recorded: str


class AddedDatasetLike(TypedDict):
    of: str
    isSame: bool
    differences: list[AddedDatasetLikeDifferencesItem]


class AddedDataset(TypedDict):
    name: str
    kind: str
    location: str
    parameters: dict[str, str | float | bool | list[str]]
    hash: str | None
    files: NotRequired[DatasetFiles]
    samples: int
    notRead: NotRequired[list[str]]
    like: NotRequired[AddedDatasetLike]


class DatasetCheck(TypedDict):
    ok: bool
    samples: int
    hash: str
    expected: str | None
    message: str
    files: NotRequired[DatasetFiles]


class DatasetDetailsStored1(TypedDict):
    object: Hash
    bytes: int
    chunks: int


class DatasetDetailsSource(TypedDict):
    state: Literal["unchanged", "changed", "unreadable"]
    message: NotRequired[str]
    files: NotRequired[DatasetFiles]
    samples: int | None
    format: NotRequired[Any]
    columns: NotRequired[Any]
    transformations: NotRequired[Any]
    split: NotRequired[Any]


class DatasetDetails(TypedDict):
    name: str
    kind: str
    location: str
    parameters: dict[str, str | float | bool | list[str]]
    hash: str | None
    files: NotRequired[DatasetFiles]
    stored: DatasetDetailsStored1 | None
    source: DatasetDetailsSource
    usedBy: list[ModelDescriptionLeavesItemOwner]


class PushedData(TypedDict):
    name: str
    hash: Hash
    object: Hash
    bytes: int
    chunks: int
    newBytes: int
    newChunks: int


class RemovedData(TypedDict):
    name: str
    versions: int


class ChangedReplayReportChangesItem(TypedDict):
    parameter: str
    before: str | float | bool
    after: str | float | bool


class ChangedReplayReport(TypedDict):
    summary: VersionSummary
    result: TrainingResult
    of: ModelDescriptionLeavesItemOwner
    changes: list[ChangedReplayReportChangesItem]


class SpotCheckReport(TypedDict):
    versionId: Hash
    name: str
    version: int
    outcome: Literal["asked", "passed", "refuted", "not-available"]
    segments: list[int]
    of: int
    engineId: Hash
    because: str
    everySteps: NotRequired[int]
    steps: NotRequired[int]
    workMs: NotRequired[int]


class ReplayJobProgress(TypedDict):
    phase: str
    epoch: NotRequired[float]
    epochs: NotRequired[float]
    iteration: NotRequired[float]
    iterations: NotRequired[float]


class ReplayJobProblem(TypedDict):
    code: str
    message: str


class ReplayJob(TypedDict):
    versionId: Hash
    name: str
    version: int
    kind: Literal["asked", "claim", "recovery"]
    device: NotRequired[str]
    line: NotRequired[str]
    state: Literal["waiting", "running", "ended", "failed", "cancelled", "wanted", "lost"]
    priority: NotRequired[int]
    queuedAtMs: float
    waitsFor: NotRequired[ModelDescriptionLeavesItemOwner]
    predictedMs: NotRequired[int]
    maxMinutes: NotRequired[int]
    by: NotRequired[str]
    startedAtMs: NotRequired[float]
    progress: NotRequired[ReplayJobProgress]
    endedAtMs: NotRequired[float]
    report: NotRequired[ReplayReport]
    because: NotRequired[str]
    problem: NotRequired[ReplayJobProblem]


class Engine(TypedDict):
    engine: Hash
    engineId: Hash
    source: Literal["build", "approval"]
    because: str
    atMs: float
    by: NotRequired[str]
    versions: int
    isStored: bool


class OwnRecipe(TypedDict):
    recipe: Hash
    name: str
    version: int
    because: str
    atMs: float
    by: NotRequired[str]
    revoked: NotRequired[Ended]
    versions: int
    devices: int
    isStored: bool


class StorageStatsCoded(TypedDict):
    tensors: int
    storedBytes: int
    byteLength: int
    deepest: int


class StorageStatsMerged(TypedDict):
    packs: int
    bytes: int


class StorageStatsDropped(TypedDict):
    versions: int
    tensorBytes: int


class StorageStatsLow(TypedDict):
    tensors: int
    bytes: int
    files: int


class StorageStats(TypedDict):
    versions: int
    tensors: int
    coded: StorageStatsCoded
    objects: int
    packs: int
    smallPacks: int
    merged: StorageStatsMerged
    packBytes: int
    journalBytes: int
    logicalBytes: int
    dropped: StorageStatsDropped
    low: StorageStatsLow
    damagedPacks: int
    unreadable: list[UnreadableVersion]


class CheckReportProblemsItem(TypedDict):
    what: str
    id: str
    message: str


class CheckReportUnrecoverableItemVersionsItem(TypedDict):
    versionId: Hash
    name: str
    version: int
    isDropped: bool


class CheckReportUnrecoverableItem(TypedDict):
    id: str
    kind: str
    versions: list[CheckReportUnrecoverableItemVersionsItem]
    isThisBuild: NotRequired[Literal[True]]


class CheckReportAbsentEnginesItem(TypedDict):
    engine: Hash
    versions: int
    isThisBuild: NotRequired[Literal[True]]


class CheckReportNotLookedAtItem(TypedDict):
    tier: str
    objects: int
    message: str


class CheckReportRepairedItem(TypedDict):
    pack: str
    kept: int
    lost: list[Hash]
    setAside: str | None


class CheckReport(TypedDict):
    versions: int
    objects: int
    bytes: int
    problems: list[CheckReportProblemsItem]
    unrecoverable: NotRequired[list[CheckReportUnrecoverableItem]]
    absentEngines: list[CheckReportAbsentEnginesItem]
    replayed: NotRequired[int]
    notLookedAt: NotRequired[list[CheckReportNotLookedAtItem]]
    repaired: NotRequired[list[CheckReportRepairedItem]]


class CollectionPlanDeadItem(TypedDict):
    id: Hash
    storedBytes: int


class CollectionPlan(TypedDict):
    format: Literal[1]
    generation: int
    live: int
    dead: list[CollectionPlanDeadItem]
    deletePacks: list[str]
    repackPacks: list[str]
    bytesBefore: int
    bytesAfter: int
    tiers: NotRequired[RemovedLowFiles]


class RemovedLowFilesPlacesItem(TypedDict):
    files: int
    bytes: int
    rewrittenBytes: int
    tier: str | None


class RemovedLowFilesUnreachableItem(TypedDict):
    tier: str
    message: str


class RemovedLowFiles(TypedDict):
    files: int
    bytes: int
    rewrittenBytes: int
    places: list[RemovedLowFilesPlacesItem]
    unreachable: list[RemovedLowFilesUnreachableItem]


class Collected(TypedDict):
    freedBytes: float
    tiers: NotRequired[RemovedLowFiles]


class RetentionSetting(TypedDict):
    scope: RetentionScope
    rule: str
    setAtMs: float
    by: NotRequired[str]


class RetentionScopeChoice1(TypedDict):
    of: Literal["fleet"]


class RetentionScopeChoice2(TypedDict):
    of: Literal["line"]
    line: str


class RetentionScopeChoice3(TypedDict):
    of: Literal["name"]
    name: str


RetentionScope: TypeAlias = "RetentionScopeChoice1 | RetentionScopeChoice2 | RetentionScopeChoice3"


class RetentionForecastKeepItem(TypedDict):
    versionId: Hash
    name: str
    version: int
    device: str
    line: str
    recordedAtMs: float
    tensorBytes: int
    ownBytes: int
    storedBytes: NotRequired[int]
    because: str
    reason: Literal[
        "held",
        "in-use",
        "unreleased",
        "busy",
        "refused",
        "tagged",
        "head",
        "no-rule",
        "for-ever",
        "young",
        "release-base",
        "one-of",
        "base",
    ]


class RetentionForecast(TypedDict):
    nowMs: float
    settings: list[RetentionSetting]
    kept: dict[str, int]
    keep: NotRequired[list[RetentionForecastKeepItem]]
    retire: list[Fate]
    bytesBefore: int
    freedBytes: int
    freeableBytes: int
    tiers: NotRequired[RemovedLowFiles]


class Fate(TypedDict):
    versionId: Hash
    name: str
    version: int
    device: str
    line: str
    recordedAtMs: float
    tensorBytes: int
    ownBytes: int
    storedBytes: NotRequired[int]
    because: str


class RetentionReport(TypedDict):
    nowMs: float
    retired: list[Fate]
    kept: int
    freedBytes: NotRequired[int]


class BackupReport(TypedDict):
    position: int
    bytes: int
    problems: list[CheckReportProblemsItem]


class DropReportDroppedItem(TypedDict):
    versionId: Hash
    name: str
    version: int
    tensorBytes: int
    freedBytes: int
    keptBytes: int
    recoveryMs: int
    isProved: bool


class DropReportKeptItem(TypedDict):
    versionId: Hash
    name: str
    version: int
    because: str
    isFit: bool


class DropReport(TypedDict):
    dropped: list[DropReportDroppedItem]
    kept: list[DropReportKeptItem]
    keptCount: int
    tensorBytes: int
    freedBytes: int
    keptBytes: int
    data: NotRequired[DroppedData]


class DroppedDataDroppedItem(TypedDict):
    versionId: Hash
    name: str
    version: int
    dataBytes: int
    freedBytes: int


class DroppedDataKeptItem(TypedDict):
    versionId: Hash
    name: str
    version: int
    because: str


class DroppedData(TypedDict):
    dropped: list[DroppedDataDroppedItem]
    kept: list[DroppedDataKeptItem]
    freedBytes: int


class DropPolicySetting(TypedDict):
    scope: RetentionScope
    policy: DropPolicy
    setAtMs: float
    by: NotRequired[str]


class DropPolicy(TypedDict):
    afterDays: int | None
    maxMinutes: int
    dataAfterDays: NotRequired[int]


class StorageTier(TypedDict):
    name: str
    folder: str
    addedAtMs: float
    error: NotRequired[ReplayJobProblem]
    freeBytes: NotRequired[int]
    files: NotRequired[int]
    bytes: NotRequired[int]


class TierPlanRecovery(TypedDict):
    meanBytes: int
    largestBytes: int
    meanMs: float
    largestMs: float


class TierPlan(TypedDict):
    fleet: str
    tier: str
    nearVersions: int
    versions: int
    tensors: int
    movedTensors: int
    movedBytes: int
    toMove: int
    toMoveBytes: int
    toRecode: int
    packBytes: int
    tierFreeBytes: int
    tierBytesPerSecond: float
    recovery: TierPlanRecovery


class TierAppliedFailedItem(TypedDict):
    tensor: Hash
    code: str
    message: str


class TierApplied(TypedDict):
    fleet: str
    tier: str
    movedTensors: int
    movedBytes: int
    recoded: int
    failed: list[TierAppliedFailedItem]
    stopped: Literal["time", "disk", "interrupted"] | None
    packBytesBefore: int
    packBytesAfter: int


class ArchivePlanRates(TypedDict):
    readUsPerByte: float
    hashUsPerByte: float
    aloneUsPerNumber: float
    deltaUsPerNumber: float
    extrapolatedUsPerNumber: float
    lowRankUsPerNumber: NotRequired[float]
    planesUsPerByte: float
    mixedUsPerByte: NotRequired[float]
    objectUs: float
    encodeUsPerNumber: NotRequired[float]
    lowRankEncodeUsPerNumber: NotRequired[float]


class ArchivePlanSummaryKindsItem(TypedDict):
    kind: str
    tensors: int
    storedBytes: float


class ArchivePlanSummaryMaterialised(TypedDict):
    largestUs: float
    meanUs: float


class ArchivePlanSummary(TypedDict):
    versions: int
    tensors: int
    unreadable: int
    tensorBytes: float
    bytesNow: float
    bytesPlanned: float
    rewrittenTensors: int
    rewrittenBytes: float
    kinds: list[ArchivePlanSummaryKindsItem]
    materialised: ArchivePlanSummaryMaterialised
    now: ArchivePlanSummaryMaterialised | None
    planned: ArchivePlanSummaryMaterialised
    diskNeeded: float
    applyMs: NotRequired[float]


class ArchivePlanPart(TypedDict):
    last: str
    lastName: str
    hasNext: bool


class ArchivePlanPlanCandidatesItem(TypedDict):
    algorithm: Literal["mst", "spt", "last", "pas-mt", "pas-pt", "search", "current"]
    storageCost: float
    isWithinBudgets: bool


ArchivePlanPlanVerticesItem = TypedDict(
    "ArchivePlanPlanVerticesItem",
    {
        "vertex": "str",
        "from": "str | None",
        "kind": "str",
        "storageCost": "float",
        "recreationCost": "float",
        "detail": "NotRequired[dict[str, str | float | bool | None]]",
    },
)


class ArchivePlanPlanSnapshotsItem(TypedDict):
    snapshot: str
    budget: float | None
    independent: float
    parallel: float
    reusable: float


class ArchivePlanPlan(TypedDict):
    format: Literal[1]
    scheme: Literal["independent", "parallel"]
    algorithm: Literal["mst", "spt", "last", "pas-mt", "pas-pt", "search", "current"]
    isRefined: bool
    isCutShort: bool
    storageCost: float
    leastStorageCost: float
    candidates: list[ArchivePlanPlanCandidatesItem]
    vertices: list[ArchivePlanPlanVerticesItem]
    snapshots: list[ArchivePlanPlanSnapshotsItem]


class ArchivePlan(TypedDict):
    format: Literal[1]
    fleet: str
    madeAtMs: float
    layout: Literal["packed", "planes", "fixed"]
    scheme: Literal["independent", "parallel"]
    ratio: float | Literal["auto"] | None
    rates: ArchivePlanRates
    summary: ArchivePlanSummary
    part: NotRequired[ArchivePlanPart]
    plan: ArchivePlanPlan
    members: list[list[int]]


class StorageAppliedPlanned(TypedDict):
    format: Literal[1]
    fleet: str
    madeAtMs: float
    layout: Literal["packed", "planes", "fixed"]
    scheme: Literal["independent", "parallel"]
    ratio: float | Literal["auto"] | None
    rates: ArchivePlanRates
    summary: ArchivePlanSummary
    part: NotRequired[ArchivePlanPart]


class StorageApplied(TypedDict):
    planned: StorageAppliedPlanned
    report: ApplyReport


class ApplyReport(TypedDict):
    fleet: str
    dryRun: bool
    stopped: Literal["time", "disk", "interrupted"] | None
    rewritten: int
    left: int
    already: int
    notSmaller: int
    kept: int
    unplanned: int
    stale: list[Any]
    failed: list[TierAppliedFailedItem]
    bytesBefore: int
    bytesPredicted: float
    bytesReached: int
    writtenBytes: int
    packs: int
    freedBytes: int
    durationMs: float
    hasNext: bool


class Lease(TypedDict):
    lease: str
    line: NotRequired[str]
    models: NotRequired[list[ImportReportLikelyBasesItem]]
    holder: str
    by: NotRequired[str]
    sinceMs: NotRequired[float]
    expiresAtMs: float


class StoreDamagePacksItem(TypedDict):
    pack: str
    id: Hash | None
    code: str
    message: str


class StoreDamage(TypedDict):
    packs: list[StoreDamagePacksItem]
    versions: list[UnreadableVersion]


class ServerCondition(TypedDict):
    status: Literal["ok", "degraded"]
    problems: list[ReplayJobProblem]


class ImportOptionsAttachmentsItem(TypedDict):
    name: str
    base64: str


class ImportOptionsPartsItem(TypedDict):
    iteration: NotRequired[int]
    byteLength: int
    fileName: NotRequired[str]


class ImportOptionsLocalFile(TypedDict):
    path: str
    size: int
    modifiedMs: float


class ImportOptions(TypedDict):
    name: str
    base: NotRequired[str]
    lease: NotRequired[str]
    onto: NotRequired[str]
    layout: NotRequired[Literal["original"]]
    architecture: NotRequired[str]
    device: NotRequired[str]
    line: NotRequired[str]
    force: NotRequired[bool]
    metadata: NotRequired[dict[str, str | float | bool]]
    attachments: NotRequired[list[ImportOptionsAttachmentsItem]]
    furtherBases: NotRequired[list[str]]
    measurements: NotRequired[list[ModelDescriptionMeasurementsItem]]
    fileName: NotRequired[str]
    parts: NotRequired[list[ImportOptionsPartsItem]]
    localFile: NotRequired[ImportOptionsLocalFile]
    story: NotRequired[Literal["keep", "ignore"]]
    dryRun: NotRequired[bool]


class AddTokenAnswer(TypedDict):
    name: str
    role: Literal["viewer", "publisher", "releaser", "operator", "admin"]
    fleets: NotRequired[list[str]]
    expiresAtMs: NotRequired[float]
    token: str


class TestWebhookAnswer(TypedDict):
    isDelivered: bool
    because: NotRequired[str]


class RenewDeviceAnswer(TypedDict):
    device: str
    serial: str
    keyHash: str
    notAfterMs: float


class TrainOnDeviceAnswer(TypedDict):
    accepted: bool
    message: str


class CommandAnswer(TypedDict):
    code: str
    result: NotRequired[Any]


class AcceptDevicesAnswer(TypedDict):
    accepted: list[str]


class RemoveAuthorityAnswer(TypedDict):
    devices: list[str]


class TakeRevocationListAnswer(TypedDict):
    number: str
    nextUpdateMs: float
    revoked: int
    added: int
    restored: int
    isKnown: bool
    devices: list[str]


class CreateRolloutPolicy(TypedDict):
    waves: NotRequired[list[str]]
    soakMinutes: NotRequired[float]
    timeoutMinutes: NotRequired[float]
    level: NotRequired[float]
    margin: NotRequired[float]
    maxFailed: NotRequired[float]
    minAnswered: NotRequired[float]
    own: NotRequired[Literal["replace", "keep"]]
    unmeasured: NotRequired[Literal["fail", "switch"]]
    onFailure: NotRequired[Literal["pause", "undo"]]
    atOnce: NotRequired[int]
    samples: NotRequired[int]
    maxSlowdown: NotRequired[float]
    maxMoreMemoryMb: NotRequired[float]
    maxChange: NotRequired[float]
    live: NotRequired[RolloutSummaryPolicyLive]
    wait: NotRequired[bool]
    approval: NotRequired[bool]
    deadlineMinutes: NotRequired[float]
    windows: NotRequired[list[str]]
    maxBytesPerSecond: NotRequired[int]
    priority: NotRequired[int]
    onlyOnPower: NotRequired[bool]
    links: NotRequired[list[str]]


class UndoRolloutAnswerItem(TypedDict):
    device: str
    to: str | None


class PublishReleasesAnswer(TypedDict):
    changes: list[str]
    releases: FleetReleases


class ReleaseManifestAnswer(TypedDict):
    fleet: str
    model: str
    manifest: str


class PublishOwnerTimeAnswer(TypedDict):
    number: int
    says: list[str]


class EvaluateQueryAnswerProgress1(TypedDict):
    state: Literal["running"]
    line: str
    iteration: NotRequired[float]
    loss: NotRequired[float | None]
    prediction: NotRequired[str]
    predictedMs: NotRequired[int]
    leftMs: NotRequired[int]
    maxMinutes: NotRequired[int]


class EvaluateQueryAnswer(TypedDict):
    job: str
    fleet: str
    name: str
    state: Literal["running", "done", "failed"]
    startedAtMs: float
    endedAtMs: float | None
    progress: EvaluateQueryAnswerProgress1 | None
    report: EvaluatedModels | None
    error: Error | None


class TrainAnswer(TypedDict):
    job: str
    fleet: str
    name: str
    state: Literal["running", "done", "failed"]
    startedAtMs: float
    endedAtMs: float | None
    progress: EvaluateQueryAnswerProgress1 | None
    report: TrainReport | None
    error: Error | None


class TrainJobsAnswerItem(TypedDict):
    job: str
    fleet: str
    name: str
    state: Literal["running", "done", "failed"]
    startedAtMs: float
    endedAtMs: float | None
    progress: EvaluateQueryAnswerProgress1 | None
    report: TrainReport | None
    error: Error | None


class EvaluateQueryJobAnswer(TypedDict):
    job: str
    fleet: str
    name: str
    state: Literal["running", "done", "failed"]
    startedAtMs: float
    endedAtMs: float | None
    progress: EvaluateQueryAnswerProgress1 | None
    report: EvaluatedModels | None
    error: Error | None


class AddDatasetLike1(TypedDict):
    model: str


class AddDatasetLike2(TypedDict):
    story: str


class ReplayStoryTensorsItem(TypedDict):
    name: str
    id: Hash


class StoryAnswer(TypedDict):
    versionId: Hash
    name: str
    version: int
    story: str


class ApproveEngineAnswer(TypedDict):
    engine: Hash
    engineId: Hash
    jobForm: int
    approved: bool


class ApproveRecipeAnswer(TypedDict):
    recipe: Hash
    name: str
    version: int
    title: str
    approved: bool


class ForecastRetentionTrying(TypedDict):
    scope: RetentionScope
    rule: str | None


class ReindexAnswer(TypedDict):
    versions: float
    unreadable: list[UnreadableVersion]


class PlanStorageAnswerReport1(TypedDict):
    plan: ArchivePlan


class PlanStorageAnswer(TypedDict):
    job: str
    fleet: str
    name: str
    state: Literal["running", "done", "failed"]
    startedAtMs: float
    endedAtMs: float | None
    progress: str | None
    report: PlanStorageAnswerReport1 | None
    error: Error | None


class ApplyStorageAnswerReport1(TypedDict):
    applied: StorageApplied


class ApplyStorageAnswer(TypedDict):
    job: str
    fleet: str
    name: str
    state: Literal["running", "done", "failed"]
    startedAtMs: float
    endedAtMs: float | None
    progress: str | None
    report: ApplyStorageAnswerReport1 | None
    error: Error | None


class EndLeaseAnswer(TypedDict):
    lease: str


class PlanStorageJobAnswer(TypedDict):
    job: str
    fleet: str
    name: str
    state: Literal["running", "done", "failed"]
    startedAtMs: float
    endedAtMs: float | None
    progress: str | None
    report: PlanStorageAnswerReport1 | ApplyStorageAnswerReport1 | None
    error: Error | None


class ReadyzAnswer(TypedDict):
    status: Literal["ready", "starting", "stopping"]
