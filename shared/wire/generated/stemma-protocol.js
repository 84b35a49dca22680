/* eslint-disable */
// Generated from stemma.proto by `npm run proto`. Do not edit.
/*eslint-disable block-scoped-var, id-length, no-control-regex, no-magic-numbers, no-mixed-operators, no-prototype-builtins, no-redeclare, no-shadow, no-var, sort-vars, default-case, jsdoc/require-param*/
import $protobuf from "protobufjs/minimal.js";

const $Reader = $protobuf.Reader, $Writer = $protobuf.Writer, $util = $protobuf.util;
const $Object = $util.global.Object, $undefined = $util.global.undefined, $Error = $util.global.Error, $RangeError = $util.global.RangeError;

const $root = $protobuf.roots["default"] || ($protobuf.roots["default"] = {});

export const stemma = $root.stemma = (() => {

    const stemma = {};

    stemma.v1 = (function() {

        const v1 = {};

        v1.Envelope = (function() {

            const Envelope = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Envelope.prototype.protocol = 0;
            Envelope.prototype.session = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
            Envelope.prototype.sequence = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
            Envelope.prototype.correlation = "";
            Envelope.prototype.expiresMs = 0;
            Envelope.prototype.signature = $util.newBuffer([]);
            Envelope.prototype.issuedMs = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
            Envelope.prototype.state = null;
            Envelope.prototype.birth = null;
            Envelope.prototype.welcome = null;
            Envelope.prototype.announce = null;
            Envelope.prototype.want = null;
            Envelope.prototype.manifest = null;
            Envelope.prototype.blockRequest = null;
            Envelope.prototype.block = null;
            Envelope.prototype.receipt = null;
            Envelope.prototype.refusal = null;
            Envelope.prototype.activated = null;
            Envelope.prototype.offer = null;
            Envelope.prototype.fetch = null;
            Envelope.prototype.command = null;
            Envelope.prototype.commandResult = null;
            Envelope.prototype.transferDone = null;
            Envelope.prototype.parked = null;
            Envelope.prototype.event = null;
            Envelope.prototype.ownerTime = null;
            Envelope.prototype.releasePart = null;
            Envelope.prototype.activationReceipt = null;

            let $oneOfFields;

            $Object.defineProperty(Envelope.prototype, "body", {
                get: $util.oneOfGetter($oneOfFields = ["state", "birth", "welcome", "announce", "want", "manifest", "blockRequest", "block", "receipt", "refusal", "activated", "offer", "fetch", "command", "commandResult", "transferDone", "parked", "event", "ownerTime", "releasePart", "activationReceipt"]),
                set: $util.oneOfSetter($oneOfFields)
            });

            Envelope.create = function(properties) {
                return new Envelope(properties);
            };

            Envelope.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.protocol != null && $Object.hasOwnProperty.call(message, "protocol") && message.protocol !== 0)
                    writer.uint32(8).uint32(message.protocol);
                if (message.session != null && $Object.hasOwnProperty.call(message, "session") && (typeof message.session === "object" ? message.session.low || message.session.high : message.session !== 0))
                    writer.uint32(16).uint64(message.session);
                if (message.sequence != null && $Object.hasOwnProperty.call(message, "sequence") && (typeof message.sequence === "object" ? message.sequence.low || message.sequence.high : message.sequence !== 0))
                    writer.uint32(24).uint64(message.sequence);
                if (message.correlation != null && $Object.hasOwnProperty.call(message, "correlation") && message.correlation !== "")
                    writer.uint32(34).string(message.correlation);
                if (message.expiresMs != null && $Object.hasOwnProperty.call(message, "expiresMs") && message.expiresMs !== 0)
                    writer.uint32(40).uint32(message.expiresMs);
                if (message.signature != null && $Object.hasOwnProperty.call(message, "signature") && message.signature.length)
                    writer.uint32(50).bytes(message.signature);
                if (message.issuedMs != null && $Object.hasOwnProperty.call(message, "issuedMs") && (typeof message.issuedMs === "object" ? message.issuedMs.low || message.issuedMs.high : message.issuedMs !== 0))
                    writer.uint32(56).uint64(message.issuedMs);
                if (message.state != null && $Object.hasOwnProperty.call(message, "state"))
                    $root.stemma.v1.State.encode(message.state, writer.uint32(82).fork(), _depth + 1).ldelim();
                if (message.birth != null && $Object.hasOwnProperty.call(message, "birth"))
                    $root.stemma.v1.Birth.encode(message.birth, writer.uint32(90).fork(), _depth + 1).ldelim();
                if (message.welcome != null && $Object.hasOwnProperty.call(message, "welcome"))
                    $root.stemma.v1.Welcome.encode(message.welcome, writer.uint32(98).fork(), _depth + 1).ldelim();
                if (message.announce != null && $Object.hasOwnProperty.call(message, "announce"))
                    $root.stemma.v1.Announce.encode(message.announce, writer.uint32(106).fork(), _depth + 1).ldelim();
                if (message.want != null && $Object.hasOwnProperty.call(message, "want"))
                    $root.stemma.v1.Want.encode(message.want, writer.uint32(114).fork(), _depth + 1).ldelim();
                if (message.manifest != null && $Object.hasOwnProperty.call(message, "manifest"))
                    $root.stemma.v1.ManifestPart.encode(message.manifest, writer.uint32(122).fork(), _depth + 1).ldelim();
                if (message.blockRequest != null && $Object.hasOwnProperty.call(message, "blockRequest"))
                    $root.stemma.v1.BlockRequest.encode(message.blockRequest, writer.uint32(130).fork(), _depth + 1).ldelim();
                if (message.block != null && $Object.hasOwnProperty.call(message, "block"))
                    $root.stemma.v1.Block.encode(message.block, writer.uint32(138).fork(), _depth + 1).ldelim();
                if (message.receipt != null && $Object.hasOwnProperty.call(message, "receipt"))
                    $root.stemma.v1.Receipt.encode(message.receipt, writer.uint32(146).fork(), _depth + 1).ldelim();
                if (message.refusal != null && $Object.hasOwnProperty.call(message, "refusal"))
                    $root.stemma.v1.Refusal.encode(message.refusal, writer.uint32(154).fork(), _depth + 1).ldelim();
                if (message.activated != null && $Object.hasOwnProperty.call(message, "activated"))
                    $root.stemma.v1.Activated.encode(message.activated, writer.uint32(162).fork(), _depth + 1).ldelim();
                if (message.offer != null && $Object.hasOwnProperty.call(message, "offer"))
                    $root.stemma.v1.Offer.encode(message.offer, writer.uint32(170).fork(), _depth + 1).ldelim();
                if (message.fetch != null && $Object.hasOwnProperty.call(message, "fetch"))
                    $root.stemma.v1.Fetch.encode(message.fetch, writer.uint32(178).fork(), _depth + 1).ldelim();
                if (message.command != null && $Object.hasOwnProperty.call(message, "command"))
                    $root.stemma.v1.Command.encode(message.command, writer.uint32(186).fork(), _depth + 1).ldelim();
                if (message.commandResult != null && $Object.hasOwnProperty.call(message, "commandResult"))
                    $root.stemma.v1.CommandResult.encode(message.commandResult, writer.uint32(194).fork(), _depth + 1).ldelim();
                if (message.transferDone != null && $Object.hasOwnProperty.call(message, "transferDone"))
                    $root.stemma.v1.TransferDone.encode(message.transferDone, writer.uint32(202).fork(), _depth + 1).ldelim();
                if (message.parked != null && $Object.hasOwnProperty.call(message, "parked"))
                    $root.stemma.v1.Parked.encode(message.parked, writer.uint32(210).fork(), _depth + 1).ldelim();
                if (message.event != null && $Object.hasOwnProperty.call(message, "event"))
                    $root.stemma.v1.Event.encode(message.event, writer.uint32(218).fork(), _depth + 1).ldelim();
                if (message.ownerTime != null && $Object.hasOwnProperty.call(message, "ownerTime"))
                    $root.stemma.v1.OwnerTime.encode(message.ownerTime, writer.uint32(274).fork(), _depth + 1).ldelim();
                if (message.releasePart != null && $Object.hasOwnProperty.call(message, "releasePart"))
                    $root.stemma.v1.ReleasePart.encode(message.releasePart, writer.uint32(306).fork(), _depth + 1).ldelim();
                if (message.activationReceipt != null && $Object.hasOwnProperty.call(message, "activationReceipt"))
                    $root.stemma.v1.ActivationReceipt.encode(message.activationReceipt, writer.uint32(402).fork(), _depth + 1).ldelim();
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Envelope.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.Envelope();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.protocol = value;
                            else
                                delete message.protocol;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.session = value;
                            else
                                delete message.session;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.sequence = value;
                            else
                                delete message.sequence;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.correlation = value;
                            else
                                delete message.correlation;
                            continue;
                        }
                    case 5: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.expiresMs = value;
                            else
                                delete message.expiresMs;
                            continue;
                        }
                    case 6: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.signature = value;
                            else
                                delete message.signature;
                            continue;
                        }
                    case 7: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.issuedMs = value;
                            else
                                delete message.issuedMs;
                            continue;
                        }
                    case 10: {
                            if (wireType !== 2)
                                break;
                            message.state = $root.stemma.v1.State.decode(reader, reader.size(), $undefined, _depth + 1, message.state);
                            message.body = "state";
                            continue;
                        }
                    case 11: {
                            if (wireType !== 2)
                                break;
                            message.birth = $root.stemma.v1.Birth.decode(reader, reader.size(), $undefined, _depth + 1, message.birth);
                            message.body = "birth";
                            continue;
                        }
                    case 12: {
                            if (wireType !== 2)
                                break;
                            message.welcome = $root.stemma.v1.Welcome.decode(reader, reader.size(), $undefined, _depth + 1, message.welcome);
                            message.body = "welcome";
                            continue;
                        }
                    case 13: {
                            if (wireType !== 2)
                                break;
                            message.announce = $root.stemma.v1.Announce.decode(reader, reader.size(), $undefined, _depth + 1, message.announce);
                            message.body = "announce";
                            continue;
                        }
                    case 14: {
                            if (wireType !== 2)
                                break;
                            message.want = $root.stemma.v1.Want.decode(reader, reader.size(), $undefined, _depth + 1, message.want);
                            message.body = "want";
                            continue;
                        }
                    case 15: {
                            if (wireType !== 2)
                                break;
                            message.manifest = $root.stemma.v1.ManifestPart.decode(reader, reader.size(), $undefined, _depth + 1, message.manifest);
                            message.body = "manifest";
                            continue;
                        }
                    case 16: {
                            if (wireType !== 2)
                                break;
                            message.blockRequest = $root.stemma.v1.BlockRequest.decode(reader, reader.size(), $undefined, _depth + 1, message.blockRequest);
                            message.body = "blockRequest";
                            continue;
                        }
                    case 17: {
                            if (wireType !== 2)
                                break;
                            message.block = $root.stemma.v1.Block.decode(reader, reader.size(), $undefined, _depth + 1, message.block);
                            message.body = "block";
                            continue;
                        }
                    case 18: {
                            if (wireType !== 2)
                                break;
                            message.receipt = $root.stemma.v1.Receipt.decode(reader, reader.size(), $undefined, _depth + 1, message.receipt);
                            message.body = "receipt";
                            continue;
                        }
                    case 19: {
                            if (wireType !== 2)
                                break;
                            message.refusal = $root.stemma.v1.Refusal.decode(reader, reader.size(), $undefined, _depth + 1, message.refusal);
                            message.body = "refusal";
                            continue;
                        }
                    case 20: {
                            if (wireType !== 2)
                                break;
                            message.activated = $root.stemma.v1.Activated.decode(reader, reader.size(), $undefined, _depth + 1, message.activated);
                            message.body = "activated";
                            continue;
                        }
                    case 21: {
                            if (wireType !== 2)
                                break;
                            message.offer = $root.stemma.v1.Offer.decode(reader, reader.size(), $undefined, _depth + 1, message.offer);
                            message.body = "offer";
                            continue;
                        }
                    case 22: {
                            if (wireType !== 2)
                                break;
                            message.fetch = $root.stemma.v1.Fetch.decode(reader, reader.size(), $undefined, _depth + 1, message.fetch);
                            message.body = "fetch";
                            continue;
                        }
                    case 23: {
                            if (wireType !== 2)
                                break;
                            message.command = $root.stemma.v1.Command.decode(reader, reader.size(), $undefined, _depth + 1, message.command);
                            message.body = "command";
                            continue;
                        }
                    case 24: {
                            if (wireType !== 2)
                                break;
                            message.commandResult = $root.stemma.v1.CommandResult.decode(reader, reader.size(), $undefined, _depth + 1, message.commandResult);
                            message.body = "commandResult";
                            continue;
                        }
                    case 25: {
                            if (wireType !== 2)
                                break;
                            message.transferDone = $root.stemma.v1.TransferDone.decode(reader, reader.size(), $undefined, _depth + 1, message.transferDone);
                            message.body = "transferDone";
                            continue;
                        }
                    case 26: {
                            if (wireType !== 2)
                                break;
                            message.parked = $root.stemma.v1.Parked.decode(reader, reader.size(), $undefined, _depth + 1, message.parked);
                            message.body = "parked";
                            continue;
                        }
                    case 27: {
                            if (wireType !== 2)
                                break;
                            message.event = $root.stemma.v1.Event.decode(reader, reader.size(), $undefined, _depth + 1, message.event);
                            message.body = "event";
                            continue;
                        }
                    case 34: {
                            if (wireType !== 2)
                                break;
                            message.ownerTime = $root.stemma.v1.OwnerTime.decode(reader, reader.size(), $undefined, _depth + 1, message.ownerTime);
                            message.body = "ownerTime";
                            continue;
                        }
                    case 38: {
                            if (wireType !== 2)
                                break;
                            message.releasePart = $root.stemma.v1.ReleasePart.decode(reader, reader.size(), $undefined, _depth + 1, message.releasePart);
                            message.body = "releasePart";
                            continue;
                        }
                    case 50: {
                            if (wireType !== 2)
                                break;
                            message.activationReceipt = $root.stemma.v1.ActivationReceipt.decode(reader, reader.size(), $undefined, _depth + 1, message.activationReceipt);
                            message.body = "activationReceipt";
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Envelope;
        })();

        v1.State = (function() {

            const State = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            State.prototype.online = false;
            State.prototype.previousSession = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
            State.prototype.generation = 0;
            State.prototype.signature = $util.newBuffer([]);

            State.create = function(properties) {
                return new State(properties);
            };

            State.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.online != null && $Object.hasOwnProperty.call(message, "online") && message.online !== false)
                    writer.uint32(8).bool(message.online);
                if (message.previousSession != null && $Object.hasOwnProperty.call(message, "previousSession") && (typeof message.previousSession === "object" ? message.previousSession.low || message.previousSession.high : message.previousSession !== 0))
                    writer.uint32(16).uint64(message.previousSession);
                if (message.generation != null && $Object.hasOwnProperty.call(message, "generation") && message.generation !== 0)
                    writer.uint32(24).uint32(message.generation);
                if (message.signature != null && $Object.hasOwnProperty.call(message, "signature") && message.signature.length)
                    writer.uint32(34).bytes(message.signature);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            State.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.State();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.bool())
                                message.online = value;
                            else
                                delete message.online;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.previousSession = value;
                            else
                                delete message.previousSession;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.generation = value;
                            else
                                delete message.generation;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.signature = value;
                            else
                                delete message.signature;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return State;
        })();

        v1.Birth = (function() {

            const Birth = function (properties) {
                this.heads = [];
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Birth.prototype.agentVersion = "";
            Birth.prototype.profile = "";
            Birth.prototype.runtime = "";
            Birth.prototype.oldestProtocol = 0;
            Birth.prototype.heads = $util.emptyArray;
            Birth.prototype.seenJournalLength = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
            Birth.prototype.seenJournalChain = $util.newBuffer([]);
            Birth.prototype.unreleased = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
            Birth.prototype.clockMs = $util.Long ? $util.Long.fromBits(0,0,false) : 0;
            Birth.prototype.clockErrorMs = $util.Long ? $util.Long.fromBits(0,0,false) : 0;
            Birth.prototype.generation = 0;
            Birth.prototype.seenJournalRoot = $util.newBuffer([]);
            Birth.prototype.releaseSet = $util.newBuffer([]);
            Birth.prototype.releasePolicy = "";
            Birth.prototype.restoresFrom = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

            Birth.create = function(properties) {
                return new Birth(properties);
            };

            Birth.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.agentVersion != null && $Object.hasOwnProperty.call(message, "agentVersion") && message.agentVersion !== "")
                    writer.uint32(10).string(message.agentVersion);
                if (message.profile != null && $Object.hasOwnProperty.call(message, "profile") && message.profile !== "")
                    writer.uint32(18).string(message.profile);
                if (message.runtime != null && $Object.hasOwnProperty.call(message, "runtime") && message.runtime !== "")
                    writer.uint32(26).string(message.runtime);
                if (message.oldestProtocol != null && $Object.hasOwnProperty.call(message, "oldestProtocol") && message.oldestProtocol !== 0)
                    writer.uint32(32).uint32(message.oldestProtocol);
                if (message.heads != null && message.heads.length)
                    for (let i = 0; i < message.heads.length; ++i)
                        $root.stemma.v1.LineHead.encode(message.heads[i], writer.uint32(42).fork(), _depth + 1).ldelim();
                if (message.seenJournalLength != null && $Object.hasOwnProperty.call(message, "seenJournalLength") && (typeof message.seenJournalLength === "object" ? message.seenJournalLength.low || message.seenJournalLength.high : message.seenJournalLength !== 0))
                    writer.uint32(48).uint64(message.seenJournalLength);
                if (message.seenJournalChain != null && $Object.hasOwnProperty.call(message, "seenJournalChain") && message.seenJournalChain.length)
                    writer.uint32(58).bytes(message.seenJournalChain);
                if (message.unreleased != null && $Object.hasOwnProperty.call(message, "unreleased") && (typeof message.unreleased === "object" ? message.unreleased.low || message.unreleased.high : message.unreleased !== 0))
                    writer.uint32(64).uint64(message.unreleased);
                if (message.clockMs != null && $Object.hasOwnProperty.call(message, "clockMs") && (typeof message.clockMs === "object" ? message.clockMs.low || message.clockMs.high : message.clockMs !== 0))
                    writer.uint32(72).int64(message.clockMs);
                if (message.clockErrorMs != null && $Object.hasOwnProperty.call(message, "clockErrorMs") && (typeof message.clockErrorMs === "object" ? message.clockErrorMs.low || message.clockErrorMs.high : message.clockErrorMs !== 0))
                    writer.uint32(80).int64(message.clockErrorMs);
                if (message.generation != null && $Object.hasOwnProperty.call(message, "generation") && message.generation !== 0)
                    writer.uint32(88).uint32(message.generation);
                if (message.seenJournalRoot != null && $Object.hasOwnProperty.call(message, "seenJournalRoot") && message.seenJournalRoot.length)
                    writer.uint32(98).bytes(message.seenJournalRoot);
                if (message.restoresFrom != null && $Object.hasOwnProperty.call(message, "restoresFrom") && (typeof message.restoresFrom === "object" ? message.restoresFrom.low || message.restoresFrom.high : message.restoresFrom !== 0))
                    writer.uint32(112).uint64(message.restoresFrom);
                if (message.releaseSet != null && $Object.hasOwnProperty.call(message, "releaseSet") && message.releaseSet.length)
                    writer.uint32(122).bytes(message.releaseSet);
                if (message.releasePolicy != null && $Object.hasOwnProperty.call(message, "releasePolicy") && message.releasePolicy !== "")
                    writer.uint32(130).string(message.releasePolicy);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Birth.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.Birth();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.agentVersion = value;
                            else
                                delete message.agentVersion;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.profile = value;
                            else
                                delete message.profile;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.runtime = value;
                            else
                                delete message.runtime;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.oldestProtocol = value;
                            else
                                delete message.oldestProtocol;
                            continue;
                        }
                    case 5: {
                            if (wireType !== 2)
                                break;
                            if (!(message.heads && message.heads.length))
                                message.heads = [];
                            message.heads.push($root.stemma.v1.LineHead.decode(reader, reader.size(), $undefined, _depth + 1));
                            continue;
                        }
                    case 6: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.seenJournalLength = value;
                            else
                                delete message.seenJournalLength;
                            continue;
                        }
                    case 7: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.seenJournalChain = value;
                            else
                                delete message.seenJournalChain;
                            continue;
                        }
                    case 8: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.unreleased = value;
                            else
                                delete message.unreleased;
                            continue;
                        }
                    case 9: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.int64()) === "object" ? value.low || value.high : value !== 0)
                                message.clockMs = value;
                            else
                                delete message.clockMs;
                            continue;
                        }
                    case 10: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.int64()) === "object" ? value.low || value.high : value !== 0)
                                message.clockErrorMs = value;
                            else
                                delete message.clockErrorMs;
                            continue;
                        }
                    case 11: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.generation = value;
                            else
                                delete message.generation;
                            continue;
                        }
                    case 12: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.seenJournalRoot = value;
                            else
                                delete message.seenJournalRoot;
                            continue;
                        }
                    case 15: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.releaseSet = value;
                            else
                                delete message.releaseSet;
                            continue;
                        }
                    case 16: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.releasePolicy = value;
                            else
                                delete message.releasePolicy;
                            continue;
                        }
                    case 14: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.restoresFrom = value;
                            else
                                delete message.restoresFrom;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Birth;
        })();

        v1.LineHead = (function() {

            const LineHead = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            LineHead.prototype.line = "";
            LineHead.prototype.sequence = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
            LineHead.prototype.versionId = $util.newBuffer([]);
            LineHead.prototype.activeVersionId = $util.newBuffer([]);
            LineHead.prototype.activeNumber = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

            LineHead.create = function(properties) {
                return new LineHead(properties);
            };

            LineHead.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.line != null && $Object.hasOwnProperty.call(message, "line") && message.line !== "")
                    writer.uint32(10).string(message.line);
                if (message.sequence != null && $Object.hasOwnProperty.call(message, "sequence") && (typeof message.sequence === "object" ? message.sequence.low || message.sequence.high : message.sequence !== 0))
                    writer.uint32(16).uint64(message.sequence);
                if (message.versionId != null && $Object.hasOwnProperty.call(message, "versionId") && message.versionId.length)
                    writer.uint32(26).bytes(message.versionId);
                if (message.activeVersionId != null && $Object.hasOwnProperty.call(message, "activeVersionId") && message.activeVersionId.length)
                    writer.uint32(34).bytes(message.activeVersionId);
                if (message.activeNumber != null && $Object.hasOwnProperty.call(message, "activeNumber") && (typeof message.activeNumber === "object" ? message.activeNumber.low || message.activeNumber.high : message.activeNumber !== 0))
                    writer.uint32(40).uint64(message.activeNumber);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            LineHead.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.LineHead();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.line = value;
                            else
                                delete message.line;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.sequence = value;
                            else
                                delete message.sequence;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.versionId = value;
                            else
                                delete message.versionId;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.activeVersionId = value;
                            else
                                delete message.activeVersionId;
                            continue;
                        }
                    case 5: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.activeNumber = value;
                            else
                                delete message.activeNumber;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return LineHead;
        })();

        v1.Welcome = (function() {

            const Welcome = function (properties) {
                this.known = [];
                this.restores = [];
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Welcome.prototype.serverVersion = "";
            Welcome.prototype.protocol = 0;
            Welcome.prototype.head = null;
            Welcome.prototype.clockMs = $util.Long ? $util.Long.fromBits(0,0,false) : 0;
            Welcome.prototype.restored = false;
            Welcome.prototype.restoredPosition = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
            Welcome.prototype.known = $util.emptyArray;
            Welcome.prototype.blockBytes = 0;
            Welcome.prototype.window = 0;
            Welcome.prototype.start = null;
            Welcome.prototype.restores = $util.emptyArray;
            Welcome.prototype.restoresFrom = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
            Welcome.prototype.moreRestores = false;

            Welcome.create = function(properties) {
                return new Welcome(properties);
            };

            Welcome.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.serverVersion != null && $Object.hasOwnProperty.call(message, "serverVersion") && message.serverVersion !== "")
                    writer.uint32(10).string(message.serverVersion);
                if (message.protocol != null && $Object.hasOwnProperty.call(message, "protocol") && message.protocol !== 0)
                    writer.uint32(16).uint32(message.protocol);
                if (message.head != null && $Object.hasOwnProperty.call(message, "head"))
                    $root.stemma.v1.SignedHead.encode(message.head, writer.uint32(26).fork(), _depth + 1).ldelim();
                if (message.clockMs != null && $Object.hasOwnProperty.call(message, "clockMs") && (typeof message.clockMs === "object" ? message.clockMs.low || message.clockMs.high : message.clockMs !== 0))
                    writer.uint32(32).int64(message.clockMs);
                if (message.restored != null && $Object.hasOwnProperty.call(message, "restored") && message.restored !== false)
                    writer.uint32(40).bool(message.restored);
                if (message.restoredPosition != null && $Object.hasOwnProperty.call(message, "restoredPosition") && (typeof message.restoredPosition === "object" ? message.restoredPosition.low || message.restoredPosition.high : message.restoredPosition !== 0))
                    writer.uint32(48).uint64(message.restoredPosition);
                if (message.known != null && message.known.length)
                    for (let i = 0; i < message.known.length; ++i)
                        $root.stemma.v1.LineHead.encode(message.known[i], writer.uint32(58).fork(), _depth + 1).ldelim();
                if (message.blockBytes != null && $Object.hasOwnProperty.call(message, "blockBytes") && message.blockBytes !== 0)
                    writer.uint32(64).uint32(message.blockBytes);
                if (message.window != null && $Object.hasOwnProperty.call(message, "window") && message.window !== 0)
                    writer.uint32(72).uint32(message.window);
                if (message.start != null && $Object.hasOwnProperty.call(message, "start"))
                    $root.stemma.v1.StartProof.encode(message.start, writer.uint32(82).fork(), _depth + 1).ldelim();
                if (message.restores != null && message.restores.length)
                    for (let i = 0; i < message.restores.length; ++i)
                        $root.stemma.v1.ProvenFact.encode(message.restores[i], writer.uint32(90).fork(), _depth + 1).ldelim();
                if (message.restoresFrom != null && $Object.hasOwnProperty.call(message, "restoresFrom") && (typeof message.restoresFrom === "object" ? message.restoresFrom.low || message.restoresFrom.high : message.restoresFrom !== 0))
                    writer.uint32(112).uint64(message.restoresFrom);
                if (message.moreRestores != null && $Object.hasOwnProperty.call(message, "moreRestores") && message.moreRestores !== false)
                    writer.uint32(120).bool(message.moreRestores);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Welcome.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.Welcome();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.serverVersion = value;
                            else
                                delete message.serverVersion;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.protocol = value;
                            else
                                delete message.protocol;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 2)
                                break;
                            message.head = $root.stemma.v1.SignedHead.decode(reader, reader.size(), $undefined, _depth + 1, message.head);
                            continue;
                        }
                    case 4: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.int64()) === "object" ? value.low || value.high : value !== 0)
                                message.clockMs = value;
                            else
                                delete message.clockMs;
                            continue;
                        }
                    case 5: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.bool())
                                message.restored = value;
                            else
                                delete message.restored;
                            continue;
                        }
                    case 6: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.restoredPosition = value;
                            else
                                delete message.restoredPosition;
                            continue;
                        }
                    case 7: {
                            if (wireType !== 2)
                                break;
                            if (!(message.known && message.known.length))
                                message.known = [];
                            message.known.push($root.stemma.v1.LineHead.decode(reader, reader.size(), $undefined, _depth + 1));
                            continue;
                        }
                    case 8: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.blockBytes = value;
                            else
                                delete message.blockBytes;
                            continue;
                        }
                    case 9: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.window = value;
                            else
                                delete message.window;
                            continue;
                        }
                    case 10: {
                            if (wireType !== 2)
                                break;
                            message.start = $root.stemma.v1.StartProof.decode(reader, reader.size(), $undefined, _depth + 1, message.start);
                            continue;
                        }
                    case 11: {
                            if (wireType !== 2)
                                break;
                            if (!(message.restores && message.restores.length))
                                message.restores = [];
                            message.restores.push($root.stemma.v1.ProvenFact.decode(reader, reader.size(), $undefined, _depth + 1));
                            continue;
                        }
                    case 14: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.restoresFrom = value;
                            else
                                delete message.restoresFrom;
                            continue;
                        }
                    case 15: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.bool())
                                message.moreRestores = value;
                            else
                                delete message.moreRestores;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Welcome;
        })();

        v1.StartProof = (function() {

            const StartProof = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            StartProof.prototype.length = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
            StartProof.prototype.hashes = $util.newBuffer([]);

            StartProof.create = function(properties) {
                return new StartProof(properties);
            };

            StartProof.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.length != null && $Object.hasOwnProperty.call(message, "length") && (typeof message.length === "object" ? message.length.low || message.length.high : message.length !== 0))
                    writer.uint32(8).uint64(message.length);
                if (message.hashes != null && $Object.hasOwnProperty.call(message, "hashes") && message.hashes.length)
                    writer.uint32(18).bytes(message.hashes);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            StartProof.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.StartProof();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.length = value;
                            else
                                delete message.length;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.hashes = value;
                            else
                                delete message.hashes;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return StartProof;
        })();

        v1.ProvenFact = (function() {

            const ProvenFact = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            ProvenFact.prototype.position = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
            ProvenFact.prototype.entry = $util.newBuffer([]);
            ProvenFact.prototype.hashes = $util.newBuffer([]);
            ProvenFact.prototype.approval = null;

            ProvenFact.create = function(properties) {
                return new ProvenFact(properties);
            };

            ProvenFact.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.position != null && $Object.hasOwnProperty.call(message, "position") && (typeof message.position === "object" ? message.position.low || message.position.high : message.position !== 0))
                    writer.uint32(8).uint64(message.position);
                if (message.entry != null && $Object.hasOwnProperty.call(message, "entry") && message.entry.length)
                    writer.uint32(18).bytes(message.entry);
                if (message.hashes != null && $Object.hasOwnProperty.call(message, "hashes") && message.hashes.length)
                    writer.uint32(26).bytes(message.hashes);
                if (message.approval != null && $Object.hasOwnProperty.call(message, "approval"))
                    $root.stemma.v1.RestoreApproval.encode(message.approval, writer.uint32(34).fork(), _depth + 1).ldelim();
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            ProvenFact.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.ProvenFact();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.position = value;
                            else
                                delete message.position;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.entry = value;
                            else
                                delete message.entry;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.hashes = value;
                            else
                                delete message.hashes;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 2)
                                break;
                            message.approval = $root.stemma.v1.RestoreApproval.decode(reader, reader.size(), $undefined, _depth + 1, message.approval);
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return ProvenFact;
        })();

        v1.RestoreApproval = (function() {

            const RestoreApproval = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            RestoreApproval.prototype.text = "";
            RestoreApproval.prototype.hashes = $util.newBuffer([]);

            RestoreApproval.create = function(properties) {
                return new RestoreApproval(properties);
            };

            RestoreApproval.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.text != null && $Object.hasOwnProperty.call(message, "text") && message.text !== "")
                    writer.uint32(10).string(message.text);
                if (message.hashes != null && $Object.hasOwnProperty.call(message, "hashes") && message.hashes.length)
                    writer.uint32(18).bytes(message.hashes);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            RestoreApproval.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.RestoreApproval();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.text = value;
                            else
                                delete message.text;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.hashes = value;
                            else
                                delete message.hashes;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return RestoreApproval;
        })();

        v1.SignedHead = (function() {

            const SignedHead = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            SignedHead.prototype.length = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
            SignedHead.prototype.chain = $util.newBuffer([]);
            SignedHead.prototype.root = $util.newBuffer([]);
            SignedHead.prototype.publicKey = $util.newBuffer([]);
            SignedHead.prototype.signature = $util.newBuffer([]);

            SignedHead.create = function(properties) {
                return new SignedHead(properties);
            };

            SignedHead.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.length != null && $Object.hasOwnProperty.call(message, "length") && (typeof message.length === "object" ? message.length.low || message.length.high : message.length !== 0))
                    writer.uint32(8).uint64(message.length);
                if (message.chain != null && $Object.hasOwnProperty.call(message, "chain") && message.chain.length)
                    writer.uint32(18).bytes(message.chain);
                if (message.root != null && $Object.hasOwnProperty.call(message, "root") && message.root.length)
                    writer.uint32(26).bytes(message.root);
                if (message.publicKey != null && $Object.hasOwnProperty.call(message, "publicKey") && message.publicKey.length)
                    writer.uint32(34).bytes(message.publicKey);
                if (message.signature != null && $Object.hasOwnProperty.call(message, "signature") && message.signature.length)
                    writer.uint32(42).bytes(message.signature);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            SignedHead.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.SignedHead();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.length = value;
                            else
                                delete message.length;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.chain = value;
                            else
                                delete message.chain;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.root = value;
                            else
                                delete message.root;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.publicKey = value;
                            else
                                delete message.publicKey;
                            continue;
                        }
                    case 5: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.signature = value;
                            else
                                delete message.signature;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return SignedHead;
        })();

        v1.Announce = (function() {

            const Announce = function (properties) {
                this.objects = [];
                this.streamedBytes = [];
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Announce.prototype.record = $util.newBuffer([]);
            Announce.prototype.signature = $util.newBuffer([]);
            Announce.prototype.objects = $util.emptyArray;
            Announce.prototype.tensorBytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
            Announce.prototype.streamedBytes = $util.emptyArray;
            Announce.prototype.usesTensorBytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
            Announce.prototype.claim = false;

            Announce.create = function(properties) {
                return new Announce(properties);
            };

            Announce.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.record != null && $Object.hasOwnProperty.call(message, "record") && message.record.length)
                    writer.uint32(10).bytes(message.record);
                if (message.signature != null && $Object.hasOwnProperty.call(message, "signature") && message.signature.length)
                    writer.uint32(18).bytes(message.signature);
                if (message.objects != null && message.objects.length)
                    for (let i = 0; i < message.objects.length; ++i)
                        $root.stemma.v1.SmallObject.encode(message.objects[i], writer.uint32(26).fork(), _depth + 1).ldelim();
                if (message.tensorBytes != null && $Object.hasOwnProperty.call(message, "tensorBytes") && (typeof message.tensorBytes === "object" ? message.tensorBytes.low || message.tensorBytes.high : message.tensorBytes !== 0))
                    writer.uint32(32).uint64(message.tensorBytes);
                if (message.streamedBytes != null && message.streamedBytes.length)
                    writer.uint32(42).uint64s(message.streamedBytes);
                if (message.usesTensorBytes != null && $Object.hasOwnProperty.call(message, "usesTensorBytes") && (typeof message.usesTensorBytes === "object" ? message.usesTensorBytes.low || message.usesTensorBytes.high : message.usesTensorBytes !== 0))
                    writer.uint32(48).uint64(message.usesTensorBytes);
                if (message.claim != null && $Object.hasOwnProperty.call(message, "claim") && message.claim !== false)
                    writer.uint32(56).bool(message.claim);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Announce.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.Announce();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.record = value;
                            else
                                delete message.record;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.signature = value;
                            else
                                delete message.signature;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 2)
                                break;
                            if (!(message.objects && message.objects.length))
                                message.objects = [];
                            message.objects.push($root.stemma.v1.SmallObject.decode(reader, reader.size(), $undefined, _depth + 1));
                            continue;
                        }
                    case 4: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.tensorBytes = value;
                            else
                                delete message.tensorBytes;
                            continue;
                        }
                    case 5: {
                            if (wireType === 2) {
                                if (!(message.streamedBytes && message.streamedBytes.length))
                                    message.streamedBytes = [];
                                reader.uint64s(message.streamedBytes);
                                continue;
                            }
                            if (wireType !== 0)
                                break;
                            if (!(message.streamedBytes && message.streamedBytes.length))
                                message.streamedBytes = [];
                            message.streamedBytes.push(reader.uint64());
                            continue;
                        }
                    case 6: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.usesTensorBytes = value;
                            else
                                delete message.usesTensorBytes;
                            continue;
                        }
                    case 7: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.bool())
                                message.claim = value;
                            else
                                delete message.claim;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Announce;
        })();

        v1.SmallObject = (function() {

            const SmallObject = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            SmallObject.prototype.kind = "";
            SmallObject.prototype.data = $util.newBuffer([]);

            SmallObject.create = function(properties) {
                return new SmallObject(properties);
            };

            SmallObject.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.kind != null && $Object.hasOwnProperty.call(message, "kind") && message.kind !== "")
                    writer.uint32(10).string(message.kind);
                if (message.data != null && $Object.hasOwnProperty.call(message, "data") && message.data.length)
                    writer.uint32(18).bytes(message.data);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            SmallObject.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.SmallObject();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.kind = value;
                            else
                                delete message.kind;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.data = value;
                            else
                                delete message.data;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return SmallObject;
        })();

        v1.ObjectRef = (function() {

            const ObjectRef = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            ObjectRef.prototype.kind = "";
            ObjectRef.prototype.id = $util.newBuffer([]);
            ObjectRef.prototype.byteLength = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

            ObjectRef.create = function(properties) {
                return new ObjectRef(properties);
            };

            ObjectRef.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.kind != null && $Object.hasOwnProperty.call(message, "kind") && message.kind !== "")
                    writer.uint32(10).string(message.kind);
                if (message.id != null && $Object.hasOwnProperty.call(message, "id") && message.id.length)
                    writer.uint32(18).bytes(message.id);
                if (message.byteLength != null && $Object.hasOwnProperty.call(message, "byteLength") && (typeof message.byteLength === "object" ? message.byteLength.low || message.byteLength.high : message.byteLength !== 0))
                    writer.uint32(24).uint64(message.byteLength);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            ObjectRef.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.ObjectRef();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.kind = value;
                            else
                                delete message.kind;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.id = value;
                            else
                                delete message.id;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.byteLength = value;
                            else
                                delete message.byteLength;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return ObjectRef;
        })();

        v1.Want = (function() {

            const Want = function (properties) {
                this.objects = [];
                this.bases = [];
                this.tensorIndices = [];
                this.references = [];
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Want.prototype.reason = 0;
            Want.prototype.versionId = $util.newBuffer([]);
            Want.prototype.transfer = "";
            Want.prototype.objects = $util.emptyArray;
            Want.prototype.bases = $util.emptyArray;
            Want.prototype.blockBytes = 0;
            Want.prototype.more = false;
            Want.prototype.part = 0;
            Want.prototype.parts = 0;
            Want.prototype.tensorIndices = $util.emptyArray;
            Want.prototype.codec = 0;
            Want.prototype.references = $util.emptyArray;
            Want.prototype.streamBytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
            Want.prototype.ownReferences = false;
            Want.prototype.optimizerReference = $util.newBuffer([]);

            Want.create = function(properties) {
                return new Want(properties);
            };

            Want.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.reason != null && $Object.hasOwnProperty.call(message, "reason") && message.reason !== 0)
                    writer.uint32(8).int32(message.reason);
                if (message.versionId != null && $Object.hasOwnProperty.call(message, "versionId") && message.versionId.length)
                    writer.uint32(18).bytes(message.versionId);
                if (message.transfer != null && $Object.hasOwnProperty.call(message, "transfer") && message.transfer !== "")
                    writer.uint32(26).string(message.transfer);
                if (message.objects != null && message.objects.length)
                    for (let i = 0; i < message.objects.length; ++i)
                        $root.stemma.v1.ObjectRef.encode(message.objects[i], writer.uint32(34).fork(), _depth + 1).ldelim();
                if (message.bases != null && message.bases.length)
                    for (let i = 0; i < message.bases.length; ++i)
                        writer.uint32(42).bytes(message.bases[i]);
                if (message.blockBytes != null && $Object.hasOwnProperty.call(message, "blockBytes") && message.blockBytes !== 0)
                    writer.uint32(48).uint32(message.blockBytes);
                if (message.more != null && $Object.hasOwnProperty.call(message, "more") && message.more !== false)
                    writer.uint32(56).bool(message.more);
                if (message.part != null && $Object.hasOwnProperty.call(message, "part") && message.part !== 0)
                    writer.uint32(64).uint32(message.part);
                if (message.parts != null && $Object.hasOwnProperty.call(message, "parts") && message.parts !== 0)
                    writer.uint32(72).uint32(message.parts);
                if (message.tensorIndices != null && message.tensorIndices.length)
                    writer.uint32(82).uint32s(message.tensorIndices);
                if (message.codec != null && $Object.hasOwnProperty.call(message, "codec") && message.codec !== 0)
                    writer.uint32(88).uint32(message.codec);
                if (message.references != null && message.references.length)
                    for (let i = 0; i < message.references.length; ++i)
                        writer.uint32(98).bytes(message.references[i]);
                if (message.streamBytes != null && $Object.hasOwnProperty.call(message, "streamBytes") && (typeof message.streamBytes === "object" ? message.streamBytes.low || message.streamBytes.high : message.streamBytes !== 0))
                    writer.uint32(104).uint64(message.streamBytes);
                if (message.ownReferences != null && $Object.hasOwnProperty.call(message, "ownReferences") && message.ownReferences !== false)
                    writer.uint32(112).bool(message.ownReferences);
                if (message.optimizerReference != null && $Object.hasOwnProperty.call(message, "optimizerReference") && message.optimizerReference.length)
                    writer.uint32(122).bytes(message.optimizerReference);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Want.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.Want();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.int32())
                                message.reason = value;
                            else
                                delete message.reason;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.versionId = value;
                            else
                                delete message.versionId;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.transfer = value;
                            else
                                delete message.transfer;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 2)
                                break;
                            if (!(message.objects && message.objects.length))
                                message.objects = [];
                            message.objects.push($root.stemma.v1.ObjectRef.decode(reader, reader.size(), $undefined, _depth + 1));
                            continue;
                        }
                    case 5: {
                            if (wireType !== 2)
                                break;
                            if (!(message.bases && message.bases.length))
                                message.bases = [];
                            message.bases.push(reader.bytes());
                            continue;
                        }
                    case 6: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.blockBytes = value;
                            else
                                delete message.blockBytes;
                            continue;
                        }
                    case 7: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.bool())
                                message.more = value;
                            else
                                delete message.more;
                            continue;
                        }
                    case 8: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.part = value;
                            else
                                delete message.part;
                            continue;
                        }
                    case 9: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.parts = value;
                            else
                                delete message.parts;
                            continue;
                        }
                    case 10: {
                            if (wireType === 2) {
                                if (!(message.tensorIndices && message.tensorIndices.length))
                                    message.tensorIndices = [];
                                reader.uint32s(message.tensorIndices);
                                continue;
                            }
                            if (wireType !== 0)
                                break;
                            if (!(message.tensorIndices && message.tensorIndices.length))
                                message.tensorIndices = [];
                            message.tensorIndices.push(reader.uint32());
                            continue;
                        }
                    case 11: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.codec = value;
                            else
                                delete message.codec;
                            continue;
                        }
                    case 12: {
                            if (wireType !== 2)
                                break;
                            if (!(message.references && message.references.length))
                                message.references = [];
                            message.references.push(reader.bytes());
                            continue;
                        }
                    case 13: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.streamBytes = value;
                            else
                                delete message.streamBytes;
                            continue;
                        }
                    case 14: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.bool())
                                message.ownReferences = value;
                            else
                                delete message.ownReferences;
                            continue;
                        }
                    case 15: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.optimizerReference = value;
                            else
                                delete message.optimizerReference;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            Want.Reason = (function() {
                const valuesById = $Object.create(null), values = $Object.create(valuesById);
                values[valuesById[0] = "TENSORS"] = 0;
                values[valuesById[1] = "OBJECTS"] = 1;
                values[valuesById[2] = "BASE"] = 2;
                values[valuesById[3] = "RAW"] = 3;
                return values;
            })();

            return Want;
        })();

        v1.ManifestPart = (function() {

            const ManifestPart = function (properties) {
                this.encodings = [];
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            ManifestPart.prototype.transfer = "";
            ManifestPart.prototype.part = 0;
            ManifestPart.prototype.parts = 0;
            ManifestPart.prototype.byteLength = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
            ManifestPart.prototype.blockBytes = 0;
            ManifestPart.prototype.blockHashes = $util.newBuffer([]);
            ManifestPart.prototype.encodings = $util.emptyArray;

            ManifestPart.create = function(properties) {
                return new ManifestPart(properties);
            };

            ManifestPart.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.transfer != null && $Object.hasOwnProperty.call(message, "transfer") && message.transfer !== "")
                    writer.uint32(10).string(message.transfer);
                if (message.part != null && $Object.hasOwnProperty.call(message, "part") && message.part !== 0)
                    writer.uint32(16).uint32(message.part);
                if (message.parts != null && $Object.hasOwnProperty.call(message, "parts") && message.parts !== 0)
                    writer.uint32(24).uint32(message.parts);
                if (message.byteLength != null && $Object.hasOwnProperty.call(message, "byteLength") && (typeof message.byteLength === "object" ? message.byteLength.low || message.byteLength.high : message.byteLength !== 0))
                    writer.uint32(32).uint64(message.byteLength);
                if (message.blockBytes != null && $Object.hasOwnProperty.call(message, "blockBytes") && message.blockBytes !== 0)
                    writer.uint32(40).uint32(message.blockBytes);
                if (message.blockHashes != null && $Object.hasOwnProperty.call(message, "blockHashes") && message.blockHashes.length)
                    writer.uint32(50).bytes(message.blockHashes);
                if (message.encodings != null && message.encodings.length)
                    for (let i = 0; i < message.encodings.length; ++i)
                        $root.stemma.v1.Encoding.encode(message.encodings[i], writer.uint32(58).fork(), _depth + 1).ldelim();
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            ManifestPart.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.ManifestPart();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.transfer = value;
                            else
                                delete message.transfer;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.part = value;
                            else
                                delete message.part;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.parts = value;
                            else
                                delete message.parts;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.byteLength = value;
                            else
                                delete message.byteLength;
                            continue;
                        }
                    case 5: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.blockBytes = value;
                            else
                                delete message.blockBytes;
                            continue;
                        }
                    case 6: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.blockHashes = value;
                            else
                                delete message.blockHashes;
                            continue;
                        }
                    case 7: {
                            if (wireType !== 2)
                                break;
                            if (!(message.encodings && message.encodings.length))
                                message.encodings = [];
                            message.encodings.push($root.stemma.v1.Encoding.decode(reader, reader.size(), $undefined, _depth + 1));
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return ManifestPart;
        })();

        v1.Encoding = (function() {

            const Encoding = function (properties) {
                this.references = [];
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Encoding.prototype.code = 0;
            Encoding.prototype.byteLength = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
            Encoding.prototype.against = $util.newBuffer([]);
            Encoding.prototype.previous = $util.newBuffer([]);
            Encoding.prototype.references = $util.emptyArray;

            Encoding.create = function(properties) {
                return new Encoding(properties);
            };

            Encoding.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.code != null && $Object.hasOwnProperty.call(message, "code") && message.code !== 0)
                    writer.uint32(8).uint32(message.code);
                if (message.byteLength != null && $Object.hasOwnProperty.call(message, "byteLength") && (typeof message.byteLength === "object" ? message.byteLength.low || message.byteLength.high : message.byteLength !== 0))
                    writer.uint32(16).uint64(message.byteLength);
                if (message.against != null && $Object.hasOwnProperty.call(message, "against") && message.against.length)
                    writer.uint32(26).bytes(message.against);
                if (message.previous != null && $Object.hasOwnProperty.call(message, "previous") && message.previous.length)
                    writer.uint32(34).bytes(message.previous);
                if (message.references != null && message.references.length)
                    for (let i = 0; i < message.references.length; ++i)
                        writer.uint32(42).bytes(message.references[i]);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Encoding.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.Encoding();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.code = value;
                            else
                                delete message.code;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.byteLength = value;
                            else
                                delete message.byteLength;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.against = value;
                            else
                                delete message.against;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.previous = value;
                            else
                                delete message.previous;
                            continue;
                        }
                    case 5: {
                            if (wireType !== 2)
                                break;
                            if (!(message.references && message.references.length))
                                message.references = [];
                            message.references.push(reader.bytes());
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Encoding;
        })();

        v1.BlockRequest = (function() {

            const BlockRequest = function (properties) {
                this.blocks = [];
                this.manifestParts = [];
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            BlockRequest.prototype.transfer = "";
            BlockRequest.prototype.blocks = $util.emptyArray;
            BlockRequest.prototype.manifestParts = $util.emptyArray;

            BlockRequest.create = function(properties) {
                return new BlockRequest(properties);
            };

            BlockRequest.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.transfer != null && $Object.hasOwnProperty.call(message, "transfer") && message.transfer !== "")
                    writer.uint32(10).string(message.transfer);
                if (message.blocks != null && message.blocks.length)
                    writer.uint32(18).uint32s(message.blocks);
                if (message.manifestParts != null && message.manifestParts.length)
                    writer.uint32(26).uint32s(message.manifestParts);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            BlockRequest.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.BlockRequest();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.transfer = value;
                            else
                                delete message.transfer;
                            continue;
                        }
                    case 2: {
                            if (wireType === 2) {
                                if (!(message.blocks && message.blocks.length))
                                    message.blocks = [];
                                reader.uint32s(message.blocks);
                                continue;
                            }
                            if (wireType !== 0)
                                break;
                            if (!(message.blocks && message.blocks.length))
                                message.blocks = [];
                            message.blocks.push(reader.uint32());
                            continue;
                        }
                    case 3: {
                            if (wireType === 2) {
                                if (!(message.manifestParts && message.manifestParts.length))
                                    message.manifestParts = [];
                                reader.uint32s(message.manifestParts);
                                continue;
                            }
                            if (wireType !== 0)
                                break;
                            if (!(message.manifestParts && message.manifestParts.length))
                                message.manifestParts = [];
                            message.manifestParts.push(reader.uint32());
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return BlockRequest;
        })();

        v1.Block = (function() {

            const Block = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Block.prototype.index = 0;
            Block.prototype.data = $util.newBuffer([]);

            Block.create = function(properties) {
                return new Block(properties);
            };

            Block.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.index != null && $Object.hasOwnProperty.call(message, "index") && message.index !== 0)
                    writer.uint32(8).uint32(message.index);
                if (message.data != null && $Object.hasOwnProperty.call(message, "data") && message.data.length)
                    writer.uint32(18).bytes(message.data);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Block.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.Block();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.index = value;
                            else
                                delete message.index;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.data = value;
                            else
                                delete message.data;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Block;
        })();

        v1.TransferDone = (function() {

            const TransferDone = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            TransferDone.prototype.transfer = "";

            TransferDone.create = function(properties) {
                return new TransferDone(properties);
            };

            TransferDone.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.transfer != null && $Object.hasOwnProperty.call(message, "transfer") && message.transfer !== "")
                    writer.uint32(10).string(message.transfer);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            TransferDone.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.TransferDone();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.transfer = value;
                            else
                                delete message.transfer;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return TransferDone;
        })();

        v1.Receipt = (function() {

            const Receipt = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Receipt.prototype.kind = 0;
            Receipt.prototype.versionId = $util.newBuffer([]);
            Receipt.prototype.fleet = "";
            Receipt.prototype.device = "";
            Receipt.prototype.session = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
            Receipt.prototype.position = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
            Receipt.prototype.head = null;
            Receipt.prototype.backedUpTo = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
            Receipt.prototype.name = "";
            Receipt.prototype.version = 0;
            Receipt.prototype.publicKey = $util.newBuffer([]);
            Receipt.prototype.signature = $util.newBuffer([]);
            Receipt.prototype.generation = 0;
            Receipt.prototype.start = null;
            Receipt.prototype.fact = null;

            Receipt.create = function(properties) {
                return new Receipt(properties);
            };

            Receipt.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.kind != null && $Object.hasOwnProperty.call(message, "kind") && message.kind !== 0)
                    writer.uint32(8).int32(message.kind);
                if (message.versionId != null && $Object.hasOwnProperty.call(message, "versionId") && message.versionId.length)
                    writer.uint32(18).bytes(message.versionId);
                if (message.fleet != null && $Object.hasOwnProperty.call(message, "fleet") && message.fleet !== "")
                    writer.uint32(26).string(message.fleet);
                if (message.device != null && $Object.hasOwnProperty.call(message, "device") && message.device !== "")
                    writer.uint32(34).string(message.device);
                if (message.session != null && $Object.hasOwnProperty.call(message, "session") && (typeof message.session === "object" ? message.session.low || message.session.high : message.session !== 0))
                    writer.uint32(40).uint64(message.session);
                if (message.position != null && $Object.hasOwnProperty.call(message, "position") && (typeof message.position === "object" ? message.position.low || message.position.high : message.position !== 0))
                    writer.uint32(48).uint64(message.position);
                if (message.head != null && $Object.hasOwnProperty.call(message, "head"))
                    $root.stemma.v1.SignedHead.encode(message.head, writer.uint32(58).fork(), _depth + 1).ldelim();
                if (message.backedUpTo != null && $Object.hasOwnProperty.call(message, "backedUpTo") && (typeof message.backedUpTo === "object" ? message.backedUpTo.low || message.backedUpTo.high : message.backedUpTo !== 0))
                    writer.uint32(64).uint64(message.backedUpTo);
                if (message.name != null && $Object.hasOwnProperty.call(message, "name") && message.name !== "")
                    writer.uint32(74).string(message.name);
                if (message.version != null && $Object.hasOwnProperty.call(message, "version") && message.version !== 0)
                    writer.uint32(80).uint32(message.version);
                if (message.publicKey != null && $Object.hasOwnProperty.call(message, "publicKey") && message.publicKey.length)
                    writer.uint32(90).bytes(message.publicKey);
                if (message.signature != null && $Object.hasOwnProperty.call(message, "signature") && message.signature.length)
                    writer.uint32(98).bytes(message.signature);
                if (message.generation != null && $Object.hasOwnProperty.call(message, "generation") && message.generation !== 0)
                    writer.uint32(104).uint32(message.generation);
                if (message.start != null && $Object.hasOwnProperty.call(message, "start"))
                    $root.stemma.v1.StartProof.encode(message.start, writer.uint32(114).fork(), _depth + 1).ldelim();
                if (message.fact != null && $Object.hasOwnProperty.call(message, "fact"))
                    $root.stemma.v1.ProvenFact.encode(message.fact, writer.uint32(122).fork(), _depth + 1).ldelim();
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Receipt.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.Receipt();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.int32())
                                message.kind = value;
                            else
                                delete message.kind;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.versionId = value;
                            else
                                delete message.versionId;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.fleet = value;
                            else
                                delete message.fleet;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.device = value;
                            else
                                delete message.device;
                            continue;
                        }
                    case 5: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.session = value;
                            else
                                delete message.session;
                            continue;
                        }
                    case 6: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.position = value;
                            else
                                delete message.position;
                            continue;
                        }
                    case 7: {
                            if (wireType !== 2)
                                break;
                            message.head = $root.stemma.v1.SignedHead.decode(reader, reader.size(), $undefined, _depth + 1, message.head);
                            continue;
                        }
                    case 8: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.backedUpTo = value;
                            else
                                delete message.backedUpTo;
                            continue;
                        }
                    case 9: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.name = value;
                            else
                                delete message.name;
                            continue;
                        }
                    case 10: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.version = value;
                            else
                                delete message.version;
                            continue;
                        }
                    case 11: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.publicKey = value;
                            else
                                delete message.publicKey;
                            continue;
                        }
                    case 12: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.signature = value;
                            else
                                delete message.signature;
                            continue;
                        }
                    case 13: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.generation = value;
                            else
                                delete message.generation;
                            continue;
                        }
                    case 14: {
                            if (wireType !== 2)
                                break;
                            message.start = $root.stemma.v1.StartProof.decode(reader, reader.size(), $undefined, _depth + 1, message.start);
                            continue;
                        }
                    case 15: {
                            if (wireType !== 2)
                                break;
                            message.fact = $root.stemma.v1.ProvenFact.decode(reader, reader.size(), $undefined, _depth + 1, message.fact);
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            Receipt.Kind = (function() {
                const valuesById = $Object.create(null), values = $Object.create(valuesById);
                values[valuesById[0] = "RECORDED"] = 0;
                values[valuesById[1] = "STORED"] = 1;
                values[valuesById[2] = "RELEASED"] = 2;
                return values;
            })();

            return Receipt;
        })();

        v1.Refusal = (function() {

            const Refusal = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Refusal.prototype.code = "";
            Refusal.prototype.message = "";
            Refusal.prototype.versionId = $util.newBuffer([]);
            Refusal.prototype.transfer = "";
            Refusal.prototype.retry = false;
            Refusal.prototype.retryAfterMs = 0;

            Refusal.create = function(properties) {
                return new Refusal(properties);
            };

            Refusal.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.code != null && $Object.hasOwnProperty.call(message, "code") && message.code !== "")
                    writer.uint32(10).string(message.code);
                if (message.message != null && $Object.hasOwnProperty.call(message, "message") && message.message !== "")
                    writer.uint32(18).string(message.message);
                if (message.versionId != null && $Object.hasOwnProperty.call(message, "versionId") && message.versionId.length)
                    writer.uint32(26).bytes(message.versionId);
                if (message.transfer != null && $Object.hasOwnProperty.call(message, "transfer") && message.transfer !== "")
                    writer.uint32(34).string(message.transfer);
                if (message.retry != null && $Object.hasOwnProperty.call(message, "retry") && message.retry !== false)
                    writer.uint32(40).bool(message.retry);
                if (message.retryAfterMs != null && $Object.hasOwnProperty.call(message, "retryAfterMs") && message.retryAfterMs !== 0)
                    writer.uint32(48).uint32(message.retryAfterMs);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Refusal.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.Refusal();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.code = value;
                            else
                                delete message.code;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.message = value;
                            else
                                delete message.message;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.versionId = value;
                            else
                                delete message.versionId;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.transfer = value;
                            else
                                delete message.transfer;
                            continue;
                        }
                    case 5: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.bool())
                                message.retry = value;
                            else
                                delete message.retry;
                            continue;
                        }
                    case 6: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.retryAfterMs = value;
                            else
                                delete message.retryAfterMs;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Refusal;
        })();

        v1.Parked = (function() {

            const Parked = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Parked.prototype.versionId = $util.newBuffer([]);
            Parked.prototype.expiresMs = 0;

            Parked.create = function(properties) {
                return new Parked(properties);
            };

            Parked.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.versionId != null && $Object.hasOwnProperty.call(message, "versionId") && message.versionId.length)
                    writer.uint32(10).bytes(message.versionId);
                if (message.expiresMs != null && $Object.hasOwnProperty.call(message, "expiresMs") && message.expiresMs !== 0)
                    writer.uint32(16).uint32(message.expiresMs);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Parked.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.Parked();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.versionId = value;
                            else
                                delete message.versionId;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.expiresMs = value;
                            else
                                delete message.expiresMs;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Parked;
        })();

        v1.Activated = (function() {

            const Activated = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Activated.prototype.versionId = $util.newBuffer([]);
            Activated.prototype.line = "";
            Activated.prototype.atMs = $util.Long ? $util.Long.fromBits(0,0,false) : 0;
            Activated.prototype.clockErrorMs = $util.Long ? $util.Long.fromBits(0,0,false) : 0;
            Activated.prototype.number = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

            Activated.create = function(properties) {
                return new Activated(properties);
            };

            Activated.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.versionId != null && $Object.hasOwnProperty.call(message, "versionId") && message.versionId.length)
                    writer.uint32(10).bytes(message.versionId);
                if (message.line != null && $Object.hasOwnProperty.call(message, "line") && message.line !== "")
                    writer.uint32(18).string(message.line);
                if (message.atMs != null && $Object.hasOwnProperty.call(message, "atMs") && (typeof message.atMs === "object" ? message.atMs.low || message.atMs.high : message.atMs !== 0))
                    writer.uint32(24).int64(message.atMs);
                if (message.clockErrorMs != null && $Object.hasOwnProperty.call(message, "clockErrorMs") && (typeof message.clockErrorMs === "object" ? message.clockErrorMs.low || message.clockErrorMs.high : message.clockErrorMs !== 0))
                    writer.uint32(32).int64(message.clockErrorMs);
                if (message.number != null && $Object.hasOwnProperty.call(message, "number") && (typeof message.number === "object" ? message.number.low || message.number.high : message.number !== 0))
                    writer.uint32(40).uint64(message.number);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Activated.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.Activated();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.versionId = value;
                            else
                                delete message.versionId;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.line = value;
                            else
                                delete message.line;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.int64()) === "object" ? value.low || value.high : value !== 0)
                                message.atMs = value;
                            else
                                delete message.atMs;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.int64()) === "object" ? value.low || value.high : value !== 0)
                                message.clockErrorMs = value;
                            else
                                delete message.clockErrorMs;
                            continue;
                        }
                    case 5: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.number = value;
                            else
                                delete message.number;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Activated;
        })();

        v1.ActivationReceipt = (function() {

            const ActivationReceipt = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            ActivationReceipt.prototype.line = "";
            ActivationReceipt.prototype.number = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

            ActivationReceipt.create = function(properties) {
                return new ActivationReceipt(properties);
            };

            ActivationReceipt.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.line != null && $Object.hasOwnProperty.call(message, "line") && message.line !== "")
                    writer.uint32(10).string(message.line);
                if (message.number != null && $Object.hasOwnProperty.call(message, "number") && (typeof message.number === "object" ? message.number.low || message.number.high : message.number !== 0))
                    writer.uint32(16).uint64(message.number);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            ActivationReceipt.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.ActivationReceipt();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.line = value;
                            else
                                delete message.line;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.number = value;
                            else
                                delete message.number;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return ActivationReceipt;
        })();

        v1.Event = (function() {

            const Event = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Event.prototype.name = "";
            Event.prototype.text = "";
            Event.prototype.line = "";
            Event.prototype.versionId = $util.newBuffer([]);

            Event.create = function(properties) {
                return new Event(properties);
            };

            Event.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.name != null && $Object.hasOwnProperty.call(message, "name") && message.name !== "")
                    writer.uint32(10).string(message.name);
                if (message.text != null && $Object.hasOwnProperty.call(message, "text") && message.text !== "")
                    writer.uint32(18).string(message.text);
                if (message.line != null && $Object.hasOwnProperty.call(message, "line") && message.line !== "")
                    writer.uint32(26).string(message.line);
                if (message.versionId != null && $Object.hasOwnProperty.call(message, "versionId") && message.versionId.length)
                    writer.uint32(34).bytes(message.versionId);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Event.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.Event();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.name = value;
                            else
                                delete message.name;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.text = value;
                            else
                                delete message.text;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.line = value;
                            else
                                delete message.line;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.versionId = value;
                            else
                                delete message.versionId;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Event;
        })();

        v1.Offer = (function() {

            const Offer = function (properties) {
                this.objects = [];
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Offer.prototype.line = "";
            Offer.prototype.versionId = $util.newBuffer([]);
            Offer.prototype.record = $util.newBuffer([]);
            Offer.prototype.objects = $util.emptyArray;
            Offer.prototype.signature = $util.newBuffer([]);
            Offer.prototype.name = "";
            Offer.prototype.version = 0;
            Offer.prototype.generation = 0;
            Offer.prototype.staged = false;
            Offer.prototype.release = null;
            Offer.prototype.pipeline = null;
            Offer.prototype.logged = null;

            Offer.create = function(properties) {
                return new Offer(properties);
            };

            Offer.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.line != null && $Object.hasOwnProperty.call(message, "line") && message.line !== "")
                    writer.uint32(10).string(message.line);
                if (message.versionId != null && $Object.hasOwnProperty.call(message, "versionId") && message.versionId.length)
                    writer.uint32(18).bytes(message.versionId);
                if (message.record != null && $Object.hasOwnProperty.call(message, "record") && message.record.length)
                    writer.uint32(26).bytes(message.record);
                if (message.objects != null && message.objects.length)
                    for (let i = 0; i < message.objects.length; ++i)
                        $root.stemma.v1.SmallObject.encode(message.objects[i], writer.uint32(34).fork(), _depth + 1).ldelim();
                if (message.signature != null && $Object.hasOwnProperty.call(message, "signature") && message.signature.length)
                    writer.uint32(42).bytes(message.signature);
                if (message.name != null && $Object.hasOwnProperty.call(message, "name") && message.name !== "")
                    writer.uint32(50).string(message.name);
                if (message.version != null && $Object.hasOwnProperty.call(message, "version") && message.version !== 0)
                    writer.uint32(56).uint32(message.version);
                if (message.generation != null && $Object.hasOwnProperty.call(message, "generation") && message.generation !== 0)
                    writer.uint32(64).uint32(message.generation);
                if (message.release != null && $Object.hasOwnProperty.call(message, "release"))
                    $root.stemma.v1.OfferedRelease.encode(message.release, writer.uint32(82).fork(), _depth + 1).ldelim();
                if (message.staged != null && $Object.hasOwnProperty.call(message, "staged") && message.staged !== false)
                    writer.uint32(88).bool(message.staged);
                if (message.pipeline != null && $Object.hasOwnProperty.call(message, "pipeline"))
                    $root.stemma.v1.OfferedPipeline.encode(message.pipeline, writer.uint32(98).fork(), _depth + 1).ldelim();
                if (message.logged != null && $Object.hasOwnProperty.call(message, "logged"))
                    $root.stemma.v1.LoggedVersion.encode(message.logged, writer.uint32(106).fork(), _depth + 1).ldelim();
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Offer.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.Offer();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.line = value;
                            else
                                delete message.line;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.versionId = value;
                            else
                                delete message.versionId;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.record = value;
                            else
                                delete message.record;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 2)
                                break;
                            if (!(message.objects && message.objects.length))
                                message.objects = [];
                            message.objects.push($root.stemma.v1.SmallObject.decode(reader, reader.size(), $undefined, _depth + 1));
                            continue;
                        }
                    case 5: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.signature = value;
                            else
                                delete message.signature;
                            continue;
                        }
                    case 6: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.name = value;
                            else
                                delete message.name;
                            continue;
                        }
                    case 7: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.version = value;
                            else
                                delete message.version;
                            continue;
                        }
                    case 8: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.generation = value;
                            else
                                delete message.generation;
                            continue;
                        }
                    case 11: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.bool())
                                message.staged = value;
                            else
                                delete message.staged;
                            continue;
                        }
                    case 10: {
                            if (wireType !== 2)
                                break;
                            message.release = $root.stemma.v1.OfferedRelease.decode(reader, reader.size(), $undefined, _depth + 1, message.release);
                            continue;
                        }
                    case 12: {
                            if (wireType !== 2)
                                break;
                            message.pipeline = $root.stemma.v1.OfferedPipeline.decode(reader, reader.size(), $undefined, _depth + 1, message.pipeline);
                            continue;
                        }
                    case 13: {
                            if (wireType !== 2)
                                break;
                            message.logged = $root.stemma.v1.LoggedVersion.decode(reader, reader.size(), $undefined, _depth + 1, message.logged);
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Offer;
        })();

        v1.OfferedRelease = (function() {

            const OfferedRelease = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            OfferedRelease.prototype.name = "";
            OfferedRelease.prototype.manifest = $util.newBuffer([]);

            OfferedRelease.create = function(properties) {
                return new OfferedRelease(properties);
            };

            OfferedRelease.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.name != null && $Object.hasOwnProperty.call(message, "name") && message.name !== "")
                    writer.uint32(10).string(message.name);
                if (message.manifest != null && $Object.hasOwnProperty.call(message, "manifest") && message.manifest.length)
                    writer.uint32(18).bytes(message.manifest);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            OfferedRelease.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.OfferedRelease();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.name = value;
                            else
                                delete message.name;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.manifest = value;
                            else
                                delete message.manifest;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return OfferedRelease;
        })();

        v1.OfferedPipeline = (function() {

            const OfferedPipeline = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            OfferedPipeline.prototype.id = $util.newBuffer([]);
            OfferedPipeline.prototype.data = $util.newBuffer([]);

            OfferedPipeline.create = function(properties) {
                return new OfferedPipeline(properties);
            };

            OfferedPipeline.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.id != null && $Object.hasOwnProperty.call(message, "id") && message.id.length)
                    writer.uint32(10).bytes(message.id);
                if (message.data != null && $Object.hasOwnProperty.call(message, "data") && message.data.length)
                    writer.uint32(18).bytes(message.data);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            OfferedPipeline.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.OfferedPipeline();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.id = value;
                            else
                                delete message.id;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.data = value;
                            else
                                delete message.data;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return OfferedPipeline;
        })();

        v1.LoggedVersion = (function() {

            const LoggedVersion = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            LoggedVersion.prototype.checkpoint = "";
            LoggedVersion.prototype.fact = null;
            LoggedVersion.prototype.start = null;

            LoggedVersion.create = function(properties) {
                return new LoggedVersion(properties);
            };

            LoggedVersion.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.checkpoint != null && $Object.hasOwnProperty.call(message, "checkpoint") && message.checkpoint !== "")
                    writer.uint32(10).string(message.checkpoint);
                if (message.fact != null && $Object.hasOwnProperty.call(message, "fact"))
                    $root.stemma.v1.ProvenFact.encode(message.fact, writer.uint32(18).fork(), _depth + 1).ldelim();
                if (message.start != null && $Object.hasOwnProperty.call(message, "start"))
                    $root.stemma.v1.StartProof.encode(message.start, writer.uint32(26).fork(), _depth + 1).ldelim();
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            LoggedVersion.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.LoggedVersion();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.checkpoint = value;
                            else
                                delete message.checkpoint;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            message.fact = $root.stemma.v1.ProvenFact.decode(reader, reader.size(), $undefined, _depth + 1, message.fact);
                            continue;
                        }
                    case 3: {
                            if (wireType !== 2)
                                break;
                            message.start = $root.stemma.v1.StartProof.decode(reader, reader.size(), $undefined, _depth + 1, message.start);
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return LoggedVersion;
        })();

        v1.ReleasePart = (function() {

            const ReleasePart = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            ReleasePart.prototype.set = $util.newBuffer([]);
            ReleasePart.prototype.part = 0;
            ReleasePart.prototype.parts = 0;
            ReleasePart.prototype.data = $util.newBuffer([]);

            ReleasePart.create = function(properties) {
                return new ReleasePart(properties);
            };

            ReleasePart.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.set != null && $Object.hasOwnProperty.call(message, "set") && message.set.length)
                    writer.uint32(10).bytes(message.set);
                if (message.part != null && $Object.hasOwnProperty.call(message, "part") && message.part !== 0)
                    writer.uint32(16).uint32(message.part);
                if (message.parts != null && $Object.hasOwnProperty.call(message, "parts") && message.parts !== 0)
                    writer.uint32(24).uint32(message.parts);
                if (message.data != null && $Object.hasOwnProperty.call(message, "data") && message.data.length)
                    writer.uint32(34).bytes(message.data);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            ReleasePart.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.ReleasePart();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.set = value;
                            else
                                delete message.set;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.part = value;
                            else
                                delete message.part;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.parts = value;
                            else
                                delete message.parts;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.data = value;
                            else
                                delete message.data;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return ReleasePart;
        })();

        v1.OwnerTime = (function() {

            const OwnerTime = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            OwnerTime.prototype.statement = "";

            OwnerTime.create = function(properties) {
                return new OwnerTime(properties);
            };

            OwnerTime.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.statement != null && $Object.hasOwnProperty.call(message, "statement") && message.statement !== "")
                    writer.uint32(10).string(message.statement);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            OwnerTime.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.OwnerTime();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.statement = value;
                            else
                                delete message.statement;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return OwnerTime;
        })();

        v1.Fetch = (function() {

            const Fetch = function (properties) {
                this.objects = [];
                this.references = [];
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Fetch.prototype.versionId = $util.newBuffer([]);
            Fetch.prototype.transfer = "";
            Fetch.prototype.objects = $util.emptyArray;
            Fetch.prototype.blockBytes = 0;
            Fetch.prototype.part = 0;
            Fetch.prototype.parts = 0;
            Fetch.prototype.codec = 0;
            Fetch.prototype.references = $util.emptyArray;
            Fetch.prototype.streamBytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

            Fetch.create = function(properties) {
                return new Fetch(properties);
            };

            Fetch.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.versionId != null && $Object.hasOwnProperty.call(message, "versionId") && message.versionId.length)
                    writer.uint32(10).bytes(message.versionId);
                if (message.transfer != null && $Object.hasOwnProperty.call(message, "transfer") && message.transfer !== "")
                    writer.uint32(18).string(message.transfer);
                if (message.objects != null && message.objects.length)
                    for (let i = 0; i < message.objects.length; ++i)
                        $root.stemma.v1.ObjectRef.encode(message.objects[i], writer.uint32(26).fork(), _depth + 1).ldelim();
                if (message.blockBytes != null && $Object.hasOwnProperty.call(message, "blockBytes") && message.blockBytes !== 0)
                    writer.uint32(32).uint32(message.blockBytes);
                if (message.part != null && $Object.hasOwnProperty.call(message, "part") && message.part !== 0)
                    writer.uint32(40).uint32(message.part);
                if (message.parts != null && $Object.hasOwnProperty.call(message, "parts") && message.parts !== 0)
                    writer.uint32(48).uint32(message.parts);
                if (message.codec != null && $Object.hasOwnProperty.call(message, "codec") && message.codec !== 0)
                    writer.uint32(56).uint32(message.codec);
                if (message.references != null && message.references.length)
                    for (let i = 0; i < message.references.length; ++i)
                        writer.uint32(66).bytes(message.references[i]);
                if (message.streamBytes != null && $Object.hasOwnProperty.call(message, "streamBytes") && (typeof message.streamBytes === "object" ? message.streamBytes.low || message.streamBytes.high : message.streamBytes !== 0))
                    writer.uint32(72).uint64(message.streamBytes);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Fetch.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.Fetch();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.bytes()).length)
                                message.versionId = value;
                            else
                                delete message.versionId;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.transfer = value;
                            else
                                delete message.transfer;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 2)
                                break;
                            if (!(message.objects && message.objects.length))
                                message.objects = [];
                            message.objects.push($root.stemma.v1.ObjectRef.decode(reader, reader.size(), $undefined, _depth + 1));
                            continue;
                        }
                    case 4: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.blockBytes = value;
                            else
                                delete message.blockBytes;
                            continue;
                        }
                    case 5: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.part = value;
                            else
                                delete message.part;
                            continue;
                        }
                    case 6: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.parts = value;
                            else
                                delete message.parts;
                            continue;
                        }
                    case 7: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.codec = value;
                            else
                                delete message.codec;
                            continue;
                        }
                    case 8: {
                            if (wireType !== 2)
                                break;
                            if (!(message.references && message.references.length))
                                message.references = [];
                            message.references.push(reader.bytes());
                            continue;
                        }
                    case 9: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.streamBytes = value;
                            else
                                delete message.streamBytes;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Fetch;
        })();

        v1.Command = (function() {

            const Command = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Command.prototype.name = "";
            Command.prototype.json = "";

            Command.create = function(properties) {
                return new Command(properties);
            };

            Command.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.name != null && $Object.hasOwnProperty.call(message, "name") && message.name !== "")
                    writer.uint32(10).string(message.name);
                if (message.json != null && $Object.hasOwnProperty.call(message, "json") && message.json !== "")
                    writer.uint32(18).string(message.json);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Command.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.Command();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.name = value;
                            else
                                delete message.name;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.json = value;
                            else
                                delete message.json;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Command;
        })();

        v1.CommandResult = (function() {

            const CommandResult = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            CommandResult.prototype.code = "";
            CommandResult.prototype.json = "";

            CommandResult.create = function(properties) {
                return new CommandResult(properties);
            };

            CommandResult.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.code != null && $Object.hasOwnProperty.call(message, "code") && message.code !== "")
                    writer.uint32(10).string(message.code);
                if (message.json != null && $Object.hasOwnProperty.call(message, "json") && message.json !== "")
                    writer.uint32(18).string(message.json);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            CommandResult.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.stemma.v1.CommandResult();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.code = value;
                            else
                                delete message.code;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.json = value;
                            else
                                delete message.json;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return CommandResult;
        })();

        return v1;
    })();

    return stemma;
})();

export {
  $root as default
};
