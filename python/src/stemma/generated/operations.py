"""A method for each operation of the HTTP API whose answer is JSON. `npm run http-api` writes this file from the table of operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from stemma.calls import ABSENT, Absent, Caller, given

if TYPE_CHECKING:
    from stemma.generated.types import (
        AcceptDevicesAnswer,
        AddDatasetLike1,
        AddDatasetLike2,
        AddedDataset,
        AddTokenAnswer,
        AncestorInCommon,
        ApplyStorageAnswer,
        ApprovedRestore,
        ApproveEngineAnswer,
        ApproveRecipeAnswer,
        AttachedFile,
        Authority,
        BackupReport,
        Batch,
        BatchInvitation,
        BegunDeposit,
        BundleManifest,
        BundleProof,
        CertificateAnswer,
        ChangedReplayReport,
        CheckpointText,
        CheckpointToCosign,
        CheckReport,
        Collected,
        CollectionPlan,
        CollectionPlanDeadItem,
        CommandAnswer,
        CreatedRollout,
        CreateRolloutPolicy,
        Dataset,
        DatasetCheck,
        DatasetDetails,
        DepositEnd,
        DerivedModelNetworkInherited,
        DescendantPage,
        DeviceEvaluation,
        DeviceFacts,
        DeviceLog,
        DropPolicy,
        DropPolicySetting,
        DropReport,
        EndLeaseAnswer,
        Engine,
        Enrolment,
        Erasure,
        EvaluateQueryAnswer,
        EvaluateQueryJobAnswer,
        EvaluationDetails,
        EvaluationReport,
        FactProof,
        FleetAverageReport,
        FleetMoment,
        FleetReleases,
        FleetSummary,
        ForecastRetentionTrying,
        Hash,
        HubModels,
        Invitation,
        JournalLeaves,
        JournalPage,
        LabelledDevice,
        Lease,
        LineageGraph,
        ListedDevice,
        ListedEvaluation,
        MergeReport,
        ModelDescription,
        ModelDiff,
        NamedToken,
        NearestModel,
        OwnerPage,
        OwnRecipe,
        PlanStorageAnswer,
        PlanStorageJobAnswer,
        PreparedTransfer,
        ProgressiveEvaluationReport,
        ProvenHead,
        PublishOwnerTimeAnswer,
        PublishReleasesAnswer,
        PushedData,
        QueryAnswer,
        ReadyzAnswer,
        RecoveryExplanation,
        ReduceReport,
        ReindexAnswer,
        ReleaseManifestAnswer,
        RemoveAuthorityAnswer,
        RemovedData,
        RemovedLowFiles,
        RenewDeviceAnswer,
        ReplayJob,
        ReplayReport,
        ReplayStoryTensorsItem,
        RestoreStatement,
        RetentionForecast,
        RetentionReport,
        RetentionScope,
        RetentionSetting,
        RolloutDetail,
        RolloutPlan,
        RolloutSummary,
        RolloutTransfers,
        SavedDerivedModels,
        SavedQuery,
        ServerAddresses,
        ServerCondition,
        ServerHealth,
        SetDevice,
        ShownDevice,
        SpotCheckReport,
        StorageStats,
        StorageTier,
        StoreDamage,
        StoryAnswer,
        SuccessorList,
        TakeRevocationListAnswer,
        TestWebhookAnswer,
        TfjsModel,
        TierApplied,
        TierPlan,
        TracedSubject,
        TrainAnswer,
        TrainJobsAnswerItem,
        TrainOnDeviceAnswer,
        UndoRolloutAnswerItem,
        VerificationReport,
        VersionPage,
        VersionSummary,
        Webhook,
    )


class Operations(Caller):
    """The operations by their names in docs/http-api.md; without `fleet` that of the connection is meant."""

    def health(
        self,
    ) -> ServerHealth:
        """Whether the server runs, and where; without a token it answers its version only."""
        answer = self._call(
            "health",
            "GET",
            "/v1/health",
        )
        return cast("ServerHealth", answer)

    def fleets(
        self,
    ) -> list[FleetSummary]:
        """The fleets of the server's home (right read)."""
        answer = self._call(
            "fleets",
            "GET",
            "/v1/fleets",
        )
        return cast("list[FleetSummary]", answer)

    def tokens(
        self,
    ) -> list[NamedToken]:
        """Tokens of the HTTP port besides the home's own, without the tokens themselves (right administer)."""
        answer = self._call(
            "tokens",
            "GET",
            "/v1/tokens",
        )
        return cast("list[NamedToken]", answer)

    def add_token(
        self,
        *,
        name: str,
        role: Literal["viewer", "publisher", "releaser", "operator", "admin"],
        fleets: list[str] | None = None,
        valid_ms: int | None = None,
    ) -> AddTokenAnswer:
        """Make a token; only this answer has it (right administer)."""
        answer = self._call(
            "addToken",
            "POST",
            "/v1/tokens",
            body={"name": name, "role": role, "fleets": given(fleets), "validMs": given(valid_ms)},
        )
        return cast("AddTokenAnswer", answer)

    def remove_token(
        self,
        name: str,
    ) -> list[NamedToken]:
        """Refuse a token from now on (right administer)."""
        answer = self._call(
            "removeToken",
            "POST",
            "/v1/tokens/{name}/remove",
            path={"name": name},
        )
        return cast("list[NamedToken]", answer)

    def journal(
        self,
        *,
        fleet: str | None = None,
        from_: int | None = None,
        limit: int | None = None,
    ) -> JournalPage:
        """Facts of a fleet in the order in which they became true, with who caused them (right read)."""
        answer = self._call(
            "journal",
            "GET",
            "/v1/fleets/{fleet}/journal",
            path={"fleet": fleet},
            query={"from": given(from_), "limit": given(limit)},
        )
        return cast("JournalPage", answer)

    def journal_head(
        self,
        *,
        fleet: str | None = None,
        from_: int | None = None,
    ) -> ProvenHead:
        """The signed head of a fleet's journal, and a proof that an earlier journal is its start (right read)."""
        answer = self._call(
            "journalHead",
            "GET",
            "/v1/fleets/{fleet}/journal/head",
            path={"fleet": fleet},
            query={"from": given(from_)},
        )
        return cast("ProvenHead", answer)

    def journal_checkpoint(
        self,
        *,
        fleet: str | None = None,
        from_: int | None = None,
    ) -> CheckpointToCosign:
        """The head of a fleet's journal as a checkpoint, which public witnesses can cosign (right read)."""
        answer = self._call(
            "journalCheckpoint",
            "GET",
            "/v1/fleets/{fleet}/journal/checkpoint",
            path={"fleet": fleet},
            query={"from": given(from_)},
        )
        return cast("CheckpointToCosign", answer)

    def cosign_journal(
        self,
        *,
        fleet: str | None = None,
        checkpoint: str,
    ) -> CheckpointText:
        """Bring a checkpoint with the cosignatures of witnesses; devices that ask for them are shown it (right
        change-devices).
        """
        answer = self._call(
            "cosignJournal",
            "POST",
            "/v1/fleets/{fleet}/journal/checkpoint",
            path={"fleet": fleet},
            body={"checkpoint": checkpoint},
        )
        return cast("CheckpointText", answer)

    def prove_fact(
        self,
        *,
        fleet: str | None = None,
        position: int | None = None,
        model: str | None = None,
        length: int | None = None,
    ) -> FactProof:
        """The proof that a fact is in the journal: by its position, or the fact that recorded a model (right read)."""
        answer = self._call(
            "proveFact",
            "GET",
            "/v1/fleets/{fleet}/journal/proof",
            path={"fleet": fleet},
            query={"position": given(position), "model": given(model), "length": given(length)},
        )
        return cast("FactProof", answer)

    def journal_entries(
        self,
        *,
        fleet: str | None = None,
        from_: int,
        limit: int | None = None,
    ) -> JournalLeaves:
        """The facts of a journal exactly as they are in it, to keep or to check them elsewhere (right administer)."""
        answer = self._call(
            "journalEntries",
            "GET",
            "/v1/fleets/{fleet}/journal/entries",
            path={"fleet": fleet},
            query={"from": from_, "limit": given(limit)},
        )
        return cast("JournalLeaves", answer)

    def restore_to_sign(
        self,
        *,
        fleet: str | None = None,
    ) -> RestoreStatement:
        """What the fleet's owner is to sign, so that devices that demand releases go on after a restore (right
        read).
        """
        answer = self._call(
            "restoreToSign",
            "GET",
            "/v1/fleets/{fleet}/journal/restored",
            path={"fleet": fleet},
        )
        return cast("RestoreStatement", answer)

    def approve_restore(
        self,
        *,
        fleet: str | None = None,
        file: str,
        dry_run: bool | None = None,
    ) -> ApprovedRestore:
        """Bring the owner's signature of a restore; it is checked as a device checks it (right publish)."""
        answer = self._call(
            "approveRestore",
            "POST",
            "/v1/fleets/{fleet}/journal/restored",
            path={"fleet": fleet},
            body={"file": file, "dryRun": given(dry_run)},
        )
        return cast("ApprovedRestore", answer)

    def trace(
        self,
        *,
        fleet: str | None = None,
        id: str,
        device: str | None = None,
        before: int | None = None,
        limit: int | None = None,
    ) -> TracedSubject:
        """What the journal and the server's newest log lines say about one version, rollout or request (right
        read-logs).
        """
        answer = self._call(
            "trace",
            "GET",
            "/v1/fleets/{fleet}/trace",
            path={"fleet": fleet},
            query={"id": id, "device": given(device), "before": given(before), "limit": given(limit)},
        )
        return cast("TracedSubject", answer)

    def webhooks(
        self,
    ) -> list[Webhook]:
        """The webhooks of the server's home, and how their deliveries go (right administer)."""
        answer = self._call(
            "webhooks",
            "GET",
            "/v1/webhooks",
        )
        return cast("list[Webhook]", answer)

    def add_webhook(
        self,
        *,
        name: str,
        fleet: str,
        url: str,
        types: list[str] | None = None,
        from_: int | None = None,
    ) -> Webhook:
        """Send the facts of a fleet to an address, signed, in order and at least once (right administer)."""
        answer = self._call(
            "addWebhook",
            "POST",
            "/v1/webhooks",
            body={"name": name, "fleet": fleet, "url": url, "types": given(types), "from": given(from_)},
        )
        return cast("Webhook", answer)

    def move_webhook(
        self,
        name: str,
        *,
        from_: int,
    ) -> Webhook:
        """Send facts again, or pass some over: set the position that a webhook goes on from (right administer)."""
        answer = self._call(
            "moveWebhook",
            "POST",
            "/v1/webhooks/{name}/move",
            path={"name": name},
            body={"from": from_},
        )
        return cast("Webhook", answer)

    def test_webhook(
        self,
        name: str,
    ) -> TestWebhookAnswer:
        """Send a webhook a signed request without facts, and tell what its receiver answered (right administer)."""
        answer = self._call(
            "testWebhook",
            "POST",
            "/v1/webhooks/{name}/test",
            path={"name": name},
        )
        return cast("TestWebhookAnswer", answer)

    def remove_webhook(
        self,
        name: str,
    ) -> list[Webhook]:
        """Send nothing to a webhook any more (right administer)."""
        answer = self._call(
            "removeWebhook",
            "POST",
            "/v1/webhooks/{name}/remove",
            path={"name": name},
        )
        return cast("list[Webhook]", answer)

    def devices(
        self,
        *,
        fleet: str | None = None,
        select: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
    ) -> list[ListedDevice]:
        """The devices of a fleet and what they run now (right read)."""
        answer = self._call(
            "devices",
            "GET",
            "/v1/fleets/{fleet}/devices",
            path={"fleet": fleet},
            query={"select": given(select), "offset": given(offset), "limit": given(limit)},
        )
        return cast("list[ListedDevice]", answer)

    def enroll(
        self,
        *,
        fleet: str | None = None,
        device: str,
        lines: list[str],
        profile: str | None = None,
        initial: dict[str, str] | None = None,
        allow_reduced: bool | None = None,
        even_if_claimed: bool | None = None,
        force: bool | None = None,
        releases: Literal["required", "accepted", "off"] | None = None,
        dry_run: bool | None = None,
    ) -> Enrolment:
        """Give a device its key, its token and the server's key, where the server takes tokens; the answer is secret
        and given once (right enrol).
        """
        answer = self._call(
            "enroll",
            "POST",
            "/v1/fleets/{fleet}/devices",
            path={"fleet": fleet},
            body={
                "device": device,
                "lines": lines,
                "profile": given(profile),
                "initial": given(initial),
                "allowReduced": given(allow_reduced),
                "evenIfClaimed": given(even_if_claimed),
                "force": given(force),
                "releases": given(releases),
                "dryRun": given(dry_run),
            },
        )
        return cast("Enrolment", answer)

    def device(
        self,
        device: str,
        *,
        fleet: str | None = None,
    ) -> ShownDevice:
        """One device: lines, active models, session (right read)."""
        answer = self._call(
            "device",
            "GET",
            "/v1/fleets/{fleet}/devices/{device}",
            path={"fleet": fleet, "device": device},
        )
        return cast("ShownDevice", answer)

    def label_devices(
        self,
        *,
        fleet: str | None = None,
        device: str | None = None,
        select: str | None = None,
        labels: dict[str, str | None],
        dry_run: bool | None = None,
    ) -> list[LabelledDevice]:
        """Give labels to a device, or to all that a selection means; null removes one (right change-devices)."""
        answer = self._call(
            "labelDevices",
            "POST",
            "/v1/fleets/{fleet}/device-labels",
            path={"fleet": fleet},
            body={"device": given(device), "select": given(select), "labels": labels, "dryRun": given(dry_run)},
        )
        return cast("list[LabelledDevice]", answer)

    def invite(
        self,
        *,
        fleet: str | None = None,
        device: str,
        lines: list[str],
        profile: str | None = None,
        initial: dict[str, str] | None = None,
        allow_reduced: bool | None = None,
        even_if_claimed: bool | None = None,
        force: bool | None = None,
        releases: Literal["required", "accepted", "off"] | None = None,
        valid_ms: int | None = None,
        authority: str | None = None,
    ) -> Invitation:
        """Invite a device that makes its own keys: the answer goes to the device, which enrols with it once (right
        enrol).
        """
        answer = self._call(
            "invite",
            "POST",
            "/v1/fleets/{fleet}/invitations",
            path={"fleet": fleet},
            body={
                "device": device,
                "lines": lines,
                "profile": given(profile),
                "initial": given(initial),
                "allowReduced": given(allow_reduced),
                "evenIfClaimed": given(even_if_claimed),
                "force": given(force),
                "releases": given(releases),
                "validMs": given(valid_ms),
                "authority": given(authority),
            },
        )
        return cast("Invitation", answer)

    def certify(
        self,
        *,
        request: Any,
    ) -> CertificateAnswer:
        """Give a device a certificate, for its invitation or its certificate before; needs no token."""
        answer = self._call(
            "certify",
            "POST",
            "/v1/certificates",
            body={"request": request},
        )
        return cast("CertificateAnswer", answer)

    def renew_device(
        self,
        device: str,
        *,
        fleet: str | None = None,
    ) -> RenewDeviceAnswer:
        """Ask a connected device to renew its certificate now (right enrol)."""
        answer = self._call(
            "renewDevice",
            "POST",
            "/v1/fleets/{fleet}/devices/{device}/renew",
            path={"fleet": fleet, "device": device},
            is_long=True,
        )
        return cast("RenewDeviceAnswer", answer)

    def addresses(
        self,
    ) -> ServerAddresses:
        """How devices reach the server, as enrolment files state it (right read)."""
        answer = self._call(
            "addresses",
            "GET",
            "/v1/addresses",
        )
        return cast("ServerAddresses", answer)

    def revoke(
        self,
        device: str,
        *,
        fleet: str | None = None,
        because: str | None = None,
        even_if_claimed: bool | None = None,
    ) -> None:
        """Cut a device off: its certificate, token and key are refused from now on; its models are kept (right
        enrol).
        """
        self._call(
            "revoke",
            "POST",
            "/v1/fleets/{fleet}/devices/{device}/revoke",
            path={"fleet": fleet, "device": device},
            body={"because": given(because), "evenIfClaimed": given(even_if_claimed)},
        )

    def assign(
        self,
        device: str,
        *,
        fleet: str | None = None,
        line: str,
        model: str,
        allow_reduced: bool | None = None,
        lease_key: str | None = None,
        force: bool | None = None,
        dry_run: bool | None = None,
    ) -> VersionSummary:
        """Give a model to a device's line, as initial model or update (right deploy)."""
        answer = self._call(
            "assign",
            "POST",
            "/v1/fleets/{fleet}/devices/{device}/assign",
            path={"fleet": fleet, "device": device},
            body={
                "line": line,
                "model": model,
                "allowReduced": given(allow_reduced),
                "leaseKey": given(lease_key),
                "force": given(force),
                "dryRun": given(dry_run),
            },
        )
        return cast("VersionSummary", answer)

    def rollback_device(
        self,
        device: str,
        *,
        fleet: str | None = None,
        line: str,
        to: str | None = None,
        dry_run: bool | None = None,
    ) -> VersionSummary:
        """Return a line of a device to a model that it ran or made before (right deploy)."""
        answer = self._call(
            "rollbackDevice",
            "POST",
            "/v1/fleets/{fleet}/devices/{device}/rollback",
            path={"fleet": fleet, "device": device},
            body={"line": line, "to": given(to), "dryRun": given(dry_run)},
        )
        return cast("VersionSummary", answer)

    def train_on_device(
        self,
        device: str,
        *,
        fleet: str | None = None,
        line: str,
        parameters: dict[str, str | float | bool] | None = None,
        lease_key: str | None = None,
    ) -> TrainOnDeviceAnswer:
        """Ask a connected device to fine-tune a line now (right change-devices)."""
        answer = self._call(
            "trainOnDevice",
            "POST",
            "/v1/fleets/{fleet}/devices/{device}/train",
            path={"fleet": fleet, "device": device},
            body={"line": line, "parameters": given(parameters), "leaseKey": given(lease_key)},
        )
        return cast("TrainOnDeviceAnswer", answer)

    def evaluate_on_device(
        self,
        device: str,
        *,
        fleet: str | None = None,
        line: str,
        models: list[str] | None = None,
        limit: int | None = None,
        timeout_ms: int | None = None,
    ) -> DeviceEvaluation:
        """Ask a connected device to measure one or two of its models on its own held-out samples (right
        change-devices).
        """
        answer = self._call(
            "evaluateOnDevice",
            "POST",
            "/v1/fleets/{fleet}/devices/{device}/evaluate",
            path={"fleet": fleet, "device": device},
            body={"line": line, "models": given(models), "limit": given(limit), "timeoutMs": given(timeout_ms)},
            is_long=True,
        )
        return cast("DeviceEvaluation", answer)

    def command(
        self,
        device: str,
        *,
        fleet: str | None = None,
        name: str,
        body: Any | Absent = ABSENT,
        timeout_ms: int | None = None,
    ) -> CommandAnswer:
        """Any command that a connected device answers: train, report, activate, evaluate (right deploy)."""
        answer = self._call(
            "command",
            "POST",
            "/v1/fleets/{fleet}/devices/{device}/commands",
            path={"fleet": fleet, "device": device},
            body={"name": name, "body": body, "timeoutMs": given(timeout_ms)},
            is_long=True,
        )
        return cast("CommandAnswer", answer)

    def create_batch(
        self,
        *,
        fleet: str | None = None,
        batch: str,
        count: int,
        valid_ms: int,
        lines: list[str],
        profile: str | None = None,
        initial: dict[str, str] | None = None,
        allow_reduced: bool | None = None,
        force: bool | None = None,
        releases: Literal["required", "accepted", "off"] | None = None,
        authority: str | None = None,
        name_pattern: str | None = None,
        names: list[str] | None = None,
        hold: bool | None = None,
        may_replace: bool | None = None,
        labels: dict[str, str] | None = None,
    ) -> BatchInvitation:
        """Make one invitation for many devices; the answer has its key, which is given once (right enrol)."""
        answer = self._call(
            "createBatch",
            "POST",
            "/v1/fleets/{fleet}/batches",
            path={"fleet": fleet},
            body={
                "batch": batch,
                "count": count,
                "validMs": valid_ms,
                "lines": lines,
                "profile": given(profile),
                "initial": given(initial),
                "allowReduced": given(allow_reduced),
                "force": given(force),
                "releases": given(releases),
                "authority": given(authority),
                "namePattern": given(name_pattern),
                "names": given(names),
                "hold": given(hold),
                "mayReplace": given(may_replace),
                "labels": given(labels),
            },
        )
        return cast("BatchInvitation", answer)

    def batches(
        self,
        *,
        fleet: str | None = None,
    ) -> list[Batch]:
        """The batches of a fleet, with the devices that they enrolled (right read)."""
        answer = self._call(
            "batches",
            "GET",
            "/v1/fleets/{fleet}/batches",
            path={"fleet": fleet},
        )
        return cast("list[Batch]", answer)

    def revoke_batch(
        self,
        batch: str,
        *,
        fleet: str | None = None,
        because: str | None = None,
    ) -> Batch:
        """Let no further device enrol with a batch's invitation; those that did stay (right enrol)."""
        answer = self._call(
            "revokeBatch",
            "POST",
            "/v1/fleets/{fleet}/batches/{batch}/revoke",
            path={"fleet": fleet, "batch": batch},
            body={"because": given(because)},
        )
        return cast("Batch", answer)

    def accept_devices(
        self,
        *,
        fleet: str | None = None,
        devices: list[str] | None = None,
        batch: str | None = None,
        dry_run: bool | None = None,
    ) -> AcceptDevicesAnswer:
        """Serve devices that wait to be accepted: those named, or all of a batch (right enrol)."""
        answer = self._call(
            "acceptDevices",
            "POST",
            "/v1/fleets/{fleet}/accept",
            path={"fleet": fleet},
            body={"devices": given(devices), "batch": given(batch), "dryRun": given(dry_run)},
        )
        return cast("AcceptDevicesAnswer", answer)

    def authorities(
        self,
        *,
        fleet: str | None = None,
    ) -> list[Authority]:
        """The certificate authorities of the fleet's owner (right read)."""
        answer = self._call(
            "authorities",
            "GET",
            "/v1/fleets/{fleet}/authorities",
            path={"fleet": fleet},
        )
        return cast("list[Authority]", answer)

    def add_authority(
        self,
        *,
        fleet: str | None = None,
        authority: str,
        certificates: str,
        name_form: str | None = None,
        on_ended_list: Literal["serve", "refuse"] | None = None,
        replace: bool | None = None,
        dry_run: bool | None = None,
    ) -> Authority:
        """Let the certificates of an authority name devices of this fleet (right administer)."""
        answer = self._call(
            "addAuthority",
            "POST",
            "/v1/fleets/{fleet}/authorities",
            path={"fleet": fleet},
            body={
                "authority": authority,
                "certificates": certificates,
                "nameForm": given(name_form),
                "onEndedList": given(on_ended_list),
                "replace": given(replace),
                "dryRun": given(dry_run),
            },
        )
        return cast("Authority", answer)

    def remove_authority(
        self,
        authority: str,
        *,
        fleet: str | None = None,
        because: str | None = None,
        dry_run: bool | None = None,
    ) -> RemoveAuthorityAnswer:
        """Trust an authority no more; its devices are cut off at once (right administer)."""
        answer = self._call(
            "removeAuthority",
            "POST",
            "/v1/fleets/{fleet}/authorities/{authority}/remove",
            path={"fleet": fleet, "authority": authority},
            body={"because": given(because), "dryRun": given(dry_run)},
        )
        return cast("RemoveAuthorityAnswer", answer)

    def take_revocation_list(
        self,
        authority: str,
        *,
        fleet: str | None = None,
        list: str,
        dry_run: bool | None = None,
    ) -> TakeRevocationListAnswer:
        """Take a revocation list of an authority; devices whose certificates are on it are cut off at once (right
        enrol).
        """
        answer = self._call(
            "takeRevocationList",
            "POST",
            "/v1/fleets/{fleet}/authorities/{authority}/lists",
            path={"fleet": fleet, "authority": authority},
            body={"list": list, "dryRun": given(dry_run)},
        )
        return cast("TakeRevocationListAnswer", answer)

    def set_devices(
        self,
        *,
        fleet: str | None = None,
        device: str | None = None,
        select: str | None = None,
        settings: dict[str, str | float | None],
        dry_run: bool | None = None,
    ) -> list[SetDevice]:
        """Set settings of a device, or of all that a selection means; null returns one to the device's own (right
        change-devices).
        """
        answer = self._call(
            "setDevices",
            "POST",
            "/v1/fleets/{fleet}/device-settings",
            path={"fleet": fleet},
            body={"device": given(device), "select": given(select), "settings": settings, "dryRun": given(dry_run)},
        )
        return cast("list[SetDevice]", answer)

    def device_events(
        self,
        device: str,
        *,
        fleet: str | None = None,
        before: int | None = None,
        limit: int | None = None,
    ) -> DeviceFacts:
        """What the journal says about one device, newest last, page by page from the end (right read)."""
        answer = self._call(
            "deviceEvents",
            "GET",
            "/v1/fleets/{fleet}/devices/{device}/events",
            path={"fleet": fleet, "device": device},
            query={"before": given(before), "limit": given(limit)},
        )
        return cast("DeviceFacts", answer)

    def device_logs(
        self,
        device: str,
        *,
        fleet: str | None = None,
        before: int | None = None,
        limit: int | None = None,
        level: Literal["debug", "info", "warn", "error"] | None = None,
        about: str | None = None,
        timeout_ms: int | None = None,
    ) -> DeviceLog:
        """The newest events in the log of a connected device's agent (right read-logs)."""
        answer = self._call(
            "deviceLogs",
            "GET",
            "/v1/fleets/{fleet}/devices/{device}/logs",
            path={"fleet": fleet, "device": device},
            query={
                "before": given(before),
                "limit": given(limit),
                "level": given(level),
                "about": given(about),
                "timeoutMs": given(timeout_ms),
            },
            is_long=True,
        )
        return cast("DeviceLog", answer)

    def quarantine_device(
        self,
        device: str,
        *,
        fleet: str | None = None,
        quarantined: bool,
        because: str | None = None,
    ) -> ShownDevice:
        """Refuse a device for now, or serve it again; unlike a revocation this can be taken back (right
        change-devices).
        """
        answer = self._call(
            "quarantineDevice",
            "POST",
            "/v1/fleets/{fleet}/devices/{device}/quarantine",
            path={"fleet": fleet, "device": device},
            body={"quarantined": quarantined, "because": given(because)},
        )
        return cast("ShownDevice", answer)

    def erase_devices(
        self,
        *,
        fleet: str | None = None,
        device: str | None = None,
        select: str | None = None,
        count: int | None = None,
        because: str | None = None,
        dry_run: bool | None = None,
    ) -> Erasure:
        """Erase everything that a revoked device gave, or all that a selection means; facts, records and what others
        share stay (right administer).
        """
        answer = self._call(
            "eraseDevices",
            "POST",
            "/v1/fleets/{fleet}/device-erasure",
            path={"fleet": fleet},
            body={
                "device": given(device),
                "select": given(select),
                "count": given(count),
                "because": given(because),
                "dryRun": given(dry_run),
            },
            is_long=True,
        )
        return cast("Erasure", answer)

    def remove_device(
        self,
        device: str,
        *,
        fleet: str | None = None,
        because: str | None = None,
        dry_run: bool | None = None,
    ) -> None:
        """Take a revoked device out of the lists; its models and facts stay (right delete)."""
        self._call(
            "removeDevice",
            "POST",
            "/v1/fleets/{fleet}/devices/{device}/remove",
            path={"fleet": fleet, "device": device},
            body={"because": given(because), "dryRun": given(dry_run)},
        )

    def rollouts(
        self,
        *,
        fleet: str | None = None,
    ) -> list[RolloutSummary]:
        """The rollouts of a fleet, newest first (right read)."""
        answer = self._call(
            "rollouts",
            "GET",
            "/v1/fleets/{fleet}/rollouts",
            path={"fleet": fleet},
        )
        return cast("list[RolloutSummary]", answer)

    def create_rollout(
        self,
        *,
        fleet: str | None = None,
        name: str,
        model: str,
        line: str,
        select: str,
        supersedes: str | None = None,
        policy: CreateRolloutPolicy | None = None,
        force: bool | None = None,
        start: bool | None = None,
    ) -> CreatedRollout:
        """Create a rollout; it starts when it is started. One that reaches no device now is refused (right
        roll-out).
        """
        answer = self._call(
            "createRollout",
            "POST",
            "/v1/fleets/{fleet}/rollouts",
            path={"fleet": fleet},
            body={
                "name": name,
                "model": model,
                "line": line,
                "select": select,
                "supersedes": given(supersedes),
                "policy": given(policy),
                "force": given(force),
                "start": given(start),
            },
        )
        return cast("CreatedRollout", answer)

    def rollout(
        self,
        rollout: str,
        *,
        fleet: str | None = None,
        excluded: bool | None = None,
    ) -> RolloutDetail:
        """How far a rollout is, device by device (right read)."""
        answer = self._call(
            "rollout",
            "GET",
            "/v1/fleets/{fleet}/rollouts/{rollout}",
            path={"fleet": fleet, "rollout": rollout},
            query={"excluded": given(excluded)},
        )
        return cast("RolloutDetail", answer)

    def rollout_report(
        self,
        rollout: str,
        *,
        fleet: str | None = None,
    ) -> RolloutTransfers:
        """What the transfers of a rollout took, beside what was planned (right read)."""
        answer = self._call(
            "rolloutReport",
            "GET",
            "/v1/fleets/{fleet}/rollouts/{rollout}/report",
            path={"fleet": fleet, "rollout": rollout},
        )
        return cast("RolloutTransfers", answer)

    def plan_rollout(
        self,
        *,
        fleet: str | None = None,
        name: str,
        model: str,
        line: str,
        select: str,
        supersedes: str | None = None,
        policy: CreateRolloutPolicy | None = None,
    ) -> RolloutPlan:
        """Which devices a rollout would reach, and in which waves; changes nothing (right read)."""
        answer = self._call(
            "planRollout",
            "POST",
            "/v1/fleets/{fleet}/rollouts/plan",
            path={"fleet": fleet},
            body={
                "name": name,
                "model": model,
                "line": line,
                "select": select,
                "supersedes": given(supersedes),
                "policy": given(policy),
            },
        )
        return cast("RolloutPlan", answer)

    def approve_rollout(
        self,
        rollout: str,
        *,
        fleet: str | None = None,
        because: str | None = None,
    ) -> RolloutSummary:
        """Approve a rollout that another person created and that waits for it (right roll-out)."""
        answer = self._call(
            "approveRollout",
            "POST",
            "/v1/fleets/{fleet}/rollouts/{rollout}/approval",
            path={"fleet": fleet, "rollout": rollout},
            body={"because": given(because)},
        )
        return cast("RolloutSummary", answer)

    def set_rollout(
        self,
        rollout: str,
        *,
        fleet: str | None = None,
        phase: Literal["running", "paused", "aborted"],
        because: str | None = None,
    ) -> RolloutSummary:
        """Start, pause, continue or abort a rollout; devices that switched keep the version (right roll-out)."""
        answer = self._call(
            "setRollout",
            "POST",
            "/v1/fleets/{fleet}/rollouts/{rollout}/phase",
            path={"fleet": fleet, "rollout": rollout},
            body={"phase": phase, "because": given(because)},
        )
        return cast("RolloutSummary", answer)

    def undo_rollout(
        self,
        rollout: str,
        *,
        fleet: str | None = None,
        because: str | None = None,
        dry_run: bool | None = None,
    ) -> list[UndoRolloutAnswerItem]:
        """End a rollout and return every device that it switched to what it ran before (right roll-out)."""
        answer = self._call(
            "undoRollout",
            "POST",
            "/v1/fleets/{fleet}/rollouts/{rollout}/undo",
            path={"fleet": fleet, "rollout": rollout},
            body={"because": given(because), "dryRun": given(dry_run)},
        )
        return cast("list[UndoRolloutAnswerItem]", answer)

    def releases(
        self,
        *,
        fleet: str | None = None,
    ) -> FleetReleases:
        """The signed releases of a fleet, with their metadata (right read)."""
        answer = self._call(
            "releases",
            "GET",
            "/v1/fleets/{fleet}/releases",
            path={"fleet": fleet},
        )
        return cast("FleetReleases", answer)

    def publish_releases(
        self,
        *,
        fleet: str | None = None,
        change: str,
        dry_run: bool | None = None,
    ) -> PublishReleasesAnswer:
        """Publish a signed change of the releases; it is checked as a device checks it (right publish)."""
        answer = self._call(
            "publishReleases",
            "POST",
            "/v1/fleets/{fleet}/releases",
            path={"fleet": fleet},
            body={"change": change, "dryRun": given(dry_run)},
        )
        return cast("PublishReleasesAnswer", answer)

    def release_manifest(
        self,
        *,
        fleet: str | None = None,
        model: str,
    ) -> ReleaseManifestAnswer:
        """What a release of a version, or of a recipe (recipe:NAME), would state; changes nothing (right read)."""
        answer = self._call(
            "releaseManifest",
            "GET",
            "/v1/fleets/{fleet}/release-manifest",
            path={"fleet": fleet},
            query={"model": model},
        )
        return cast("ReleaseManifestAnswer", answer)

    def publish_owner_time(
        self,
        *,
        fleet: str | None = None,
        file: str,
        dry_run: bool | None = None,
    ) -> PublishOwnerTimeAnswer:
        """Publish the owner's signed statement of the time; devices go on from it (right publish)."""
        answer = self._call(
            "publishOwnerTime",
            "POST",
            "/v1/fleets/{fleet}/releases/time",
            path={"fleet": fleet},
            body={"file": file, "dryRun": given(dry_run)},
        )
        return cast("PublishOwnerTimeAnswer", answer)

    def models(
        self,
        *,
        fleet: str | None = None,
        name: str | None = None,
        device: str | None = None,
        line: str | None = None,
        all: bool | None = None,
    ) -> list[VersionSummary]:
        """All models of a fleet, newest versions last (right read)."""
        answer = self._call(
            "models",
            "GET",
            "/v1/fleets/{fleet}/models",
            path={"fleet": fleet},
            query={"name": given(name), "device": given(device), "line": given(line), "all": given(all)},
        )
        return cast("list[VersionSummary]", answer)

    def list_models(
        self,
        *,
        fleet: str | None = None,
        name: str | None = None,
        device: str | None = None,
        line: str | None = None,
        all: bool | None = None,
        where: list[str] | None = None,
        order: Literal["newest", "oldest"] | None = None,
        offset: int | None = None,
        limit: int | None = None,
    ) -> VersionPage:
        """One page of a fleet's models, found by their fields and metadata (right read)."""
        answer = self._call(
            "listModels",
            "GET",
            "/v1/fleets/{fleet}/versions",
            path={"fleet": fleet},
            query={
                "name": given(name),
                "device": given(device),
                "line": given(line),
                "all": given(all),
                "where": given(where),
                "order": given(order),
                "offset": given(offset),
                "limit": given(limit),
            },
        )
        return cast("VersionPage", answer)

    def model(
        self,
        model: str,
        *,
        fleet: str | None = None,
    ) -> ModelDescription:
        """One model: tensors, layers, lineage, measurements, environment (right read)."""
        answer = self._call(
            "model",
            "GET",
            "/v1/fleets/{fleet}/models/{model}",
            path={"fleet": fleet, "model": model},
        )
        return cast("ModelDescription", answer)

    def log(
        self,
        model: str,
        *,
        fleet: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
    ) -> list[VersionSummary]:
        """The models that this one was trained from, newest first (right read)."""
        answer = self._call(
            "log",
            "GET",
            "/v1/fleets/{fleet}/models/{model}/log",
            path={"fleet": fleet, "model": model},
            query={"offset": given(offset), "limit": given(limit)},
        )
        return cast("list[VersionSummary]", answer)

    def nearest(
        self,
        *,
        fleet: str | None = None,
        model: str | None = None,
        model_json: dict[str, Any] | None = None,
        rank: str | None = None,
    ) -> NearestModel:
        """The model whose layers an architecture shares the longest, and what it can take over from it (right
        change-models).
        """
        answer = self._call(
            "nearest",
            "POST",
            "/v1/fleets/{fleet}/nearest",
            path={"fleet": fleet},
            body={"model": given(model), "modelJson": given(model_json), "rank": given(rank)},
        )
        return cast("NearestModel", answer)

    def diff(
        self,
        *,
        fleet: str | None = None,
        a: str,
        b: str,
        other_fleet: str | None = None,
        labels: str | None = None,
    ) -> ModelDiff:
        """Which tensors differ between two models, and what some follow from (right read)."""
        answer = self._call(
            "diff",
            "GET",
            "/v1/fleets/{fleet}/diff",
            path={"fleet": fleet},
            query={"a": a, "b": b, "otherFleet": given(other_fleet), "labels": given(labels)},
            is_long=True,
        )
        return cast("ModelDiff", answer)

    def as_of(
        self,
        *,
        fleet: str | None = None,
        at: float,
    ) -> list[FleetMoment]:
        """What every device of a fleet ran at a moment (right read)."""
        answer = self._call(
            "asOf",
            "GET",
            "/v1/fleets/{fleet}/as-of",
            path={"fleet": fleet},
            query={"at": at},
        )
        return cast("list[FleetMoment]", answer)

    def explain_recovery(
        self,
        model: str,
        *,
        fleet: str | None = None,
    ) -> RecoveryExplanation:
        """From what a model would be recovered, and how long that takes on this machine (right read)."""
        answer = self._call(
            "explainRecovery",
            "GET",
            "/v1/fleets/{fleet}/models/{model}/recovery",
            path={"fleet": fleet, "model": model},
        )
        return cast("RecoveryExplanation", answer)

    def model_json(
        self,
        model: str,
        *,
        fleet: str | None = None,
        weights_file: str | None = None,
    ) -> TfjsModel:
        """The model.json by which TensorFlow.js loads a model's weights (see recover, form tfjs) (right read)."""
        answer = self._call(
            "modelJson",
            "GET",
            "/v1/fleets/{fleet}/models/{model}/model.json",
            path={"fleet": fleet, "model": model},
            query={"weightsFile": given(weights_file)},
        )
        return cast("TfjsModel", answer)

    def attachment(
        self,
        model: str,
        file: str,
        *,
        fleet: str | None = None,
    ) -> AttachedFile:
        """One of the files that are kept with a version (right read)."""
        answer = self._call(
            "attachment",
            "GET",
            "/v1/fleets/{fleet}/models/{model}/files/{file}",
            path={"fleet": fleet, "model": model, "file": file},
        )
        return cast("AttachedFile", answer)

    def verify(
        self,
        model: str,
        *,
        fleet: str | None = None,
    ) -> VerificationReport:
        """Read a model, its checkpoints and all it uses from the disk and compare them with the record (right
        change-models).
        """
        answer = self._call(
            "verify",
            "POST",
            "/v1/fleets/{fleet}/models/{model}/verify",
            path={"fleet": fleet, "model": model},
            is_long=True,
        )
        return cast("VerificationReport", answer)

    def tag(
        self,
        model: str,
        *,
        fleet: str | None = None,
        tag: str,
        remove: bool | None = None,
    ) -> VersionSummary:
        """Let a tag point to a version, or remove it (right change-models)."""
        answer = self._call(
            "tag",
            "POST",
            "/v1/fleets/{fleet}/models/{model}/tag",
            path={"fleet": fleet, "model": model},
            body={"tag": tag, "remove": given(remove)},
        )
        return cast("VersionSummary", answer)

    def hold(
        self,
        model: str,
        *,
        fleet: str | None = None,
        held: bool,
        because: str | None = None,
    ) -> VersionSummary:
        """Keep a version from retention rules and retirement, or let it go (right change-models)."""
        answer = self._call(
            "hold",
            "POST",
            "/v1/fleets/{fleet}/models/{model}/hold",
            path={"fleet": fleet, "model": model},
            body={"held": held, "because": given(because)},
        )
        return cast("VersionSummary", answer)

    def retire(
        self,
        model: str,
        *,
        fleet: str | None = None,
        because: str | None = None,
        dry_run: bool | None = None,
    ) -> VersionSummary:
        """Retire a version: its name, parents and times are kept; a later collection frees its tensors (right
        delete).
        """
        answer = self._call(
            "retire",
            "POST",
            "/v1/fleets/{fleet}/models/{model}/retire",
            path={"fleet": fleet, "model": model},
            body={"because": given(because), "dryRun": given(dry_run)},
        )
        return cast("VersionSummary", answer)

    def redact(
        self,
        model: str,
        *,
        fleet: str | None = None,
        because: str | None = None,
        dry_run: bool | None = None,
    ) -> VersionSummary:
        """Redact how a version was trained: parameters, seed, data description, times and caller cannot be read any
        more; their commitments stay (right administer).
        """
        answer = self._call(
            "redact",
            "POST",
            "/v1/fleets/{fleet}/models/{model}/redact",
            path={"fleet": fleet, "model": model},
            body={"because": given(because), "dryRun": given(dry_run)},
        )
        return cast("VersionSummary", answer)

    def evaluate_query(
        self,
        *,
        fleet: str | None = None,
        query: str,
        config: dict[str, str | float | bool] | None = None,
        seed: str | None = None,
        rank: str | None = None,
        max_minutes: int | None = None,
        on: str | None = None,
        line: str | None = None,
        patience: int | None = None,
    ) -> EvaluateQueryAnswer:
        """Train the candidates that a query with evaluate describes, on the server or on devices, and save those
        that it keeps (docs/dql.md) (right change-models). The answer is a job that keeps running; request it by
        its id until its state is done or failed.
        """
        answer = self._call(
            "evaluateQuery",
            "POST",
            "/v1/fleets/{fleet}/query/evaluate",
            path={"fleet": fleet},
            body={
                "query": query,
                "config": given(config),
                "seed": given(seed),
                "rank": given(rank),
                "maxMinutes": given(max_minutes),
                "on": given(on),
                "line": given(line),
                "patience": given(patience),
            },
        )
        return cast("EvaluateQueryAnswer", answer)

    def saved_queries(
        self,
        *,
        fleet: str | None = None,
    ) -> list[SavedQuery]:
        """Queries that have names, by which other queries begin from them (right read)."""
        answer = self._call(
            "savedQueries",
            "GET",
            "/v1/fleets/{fleet}/queries",
            path={"fleet": fleet},
        )
        return cast("list[SavedQuery]", answer)

    def save_query(
        self,
        *,
        fleet: str | None = None,
        name: str,
        query: str,
    ) -> list[SavedQuery]:
        """Give a query a name, by which other queries begin from it (right change-models)."""
        answer = self._call(
            "saveQuery",
            "POST",
            "/v1/fleets/{fleet}/queries",
            path={"fleet": fleet},
            body={"name": name, "query": query},
        )
        return cast("list[SavedQuery]", answer)

    def delete_query(
        self,
        name: str,
        *,
        fleet: str | None = None,
    ) -> list[SavedQuery]:
        """Forget a saved query; queries that begin from it are refused from then on (right change-models)."""
        answer = self._call(
            "deleteQuery",
            "POST",
            "/v1/fleets/{fleet}/queries/{name}/delete",
            path={"fleet": fleet, "name": name},
        )
        return cast("list[SavedQuery]", answer)

    def save_derived(
        self,
        *,
        fleet: str | None = None,
        query: str,
        seed: str | None = None,
    ) -> SavedDerivedModels:
        """Save the models that a query with construct or slice derives, as versions (docs/dql.md) (right
        change-models).
        """
        answer = self._call(
            "saveDerived",
            "POST",
            "/v1/fleets/{fleet}/query/derived",
            path={"fleet": fleet},
            body={"query": query, "seed": given(seed)},
            is_long=True,
        )
        return cast("SavedDerivedModels", answer)

    def run_query(
        self,
        *,
        fleet: str | None = None,
        query: str,
        offset: int | None = None,
        limit: int | None = None,
        config: dict[str, str | float | bool] | None = None,
        seed: str | None = None,
        rank: str | None = None,
    ) -> QueryAnswer:
        """Select models by what is known of them, their layers and their lineage, with a query, or plan the models
        that one derives (docs/dql.md) (right read).
        """
        answer = self._call(
            "runQuery",
            "POST",
            "/v1/fleets/{fleet}/query",
            path={"fleet": fleet},
            body={
                "query": query,
                "offset": given(offset),
                "limit": given(limit),
                "config": given(config),
                "seed": given(seed),
                "rank": given(rank),
            },
            is_long=True,
        )
        return cast("QueryAnswer", answer)

    def descendants(
        self,
        model: str,
        *,
        fleet: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
    ) -> DescendantPage:
        """The models that descend from this one, retired ones too: children first, then their children (right read)."""
        answer = self._call(
            "descendants",
            "GET",
            "/v1/fleets/{fleet}/models/{model}/descendants",
            path={"fleet": fleet, "model": model},
            query={"offset": given(offset), "limit": given(limit)},
        )
        return cast("DescendantPage", answer)

    def common_ancestor(
        self,
        *,
        fleet: str | None = None,
        a: str,
        b: str,
    ) -> AncestorInCommon | None:
        """The newest model from which two models both descend; null where there is none (right read)."""
        answer = self._call(
            "commonAncestor",
            "GET",
            "/v1/fleets/{fleet}/common-ancestor",
            path={"fleet": fleet},
            query={"a": a, "b": b},
        )
        return cast("AncestorInCommon | None", answer)

    def lineage(
        self,
        model: str,
        *,
        fleet: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
        descendants: bool | None = None,
    ) -> LineageGraph:
        """The lineage of a model for a drawing: it, its ancestors and, if wanted, its descendants (right read)."""
        answer = self._call(
            "lineage",
            "GET",
            "/v1/fleets/{fleet}/models/{model}/lineage",
            path={"fleet": fleet, "model": model},
            query={"offset": given(offset), "limit": given(limit), "descendants": given(descendants)},
        )
        return cast("LineageGraph", answer)

    def owners(
        self,
        model: str,
        *,
        fleet: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
        all: bool | None = None,
    ) -> OwnerPage:
        """Which of its ancestors last changed which tensors of a model (right read)."""
        answer = self._call(
            "owners",
            "GET",
            "/v1/fleets/{fleet}/models/{model}/owners",
            path={"fleet": fleet, "model": model},
            query={"offset": given(offset), "limit": given(limit), "all": given(all)},
        )
        return cast("OwnerPage", answer)

    def transfer(
        self,
        *,
        fleet: str | None = None,
        model: str | None = None,
        model_json: dict[str, Any] | None = None,
        rank: str | None = None,
        minutes: float | None = None,
    ) -> PreparedTransfer:
        """Find the nearest ancestor of an architecture and lease what a child takes over from it (right
        change-models).
        """
        answer = self._call(
            "transfer",
            "POST",
            "/v1/fleets/{fleet}/transfers",
            path={"fleet": fleet},
            body={
                "model": given(model),
                "modelJson": given(model_json),
                "rank": given(rank),
                "minutes": given(minutes),
            },
        )
        return cast("PreparedTransfer", answer)

    def successors(
        self,
        model: str,
        *,
        fleet: str | None = None,
    ) -> SuccessorList:
        """The models that were declared to come after this one, and before it (right read)."""
        answer = self._call(
            "successors",
            "GET",
            "/v1/fleets/{fleet}/models/{model}/successors",
            path={"fleet": fleet, "model": model},
        )
        return cast("SuccessorList", answer)

    def set_successor(
        self,
        model: str,
        *,
        fleet: str | None = None,
        successor: str,
        remove: bool | None = None,
        because: str | None = None,
    ) -> SuccessorList:
        """Declare that another model comes after this one, whatever it was trained from, or take that back (right
        change-models).
        """
        answer = self._call(
            "setSuccessor",
            "POST",
            "/v1/fleets/{fleet}/models/{model}/successors",
            path={"fleet": fleet, "model": model},
            body={"successor": successor, "remove": given(remove), "because": given(because)},
        )
        return cast("SuccessorList", answer)

    def reduce(
        self,
        model: str,
        *,
        fleet: str | None = None,
        scheme: str,
        name: str,
        seed: str | None = None,
        dry_run: bool | None = None,
    ) -> ReduceReport:
        """Save a smaller, lossy form of a model as a version of its own whose base is the exact one (right
        change-models).
        """
        answer = self._call(
            "reduce",
            "POST",
            "/v1/fleets/{fleet}/models/{model}/reduce",
            path={"fleet": fleet, "model": model},
            body={"scheme": scheme, "name": name, "seed": given(seed), "dryRun": given(dry_run)},
            is_long=True,
        )
        return cast("ReduceReport", answer)

    def merge_models(
        self,
        *,
        fleet: str | None = None,
        models: list[str],
        name: str,
        rule: Literal["mean", "weighted", "trimmed"] | None = None,
        weights: list[float] | None = None,
        trim: float | None = None,
    ) -> MergeReport:
        """Save the average of models as a version whose bases are all of them; a replay computes it again (right
        change-models).
        """
        answer = self._call(
            "mergeModels",
            "POST",
            "/v1/fleets/{fleet}/merge",
            path={"fleet": fleet},
            body={"models": models, "name": name, "rule": given(rule), "weights": given(weights), "trim": given(trim)},
            is_long=True,
        )
        return cast("MergeReport", answer)

    def average_fleet(
        self,
        *,
        fleet: str | None = None,
        line: str,
        select: str,
        name: str | None = None,
        weights: Literal["samples", "equal"] | None = None,
        max_weight: float | None = None,
        outliers: float | None = None,
        dry_run: bool | None = None,
    ) -> FleetAverageReport:
        """Save the average of the newest models of a line on the selected devices (right change-models)."""
        answer = self._call(
            "averageFleet",
            "POST",
            "/v1/fleets/{fleet}/average",
            path={"fleet": fleet},
            body={
                "line": line,
                "select": select,
                "name": given(name),
                "weights": given(weights),
                "maxWeight": given(max_weight),
                "outliers": given(outliers),
                "dryRun": given(dry_run),
            },
            is_long=True,
        )
        return cast("FleetAverageReport", answer)

    def evaluate(
        self,
        model: str,
        *,
        fleet: str | None = None,
        data: str,
        top: float | None = None,
        limit: float | None = None,
        predictions: bool | None = None,
        store: bool | None = None,
    ) -> EvaluationReport:
        """Measure a model on the held-out part of named data; the evaluation is stored with it (right
        change-models).
        """
        answer = self._call(
            "evaluate",
            "POST",
            "/v1/fleets/{fleet}/models/{model}/evaluate",
            path={"fleet": fleet, "model": model},
            body={
                "data": data,
                "top": given(top),
                "limit": given(limit),
                "predictions": given(predictions),
                "store": given(store),
            },
            is_long=True,
        )
        return cast("EvaluationReport", answer)

    def evaluations(
        self,
        *,
        fleet: str | None = None,
        model: str | None = None,
        limit: int | None = None,
    ) -> list[ListedEvaluation]:
        """Stored evaluations, the latest first (right read)."""
        answer = self._call(
            "evaluations",
            "GET",
            "/v1/fleets/{fleet}/evaluations",
            path={"fleet": fleet},
            query={"model": given(model), "limit": given(limit)},
        )
        return cast("list[ListedEvaluation]", answer)

    def evaluation(
        self,
        evaluation: str,
        *,
        fleet: str | None = None,
        from_: int | None = None,
        rows: int | None = None,
    ) -> EvaluationDetails:
        """A stored evaluation in detail, with predictions (right read-predictions)."""
        answer = self._call(
            "evaluation",
            "GET",
            "/v1/fleets/{fleet}/evaluations/{evaluation}",
            path={"fleet": fleet, "evaluation": evaluation},
            query={"from": given(from_), "rows": given(rows)},
        )
        return cast("EvaluationDetails", answer)

    def evaluate_progressively(
        self,
        model: str,
        *,
        fleet: str | None = None,
        data: str,
        tops: list[float] | None = None,
        limit: float | None = None,
        layout: Literal["stored", "fixed"] | None = None,
        check: bool | None = None,
    ) -> ProgressiveEvaluationReport:
        """The most likely classes, from part of the weights' bytes where that is certain (right change-models)."""
        answer = self._call(
            "evaluateProgressively",
            "POST",
            "/v1/fleets/{fleet}/models/{model}/evaluate-progressively",
            path={"fleet": fleet, "model": model},
            body={
                "data": data,
                "tops": given(tops),
                "limit": given(limit),
                "layout": given(layout),
                "check": given(check),
            },
            is_long=True,
        )
        return cast("ProgressiveEvaluationReport", answer)

    def replay(
        self,
        model: str,
        *,
        fleet: str | None = None,
        max_minutes: int | None = None,
    ) -> ReplayReport:
        """Train a version once more from its provenance and compare it bit for bit; nothing is saved (right
        change-models).
        """
        answer = self._call(
            "replay",
            "POST",
            "/v1/fleets/{fleet}/models/{model}/replay",
            path={"fleet": fleet, "model": model},
            body={"maxMinutes": given(max_minutes)},
            is_long=True,
        )
        return cast("ReplayReport", answer)

    def train(
        self,
        *,
        fleet: str | None = None,
        recipe: str,
        data: str,
        name: str,
        base: str | None = None,
        parameters: dict[str, str | float | bool] | None = None,
        seed: str | None = None,
        max_minutes: int | None = None,
    ) -> TrainAnswer:
        """Train a model on the server and save it with its lineage (right change-models). The answer is a job that
        keeps running; request it by its id until its state is done or failed.
        """
        answer = self._call(
            "train",
            "POST",
            "/v1/fleets/{fleet}/train",
            path={"fleet": fleet},
            body={
                "recipe": recipe,
                "data": data,
                "name": name,
                "base": given(base),
                "parameters": given(parameters),
                "seed": given(seed),
                "maxMinutes": given(max_minutes),
            },
        )
        return cast("TrainAnswer", answer)

    def train_jobs(
        self,
        *,
        fleet: str | None = None,
    ) -> list[TrainJobsAnswerItem]:
        """Jobs of train that the server remembers."""
        answer = self._call(
            "trainJobs",
            "GET",
            "/v1/fleets/{fleet}/train",
            path={"fleet": fleet},
        )
        return cast("list[TrainJobsAnswerItem]", answer)

    def evaluate_query_job(
        self,
        job: str,
        *,
        fleet: str | None = None,
    ) -> EvaluateQueryJobAnswer:
        """The state of a job of evaluateQuery."""
        answer = self._call(
            "evaluateQueryJob",
            "GET",
            "/v1/fleets/{fleet}/query/evaluate/{job}",
            path={"fleet": fleet, "job": job},
        )
        return cast("EvaluateQueryJobAnswer", answer)

    def evaluate_query_stop(
        self,
        job: str,
        *,
        fleet: str | None = None,
    ) -> EvaluateQueryJobAnswer:
        """Ask a job of evaluateQuery to stop."""
        answer = self._call(
            "evaluateQueryStop",
            "DELETE",
            "/v1/fleets/{fleet}/query/evaluate/{job}",
            path={"fleet": fleet, "job": job},
        )
        return cast("EvaluateQueryJobAnswer", answer)

    def train_job(
        self,
        job: str,
        *,
        fleet: str | None = None,
    ) -> TrainJobsAnswerItem:
        """The state of a job of train."""
        answer = self._call(
            "trainJob",
            "GET",
            "/v1/fleets/{fleet}/train/{job}",
            path={"fleet": fleet, "job": job},
        )
        return cast("TrainJobsAnswerItem", answer)

    def train_stop(
        self,
        job: str,
        *,
        fleet: str | None = None,
    ) -> TrainJobsAnswerItem:
        """Ask a job of train to stop."""
        answer = self._call(
            "trainStop",
            "DELETE",
            "/v1/fleets/{fleet}/train/{job}",
            path={"fleet": fleet, "job": job},
        )
        return cast("TrainJobsAnswerItem", answer)

    def describe_bundle(
        self,
        *,
        fleet: str | None = None,
        models: list[str],
        depth: int | None = None,
        with_data: bool | None = None,
    ) -> BundleManifest:
        """The manifest of models with their lineage: records, and the ids of everything that belongs to them (right
        read).
        """
        answer = self._call(
            "describeBundle",
            "POST",
            "/v1/fleets/{fleet}/bundles/describe",
            path={"fleet": fleet},
            body={"models": models, "depth": given(depth), "withData": given(with_data)},
            is_long=True,
        )
        return cast("BundleManifest", answer)

    def prove_bundle(
        self,
        *,
        fleet: str | None = None,
        models: list[str],
        depth: int | None = None,
        with_data: bool | None = None,
        objects: list[Hash],
        challenge: Hash,
    ) -> BundleProof:
        """Proves that these objects are here, by their bytes and a challenge (right read)."""
        answer = self._call(
            "proveBundle",
            "POST",
            "/v1/fleets/{fleet}/bundles/prove",
            path={"fleet": fleet},
            body={
                "models": models,
                "depth": given(depth),
                "withData": given(with_data),
                "objects": objects,
                "challenge": challenge,
            },
            is_long=True,
        )
        return cast("BundleProof", answer)

    def begin_deposit(
        self,
        *,
        fleet: str | None = None,
        manifest: BundleManifest,
        force: bool | None = None,
    ) -> BegunDeposit:
        """Begins to take a bundle: answers which objects are lacking. Nothing is visible before the end (right
        publish-models).
        """
        answer = self._call(
            "beginDeposit",
            "POST",
            "/v1/fleets/{fleet}/deposits",
            path={"fleet": fleet},
            body={"manifest": manifest, "force": given(force)},
        )
        return cast("BegunDeposit", answer)

    def finish_deposit(
        self,
        deposit: str,
        *,
        fleet: str | None = None,
        proof: Hash | None = None,
        list: bool | None = None,
        license: str | None = None,
        task: str | None = None,
    ) -> DepositEnd:
        """Checks everything that was sent and makes it visible in one step, or asks for a proof of what was here
        before (right publish-models).
        """
        answer = self._call(
            "finishDeposit",
            "POST",
            "/v1/fleets/{fleet}/deposits/{deposit}/finish",
            path={"fleet": fleet, "deposit": deposit},
            body={"proof": given(proof), "list": given(list), "license": given(license), "task": given(task)},
            is_long=True,
        )
        return cast("DepositEnd", answer)

    def search_hub(
        self,
        *,
        fleet: str | None = None,
        text: str | None = None,
        tag: str | None = None,
        task: str | None = None,
        query: str | None = None,
        prefix_of: str | None = None,
        limit: int | None = None,
    ) -> HubModels:
        """Models that were published to this fleet, newest first (right read)."""
        answer = self._call(
            "searchHub",
            "POST",
            "/v1/fleets/{fleet}/hub/search",
            path={"fleet": fleet},
            body={
                "text": given(text),
                "tag": given(tag),
                "task": given(task),
                "query": given(query),
                "prefixOf": given(prefix_of),
                "limit": given(limit),
            },
        )
        return cast("HubModels", answer)

    def datasets(
        self,
        *,
        fleet: str | None = None,
    ) -> list[Dataset]:
        """Registered data of a fleet (right read)."""
        answer = self._call(
            "datasets",
            "GET",
            "/v1/fleets/{fleet}/datasets",
            path={"fleet": fleet},
        )
        return cast("list[Dataset]", answer)

    def add_dataset(
        self,
        *,
        fleet: str | None = None,
        name: str,
        kind: str | None = None,
        location: str,
        parameters: dict[str, str | float | bool | list[str]] | None = None,
        like: AddDatasetLike1 | AddDatasetLike2 | None = None,
        dry_run: bool | None = None,
    ) -> AddedDataset:
        """Register data: it is read once, and its hash is kept (right change-data)."""
        answer = self._call(
            "addDataset",
            "POST",
            "/v1/fleets/{fleet}/datasets",
            path={"fleet": fleet},
            body={
                "name": name,
                "kind": given(kind),
                "location": location,
                "parameters": given(parameters),
                "like": given(like),
                "dryRun": given(dry_run),
            },
            is_long=True,
        )
        return cast("AddedDataset", answer)

    def check_dataset(
        self,
        name: str,
        *,
        fleet: str | None = None,
    ) -> DatasetCheck:
        """Read registered data again and compare its hash (right change-data)."""
        answer = self._call(
            "checkDataset",
            "POST",
            "/v1/fleets/{fleet}/datasets/{name}/check",
            path={"fleet": fleet, "name": name},
            is_long=True,
        )
        return cast("DatasetCheck", answer)

    def show_dataset(
        self,
        name: str,
        *,
        fleet: str | None = None,
    ) -> DatasetDetails:
        """Registered data in detail: what its location has now, what is stored, and which versions used it (right
        read-data).
        """
        answer = self._call(
            "showDataset",
            "GET",
            "/v1/fleets/{fleet}/datasets/{name}",
            path={"fleet": fleet, "name": name},
            is_long=True,
        )
        return cast("DatasetDetails", answer)

    def push_dataset(
        self,
        name: str,
        *,
        fleet: str | None = None,
    ) -> PushedData:
        """Store the samples of registered data as chunks, each once (right change-data)."""
        answer = self._call(
            "pushDataset",
            "POST",
            "/v1/fleets/{fleet}/datasets/{name}/push",
            path={"fleet": fleet, "name": name},
            is_long=True,
        )
        return cast("PushedData", answer)

    def remove_dataset(
        self,
        name: str,
        *,
        fleet: str | None = None,
        even_if_used: bool | None = None,
    ) -> RemovedData:
        """Forget registered data; files stay, and stored samples as long as a kept version needs them (right
        delete).
        """
        answer = self._call(
            "removeDataset",
            "POST",
            "/v1/fleets/{fleet}/datasets/{name}/remove",
            path={"fleet": fleet, "name": name},
            body={"evenIfUsed": given(even_if_used)},
        )
        return cast("RemovedData", answer)

    def replay_changed(
        self,
        model: str,
        *,
        fleet: str | None = None,
        set: dict[str, str | float | bool],
        name: str,
        max_minutes: int | None = None,
    ) -> ChangedReplayReport:
        """Replay a version's training with other parameters, and save the result as a new version (right
        change-models).
        """
        answer = self._call(
            "replayChanged",
            "POST",
            "/v1/fleets/{fleet}/models/{model}/replay/changed",
            path={"fleet": fleet, "model": model},
            body={"set": set, "name": name, "maxMinutes": given(max_minutes)},
            is_long=True,
        )
        return cast("ChangedReplayReport", answer)

    def rebase_engine(
        self,
        model: str,
        *,
        fleet: str | None = None,
        engine: str | None = None,
        max_minutes: int | None = None,
    ) -> ReplayReport:
        """Replay a version with another engine, and keep that it can replay it too where it gives the same bytes
        (right change-models).
        """
        answer = self._call(
            "rebaseEngine",
            "POST",
            "/v1/fleets/{fleet}/models/{model}/replay/rebase",
            path={"fleet": fleet, "model": model},
            body={"engine": given(engine), "maxMinutes": given(max_minutes)},
            is_long=True,
        )
        return cast("ReplayReport", answer)

    def spot_check(
        self,
        model: str,
        *,
        fleet: str | None = None,
        segments: int | None = None,
        max_minutes: int | None = None,
    ) -> SpotCheckReport:
        """Run some segments of a version's training again, from states that its device committed to (right
        change-models).
        """
        answer = self._call(
            "spotCheck",
            "POST",
            "/v1/fleets/{fleet}/models/{model}/replay/spot-check",
            path={"fleet": fleet, "model": model},
            body={"segments": given(segments), "maxMinutes": given(max_minutes)},
            is_long=True,
        )
        return cast("SpotCheckReport", answer)

    def replay_story(
        self,
        *,
        fleet: str | None = None,
        story: str,
        tensors: list[ReplayStoryTensorsItem] | None = None,
        data: str | None = None,
        max_minutes: int | None = None,
    ) -> ReplayReport:
        """Replay the story of an exported file or of a record alone, with the data that are here; no verdict is kept
        (right change-models).
        """
        answer = self._call(
            "replayStory",
            "POST",
            "/v1/fleets/{fleet}/replay/story",
            path={"fleet": fleet},
            body={"story": story, "tensors": given(tensors), "data": given(data), "maxMinutes": given(max_minutes)},
            is_long=True,
        )
        return cast("ReplayReport", answer)

    def replay_changed_story(
        self,
        *,
        fleet: str | None = None,
        story: str,
        data: str | None = None,
        set: dict[str, str | float | bool],
        name: str,
        max_minutes: int | None = None,
    ) -> ChangedReplayReport:
        """Replay the story of an exported file with other parameters, and save the result as a new version (right
        change-models).
        """
        answer = self._call(
            "replayChangedStory",
            "POST",
            "/v1/fleets/{fleet}/replay/story/changed",
            path={"fleet": fleet},
            body={"story": story, "data": given(data), "set": set, "name": name, "maxMinutes": given(max_minutes)},
            is_long=True,
        )
        return cast("ChangedReplayReport", answer)

    def story(
        self,
        model: str,
        *,
        fleet: str | None = None,
    ) -> StoryAnswer:
        """How a model was made, as its exported file carries it: the record alone, without the model (right read)."""
        answer = self._call(
            "story",
            "GET",
            "/v1/fleets/{fleet}/models/{model}/story",
            path={"fleet": fleet, "model": model},
        )
        return cast("StoryAnswer", answer)

    def replays(
        self,
        *,
        fleet: str | None = None,
    ) -> list[ReplayJob]:
        """Queued replays: the one that runs, those that wait in their order, and the latest that ended (right read)."""
        answer = self._call(
            "replays",
            "GET",
            "/v1/fleets/{fleet}/replays",
            path={"fleet": fleet},
        )
        return cast("list[ReplayJob]", answer)

    def queue_replay(
        self,
        model: str,
        *,
        fleet: str | None = None,
        priority: int | None = None,
        max_minutes: int | None = None,
    ) -> ReplayJob:
        """Queue the replay of a version; a server runs it, also after a restart (right change-models)."""
        answer = self._call(
            "queueReplay",
            "POST",
            "/v1/fleets/{fleet}/models/{model}/replay/queue",
            path={"fleet": fleet, "model": model},
            body={"priority": given(priority), "maxMinutes": given(max_minutes)},
        )
        return cast("ReplayJob", answer)

    def cancel_replay(
        self,
        model: str,
        *,
        fleet: str | None = None,
    ) -> ReplayJob:
        """Take a replay from the queue, or end it where it runs; it leaves no verdict (right change-models)."""
        answer = self._call(
            "cancelReplay",
            "POST",
            "/v1/fleets/{fleet}/models/{model}/replay/cancel",
            path={"fleet": fleet, "model": model},
        )
        return cast("ReplayJob", answer)

    def engines(
        self,
        *,
        fleet: str | None = None,
    ) -> list[Engine]:
        """Training engines that may be run here, oldest first (right read)."""
        answer = self._call(
            "engines",
            "GET",
            "/v1/fleets/{fleet}/engines",
            path={"fleet": fleet},
        )
        return cast("list[Engine]", answer)

    def approve_engine(
        self,
        *,
        fleet: str | None = None,
        archive: str,
        expected: Hash | None = None,
        because: str | None = None,
        dry_run: bool | None = None,
    ) -> ApproveEngineAnswer:
        """Approve a training engine: its code is run once, stored, and run by replays that need it (right
        administer).
        """
        answer = self._call(
            "approveEngine",
            "POST",
            "/v1/fleets/{fleet}/engines",
            path={"fleet": fleet},
            body={"archive": archive, "expected": given(expected), "because": given(because), "dryRun": given(dry_run)},
            is_long=True,
        )
        return cast("ApproveEngineAnswer", answer)

    def remove_engine(
        self,
        engine: str,
        *,
        fleet: str | None = None,
        because: str | None = None,
    ) -> list[Engine]:
        """Do not run an engine any more; the next collection frees it (right administer)."""
        answer = self._call(
            "removeEngine",
            "POST",
            "/v1/fleets/{fleet}/engines/{engine}/remove",
            path={"fleet": fleet, "engine": engine},
            body={"because": given(because)},
        )
        return cast("list[Engine]", answer)

    def recipes(
        self,
        *,
        fleet: str | None = None,
    ) -> list[OwnRecipe]:
        """The fleet's own recipes in the order of their approvals, revoked ones too (right read)."""
        answer = self._call(
            "recipes",
            "GET",
            "/v1/fleets/{fleet}/recipes",
            path={"fleet": fleet},
        )
        return cast("list[OwnRecipe]", answer)

    def approve_recipe(
        self,
        *,
        fleet: str | None = None,
        bundle: str,
        expected: Hash | None = None,
        because: str | None = None,
        dry_run: bool | None = None,
    ) -> ApproveRecipeAnswer:
        """Approve a recipe's bundle: it is described once, confined, and stored; trainings and replays may run it
        (right administer).
        """
        answer = self._call(
            "approveRecipe",
            "POST",
            "/v1/fleets/{fleet}/recipes",
            path={"fleet": fleet},
            body={"bundle": bundle, "expected": given(expected), "because": given(because), "dryRun": given(dry_run)},
            is_long=True,
        )
        return cast("ApproveRecipeAnswer", answer)

    def revoke_recipe(
        self,
        recipe: str,
        *,
        fleet: str | None = None,
        because: str | None = None,
    ) -> list[OwnRecipe]:
        """Do not run a recipe any more; versions that it trained stay, with its bundle (right administer)."""
        answer = self._call(
            "revokeRecipe",
            "POST",
            "/v1/fleets/{fleet}/recipes/{recipe}/revoke",
            path={"fleet": fleet, "recipe": recipe},
            body={"because": given(because)},
        )
        return cast("list[OwnRecipe]", answer)

    def stats(
        self,
        *,
        fleet: str | None = None,
    ) -> StorageStats:
        """Versions, tensors, bytes on disk against full snapshots (right read)."""
        answer = self._call(
            "stats",
            "GET",
            "/v1/fleets/{fleet}/storage/stats",
            path={"fleet": fleet},
        )
        return cast("StorageStats", answer)

    def check(
        self,
        *,
        fleet: str | None = None,
        sample: float | None = None,
        replay: int | None = None,
        repair: bool | None = None,
    ) -> CheckReport:
        """Read everything that is stored and compare it with its hashes (right change-storage)."""
        answer = self._call(
            "check",
            "POST",
            "/v1/fleets/{fleet}/storage/check",
            path={"fleet": fleet},
            body={"sample": given(sample), "replay": given(replay), "repair": given(repair)},
            is_long=True,
        )
        return cast("CheckReport", answer)

    def plan_collection(
        self,
        *,
        fleet: str | None = None,
    ) -> CollectionPlan:
        """What no model refers to any more, and how much space it takes (right read)."""
        answer = self._call(
            "planCollection",
            "GET",
            "/v1/fleets/{fleet}/storage/collection",
            path={"fleet": fleet},
            is_long=True,
        )
        return cast("CollectionPlan", answer)

    def collect(
        self,
        *,
        fleet: str | None = None,
        format: Literal[1],
        generation: int,
        live: int,
        dead: list[CollectionPlanDeadItem],
        delete_packs: list[str],
        repack_packs: list[str],
        bytes_before: int,
        bytes_after: int,
        tiers: RemovedLowFiles | None = None,
    ) -> Collected:
        """Free what a collection plan names; a plan of an older state is refused (right delete)."""
        answer = self._call(
            "collect",
            "POST",
            "/v1/fleets/{fleet}/storage/collection",
            path={"fleet": fleet},
            body={
                "format": format,
                "generation": generation,
                "live": live,
                "dead": dead,
                "deletePacks": delete_packs,
                "repackPacks": repack_packs,
                "bytesBefore": bytes_before,
                "bytesAfter": bytes_after,
                "tiers": given(tiers),
            },
            is_long=True,
        )
        return cast("Collected", answer)

    def retention(
        self,
        *,
        fleet: str | None = None,
    ) -> list[RetentionSetting]:
        """Retention rules that are set, the fleet's first (right read)."""
        answer = self._call(
            "retention",
            "GET",
            "/v1/fleets/{fleet}/storage/retention",
            path={"fleet": fleet},
        )
        return cast("list[RetentionSetting]", answer)

    def set_retention(
        self,
        *,
        fleet: str | None = None,
        scope: RetentionScope,
        rule: str | None,
        force: bool | None = None,
    ) -> list[RetentionSetting]:
        """Set a scope's retention rule, or lift it (right delete)."""
        answer = self._call(
            "setRetention",
            "POST",
            "/v1/fleets/{fleet}/storage/retention",
            path={"fleet": fleet},
            body={"scope": scope, "rule": rule, "force": given(force)},
        )
        return cast("list[RetentionSetting]", answer)

    def forecast_retention(
        self,
        *,
        fleet: str | None = None,
        trying: ForecastRetentionTrying | None = None,
        list_kept: bool | None = None,
        force: bool | None = None,
    ) -> RetentionForecast:
        """What would be retired now, or under a rule that is tried, and what a collection would free then (right
        change-storage).
        """
        answer = self._call(
            "forecastRetention",
            "POST",
            "/v1/fleets/{fleet}/storage/retention/forecast",
            path={"fleet": fleet},
            body={"trying": given(trying), "listKept": given(list_kept), "force": given(force)},
            is_long=True,
        )
        return cast("RetentionForecast", answer)

    def apply_retention(
        self,
        *,
        fleet: str | None = None,
        collect: bool | None = None,
    ) -> RetentionReport:
        """Retire versions by the retention rules (right delete)."""
        answer = self._call(
            "applyRetention",
            "POST",
            "/v1/fleets/{fleet}/storage/retention/apply",
            path={"fleet": fleet},
            body={"collect": given(collect)},
            is_long=True,
        )
        return cast("RetentionReport", answer)

    def reindex(
        self,
        *,
        fleet: str | None = None,
    ) -> ReindexAnswer:
        """Rebuild the catalog from the journal (right change-storage)."""
        answer = self._call(
            "reindex",
            "POST",
            "/v1/fleets/{fleet}/storage/reindex",
            path={"fleet": fleet},
            is_long=True,
        )
        return cast("ReindexAnswer", answer)

    def backup(
        self,
        *,
        fleet: str | None = None,
        folder: str,
        passphrase_file: str | None = None,
        plain_key: bool | None = None,
    ) -> BackupReport:
        """Copy a consistent state to a folder on the server's machine while the server serves (right administer)."""
        answer = self._call(
            "backup",
            "POST",
            "/v1/fleets/{fleet}/storage/backup",
            path={"fleet": fleet},
            body={"folder": folder, "passphraseFile": given(passphrase_file), "plainKey": given(plain_key)},
            is_long=True,
        )
        return cast("BackupReport", answer)

    def drop_tensors(
        self,
        *,
        fleet: str | None = None,
        models: list[str] | None = None,
        line: str | None = None,
        older_than_days: float | None = None,
        max_minutes: float | None = None,
        because: str | None = None,
        dry_run: bool | None = None,
    ) -> DropReport:
        """Drop the tensors of versions that a replay gives again bit for bit; each is proved first. The next
        collection frees the space (right delete).
        """
        answer = self._call(
            "dropTensors",
            "POST",
            "/v1/fleets/{fleet}/storage/drop",
            path={"fleet": fleet},
            body={
                "models": given(models),
                "line": given(line),
                "olderThanDays": given(older_than_days),
                "maxMinutes": given(max_minutes),
                "because": given(because),
                "dryRun": given(dry_run),
            },
            is_long=True,
        )
        return cast("DropReport", answer)

    def drop_policies(
        self,
        *,
        fleet: str | None = None,
    ) -> list[DropPolicySetting]:
        """Policies by which tensors of proved models are dropped, the fleet's first (right read)."""
        answer = self._call(
            "dropPolicies",
            "GET",
            "/v1/fleets/{fleet}/storage/drop-policies",
            path={"fleet": fleet},
        )
        return cast("list[DropPolicySetting]", answer)

    def set_drop_policy(
        self,
        *,
        fleet: str | None = None,
        scope: RetentionScope,
        policy: DropPolicy | None,
        force: bool | None = None,
    ) -> list[DropPolicySetting]:
        """Set a scope's policy for dropping tensors of proved models, or remove it (right delete)."""
        answer = self._call(
            "setDropPolicy",
            "POST",
            "/v1/fleets/{fleet}/storage/drop-policies",
            path={"fleet": fleet},
            body={"scope": scope, "policy": policy, "force": given(force)},
        )
        return cast("list[DropPolicySetting]", answer)

    def apply_drop_policies(
        self,
        *,
        fleet: str | None = None,
        dry_run: bool | None = None,
    ) -> DropReport:
        """Drop now what the policies say; nothing is replayed for that (right delete)."""
        answer = self._call(
            "applyDropPolicies",
            "POST",
            "/v1/fleets/{fleet}/storage/drop-policies/apply",
            path={"fleet": fleet},
            body={"dryRun": given(dry_run)},
            is_long=True,
        )
        return cast("DropReport", answer)

    def keep_tensors(
        self,
        model: str,
        *,
        fleet: str | None = None,
        because: str | None = None,
    ) -> VersionSummary:
        """Store the tensors of a version again that were dropped; they are made by a replay where they are gone
        (right change-storage).
        """
        answer = self._call(
            "keepTensors",
            "POST",
            "/v1/fleets/{fleet}/models/{model}/keep",
            path={"fleet": fleet, "model": model},
            body={"because": given(because)},
            is_long=True,
        )
        return cast("VersionSummary", answer)

    def tiers(
        self,
    ) -> list[StorageTier]:
        """The storage tiers of the server's home, and whether they can be reached (right read)."""
        answer = self._call(
            "tiers",
            "GET",
            "/v1/storage/tiers",
            is_long=True,
        )
        return cast("list[StorageTier]", answer)

    def add_tier(
        self,
        *,
        name: str,
        folder: str,
    ) -> StorageTier:
        """Make a folder on the server's machine a storage tier (right administer)."""
        answer = self._call(
            "addTier",
            "POST",
            "/v1/storage/tiers",
            body={"name": name, "folder": folder},
        )
        return cast("StorageTier", answer)

    def remove_tier(
        self,
        tier: str,
    ) -> DerivedModelNetworkInherited:
        """Bring everything back from a tier, then forget it (right administer)."""
        answer = self._call(
            "removeTier",
            "POST",
            "/v1/storage/tiers/{tier}/remove",
            path={"tier": tier},
            is_long=True,
        )
        return cast("DerivedModelNetworkInherited", answer)

    def plan_tier(
        self,
        tier: str,
        *,
        fleet: str | None = None,
    ) -> TierPlan:
        """What moving the low-order bytes of old versions to a tier would bring, and cost; changes nothing (right
        read).
        """
        answer = self._call(
            "planTier",
            "GET",
            "/v1/fleets/{fleet}/storage/tiers/{tier}",
            path={"fleet": fleet, "tier": tier},
            is_long=True,
        )
        return cast("TierPlan", answer)

    def apply_tier(
        self,
        tier: str,
        *,
        fleet: str | None = None,
    ) -> TierApplied:
        """Move the low-order bytes of old versions to a tier; one that was stopped can be continued (right
        change-storage).
        """
        answer = self._call(
            "applyTier",
            "POST",
            "/v1/fleets/{fleet}/storage/tiers/{tier}/apply",
            path={"fleet": fleet, "tier": tier},
            is_long=True,
        )
        return cast("TierApplied", answer)

    def plan_storage(
        self,
        *,
        fleet: str | None = None,
        ratio: float | Literal["auto"] | None,
        scheme: Literal["independent", "parallel"] | None = None,
        layout: Literal["packed", "planes", "fixed"] | None = None,
        time_limit_ms: int | None = None,
        read_bytes_per_second: float | None = None,
        measure: bool | None = None,
        after: str | None = None,
    ) -> PlanStorageAnswer:
        """How everything could be stored in less within a budget of what recoveries cost; changes nothing (right
        change-storage). The answer is a job that keeps running; request it by its id until its state is done or
        failed.
        """
        answer = self._call(
            "planStorage",
            "POST",
            "/v1/fleets/{fleet}/storage/plan",
            path={"fleet": fleet},
            body={
                "ratio": ratio,
                "scheme": given(scheme),
                "layout": given(layout),
                "timeLimitMs": given(time_limit_ms),
                "readBytesPerSecond": given(read_bytes_per_second),
                "measure": given(measure),
                "after": given(after),
            },
        )
        return cast("PlanStorageAnswer", answer)

    def apply_storage(
        self,
        *,
        fleet: str | None = None,
        ratio: float | Literal["auto"] | None,
        scheme: Literal["independent", "parallel"] | None = None,
        layout: Literal["packed", "planes", "fixed"] | None = None,
        time_limit_ms: int | None = None,
        read_bytes_per_second: float | None = None,
        measure: bool | None = None,
        plan: Any | Absent = ABSENT,
        disk_bytes: int | None = None,
        time_ms: int | None = None,
        dry_run: bool | None = None,
    ) -> ApplyStorageAnswer:
        """Store everything as planned while everything else goes on; one that was stopped can be resumed (right
        change-storage). The answer is a job that keeps running; request it by its id until its state is done or
        failed.
        """
        answer = self._call(
            "applyStorage",
            "POST",
            "/v1/fleets/{fleet}/storage/apply",
            path={"fleet": fleet},
            body={
                "ratio": ratio,
                "scheme": given(scheme),
                "layout": given(layout),
                "timeLimitMs": given(time_limit_ms),
                "readBytesPerSecond": given(read_bytes_per_second),
                "measure": given(measure),
                "plan": plan,
                "diskBytes": given(disk_bytes),
                "timeMs": given(time_ms),
                "dryRun": given(dry_run),
            },
        )
        return cast("ApplyStorageAnswer", answer)

    def leases(
        self,
        *,
        fleet: str | None = None,
    ) -> list[Lease]:
        """The leases of a fleet: who holds them, on what, and until when; the first to expire first (right read)."""
        answer = self._call(
            "leases",
            "GET",
            "/v1/fleets/{fleet}/leases",
            path={"fleet": fleet},
        )
        return cast("list[Lease]", answer)

    def lease_line(
        self,
        *,
        fleet: str | None = None,
        line: str,
        lease_key: str,
        holder: str,
    ) -> Lease:
        """Take a line of searches for one search or evaluation, for a minute, or renew that (right deploy)."""
        answer = self._call(
            "leaseLine",
            "POST",
            "/v1/fleets/{fleet}/leases/line",
            path={"fleet": fleet},
            body={"line": line, "leaseKey": lease_key, "holder": holder},
        )
        return cast("Lease", answer)

    def end_lease(
        self,
        *,
        fleet: str | None = None,
        lease: str,
    ) -> EndLeaseAnswer:
        """End a lease before it expires; the work that holds a line under it ends (right change-models)."""
        answer = self._call(
            "endLease",
            "POST",
            "/v1/fleets/{fleet}/leases/end",
            path={"fleet": fleet},
            body={"lease": lease},
        )
        return cast("EndLeaseAnswer", answer)

    def known_damage(
        self,
        *,
        fleet: str | None = None,
    ) -> StoreDamage:
        """Damage of the store that is known without reading it; empty for a fleet that is not open (right read)."""
        answer = self._call(
            "knownDamage",
            "GET",
            "/v1/fleets/{fleet}/storage/damage",
            path={"fleet": fleet},
        )
        return cast("StoreDamage", answer)

    def plan_storage_job(
        self,
        job: str,
        *,
        fleet: str | None = None,
    ) -> PlanStorageJobAnswer:
        """The state of a job of planStorage or applyStorage."""
        answer = self._call(
            "planStorageJob",
            "GET",
            "/v1/fleets/{fleet}/storage/jobs/{job}",
            path={"fleet": fleet, "job": job},
        )
        return cast("PlanStorageJobAnswer", answer)

    def plan_storage_stop(
        self,
        job: str,
        *,
        fleet: str | None = None,
    ) -> PlanStorageJobAnswer:
        """Ask a job of planStorage or applyStorage to stop."""
        answer = self._call(
            "planStorageStop",
            "DELETE",
            "/v1/fleets/{fleet}/storage/jobs/{job}",
            path={"fleet": fleet, "job": job},
        )
        return cast("PlanStorageJobAnswer", answer)

    def healthz(
        self,
    ) -> ServerCondition:
        """Whether the server works, and what keeps it from doing all of its work; needs no token."""
        answer = self._call(
            "healthz",
            "GET",
            "/healthz",
        )
        return cast("ServerCondition", answer)

    def readyz(
        self,
    ) -> ReadyzAnswer:
        """200 while the server accepts requests, 503 while it starts or stops; needs no token."""
        answer = self._call(
            "readyz",
            "GET",
            "/readyz",
        )
        return cast("ReadyzAnswer", answer)

    def openapi(
        self,
    ) -> dict[str, Any]:
        """This description of the API, as OpenAPI 3.1."""
        answer = self._call(
            "openapi",
            "GET",
            "/openapi.json",
        )
        return cast("dict[str, Any]", answer)
