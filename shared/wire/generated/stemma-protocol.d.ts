/* eslint-disable */
// Generated from stemma.proto by `npm run proto`. Do not edit.
import * as $protobuf from "protobufjs";
import Long = require("long");

/** Namespace stemma. */
export namespace stemma {

    /** Namespace v1. */
    namespace v1 {

        /**
         * Properties of an Envelope.
         * @deprecated Use stemma.v1.Envelope.$Properties instead.
         */
        interface IEnvelope extends stemma.v1.Envelope.$Properties {
        }

        /** Represents an Envelope. */
        class Envelope {

            /**
             * Constructs a new Envelope.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.Envelope.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** Envelope protocol. */
            protocol: number;

            /** Envelope session. */
            session: number;

            /** Envelope sequence. */
            sequence: number;

            /** Envelope correlation. */
            correlation: string;

            /** Envelope expiresMs. */
            expiresMs: number;

            /** Envelope signature. */
            signature: Uint8Array;

            /** Envelope issuedMs. */
            issuedMs: number;

            /** Envelope state. */
            state?: (stemma.v1.State.$Properties|null);

            /** Envelope birth. */
            birth?: (stemma.v1.Birth.$Properties|null);

            /** Envelope welcome. */
            welcome?: (stemma.v1.Welcome.$Properties|null);

            /** Envelope announce. */
            announce?: (stemma.v1.Announce.$Properties|null);

            /** Envelope want. */
            want?: (stemma.v1.Want.$Properties|null);

            /** Envelope manifest. */
            manifest?: (stemma.v1.ManifestPart.$Properties|null);

            /** Envelope blockRequest. */
            blockRequest?: (stemma.v1.BlockRequest.$Properties|null);

            /** Envelope block. */
            block?: (stemma.v1.Block.$Properties|null);

            /** Envelope receipt. */
            receipt?: (stemma.v1.Receipt.$Properties|null);

            /** Envelope refusal. */
            refusal?: (stemma.v1.Refusal.$Properties|null);

            /** Envelope activated. */
            activated?: (stemma.v1.Activated.$Properties|null);

            /** Envelope offer. */
            offer?: (stemma.v1.Offer.$Properties|null);

            /** Envelope fetch. */
            fetch?: (stemma.v1.Fetch.$Properties|null);

            /** Envelope command. */
            command?: (stemma.v1.Command.$Properties|null);

            /** Envelope commandResult. */
            commandResult?: (stemma.v1.CommandResult.$Properties|null);

            /** Envelope transferDone. */
            transferDone?: (stemma.v1.TransferDone.$Properties|null);

            /** Envelope parked. */
            parked?: (stemma.v1.Parked.$Properties|null);

            /** Envelope event. */
            event?: (stemma.v1.Event.$Properties|null);

            /** Envelope ownerTime. */
            ownerTime?: (stemma.v1.OwnerTime.$Properties|null);

            /** Envelope releasePart. */
            releasePart?: (stemma.v1.ReleasePart.$Properties|null);

            /** Envelope activationReceipt. */
            activationReceipt?: (stemma.v1.ActivationReceipt.$Properties|null);

            /** Envelope body. */
            body?: ("state"|"birth"|"welcome"|"announce"|"want"|"manifest"|"blockRequest"|"block"|"receipt"|"refusal"|"activated"|"offer"|"fetch"|"command"|"commandResult"|"transferDone"|"parked"|"event"|"ownerTime"|"releasePart"|"activationReceipt");

            /**
             * Creates a new Envelope instance using the specified properties.
             * @param [properties] Properties to set
             * @returns Envelope instance
             */
            static create(properties: stemma.v1.Envelope.$Shape): stemma.v1.Envelope & stemma.v1.Envelope.$Shape;
            static create(properties?: stemma.v1.Envelope.$Properties): stemma.v1.Envelope;

            /**
             * Encodes the specified Envelope message. Does not implicitly {@link stemma.v1.Envelope.verify|verify} messages.
             * @param message Envelope message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.Envelope.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes an Envelope message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.Envelope & stemma.v1.Envelope.$Shape} Envelope
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.Envelope & stemma.v1.Envelope.$Shape;
        }

        namespace Envelope {

            /** Properties of an Envelope. */
            interface $Properties {

                /** Envelope protocol */
                protocol?: (number|null);

                /** Envelope session */
                session?: (number|null);

                /** Envelope sequence */
                sequence?: (number|null);

                /** Envelope correlation */
                correlation?: (string|null);

                /** Envelope expiresMs */
                expiresMs?: (number|null);

                /** Envelope signature */
                signature?: (Uint8Array|null);

                /** Envelope issuedMs */
                issuedMs?: (number|null);

                /** Envelope state */
                state?: (stemma.v1.State.$Properties|null);

                /** Envelope birth */
                birth?: (stemma.v1.Birth.$Properties|null);

                /** Envelope welcome */
                welcome?: (stemma.v1.Welcome.$Properties|null);

                /** Envelope announce */
                announce?: (stemma.v1.Announce.$Properties|null);

                /** Envelope want */
                want?: (stemma.v1.Want.$Properties|null);

                /** Envelope manifest */
                manifest?: (stemma.v1.ManifestPart.$Properties|null);

                /** Envelope blockRequest */
                blockRequest?: (stemma.v1.BlockRequest.$Properties|null);

                /** Envelope block */
                block?: (stemma.v1.Block.$Properties|null);

                /** Envelope receipt */
                receipt?: (stemma.v1.Receipt.$Properties|null);

                /** Envelope refusal */
                refusal?: (stemma.v1.Refusal.$Properties|null);

                /** Envelope activated */
                activated?: (stemma.v1.Activated.$Properties|null);

                /** Envelope offer */
                offer?: (stemma.v1.Offer.$Properties|null);

                /** Envelope fetch */
                fetch?: (stemma.v1.Fetch.$Properties|null);

                /** Envelope command */
                command?: (stemma.v1.Command.$Properties|null);

                /** Envelope commandResult */
                commandResult?: (stemma.v1.CommandResult.$Properties|null);

                /** Envelope transferDone */
                transferDone?: (stemma.v1.TransferDone.$Properties|null);

                /** Envelope parked */
                parked?: (stemma.v1.Parked.$Properties|null);

                /** Envelope event */
                event?: (stemma.v1.Event.$Properties|null);

                /** Envelope ownerTime */
                ownerTime?: (stemma.v1.OwnerTime.$Properties|null);

                /** Envelope releasePart */
                releasePart?: (stemma.v1.ReleasePart.$Properties|null);

                /** Envelope activationReceipt */
                activationReceipt?: (stemma.v1.ActivationReceipt.$Properties|null);

                /** Envelope body */
                body?: ("state"|"birth"|"welcome"|"announce"|"want"|"manifest"|"blockRequest"|"block"|"receipt"|"refusal"|"activated"|"offer"|"fetch"|"command"|"commandResult"|"transferDone"|"parked"|"event"|"ownerTime"|"releasePart"|"activationReceipt");

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Narrowed shape of an Envelope. */
            type $Shape = {
              protocol?: number|null;
              session?: number|null;
              sequence?: number|null;
              correlation?: string|null;
              expiresMs?: number|null;
              signature?: Uint8Array|null;
              issuedMs?: number|null;
              state?: stemma.v1.State.$Shape|null;
              birth?: stemma.v1.Birth.$Shape|null;
              welcome?: stemma.v1.Welcome.$Shape|null;
              announce?: stemma.v1.Announce.$Shape|null;
              want?: stemma.v1.Want.$Shape|null;
              manifest?: stemma.v1.ManifestPart.$Shape|null;
              blockRequest?: stemma.v1.BlockRequest.$Shape|null;
              block?: stemma.v1.Block.$Shape|null;
              receipt?: stemma.v1.Receipt.$Shape|null;
              refusal?: stemma.v1.Refusal.$Shape|null;
              activated?: stemma.v1.Activated.$Shape|null;
              offer?: stemma.v1.Offer.$Shape|null;
              fetch?: stemma.v1.Fetch.$Shape|null;
              command?: stemma.v1.Command.$Shape|null;
              commandResult?: stemma.v1.CommandResult.$Shape|null;
              transferDone?: stemma.v1.TransferDone.$Shape|null;
              parked?: stemma.v1.Parked.$Shape|null;
              event?: stemma.v1.Event.$Shape|null;
              ownerTime?: stemma.v1.OwnerTime.$Shape|null;
              releasePart?: stemma.v1.ReleasePart.$Shape|null;
              activationReceipt?: stemma.v1.ActivationReceipt.$Shape|null;
              $unknowns?: Uint8Array[];
            } & (
              ({ body?: undefined; state?: null; birth?: null; welcome?: null; announce?: null; want?: null; manifest?: null; blockRequest?: null; block?: null; receipt?: null; refusal?: null; activated?: null; offer?: null; fetch?: null; command?: null; commandResult?: null; transferDone?: null; parked?: null; event?: null; ownerTime?: null; releasePart?: null; activationReceipt?: null }|{ body?: "state"; state: stemma.v1.State.$Shape; birth?: null; welcome?: null; announce?: null; want?: null; manifest?: null; blockRequest?: null; block?: null; receipt?: null; refusal?: null; activated?: null; offer?: null; fetch?: null; command?: null; commandResult?: null; transferDone?: null; parked?: null; event?: null; ownerTime?: null; releasePart?: null; activationReceipt?: null }|{ body?: "birth"; state?: null; birth: stemma.v1.Birth.$Shape; welcome?: null; announce?: null; want?: null; manifest?: null; blockRequest?: null; block?: null; receipt?: null; refusal?: null; activated?: null; offer?: null; fetch?: null; command?: null; commandResult?: null; transferDone?: null; parked?: null; event?: null; ownerTime?: null; releasePart?: null; activationReceipt?: null }|{ body?: "welcome"; state?: null; birth?: null; welcome: stemma.v1.Welcome.$Shape; announce?: null; want?: null; manifest?: null; blockRequest?: null; block?: null; receipt?: null; refusal?: null; activated?: null; offer?: null; fetch?: null; command?: null; commandResult?: null; transferDone?: null; parked?: null; event?: null; ownerTime?: null; releasePart?: null; activationReceipt?: null }|{ body?: "announce"; state?: null; birth?: null; welcome?: null; announce: stemma.v1.Announce.$Shape; want?: null; manifest?: null; blockRequest?: null; block?: null; receipt?: null; refusal?: null; activated?: null; offer?: null; fetch?: null; command?: null; commandResult?: null; transferDone?: null; parked?: null; event?: null; ownerTime?: null; releasePart?: null; activationReceipt?: null }|{ body?: "want"; state?: null; birth?: null; welcome?: null; announce?: null; want: stemma.v1.Want.$Shape; manifest?: null; blockRequest?: null; block?: null; receipt?: null; refusal?: null; activated?: null; offer?: null; fetch?: null; command?: null; commandResult?: null; transferDone?: null; parked?: null; event?: null; ownerTime?: null; releasePart?: null; activationReceipt?: null }|{ body?: "manifest"; state?: null; birth?: null; welcome?: null; announce?: null; want?: null; manifest: stemma.v1.ManifestPart.$Shape; blockRequest?: null; block?: null; receipt?: null; refusal?: null; activated?: null; offer?: null; fetch?: null; command?: null; commandResult?: null; transferDone?: null; parked?: null; event?: null; ownerTime?: null; releasePart?: null; activationReceipt?: null }|{ body?: "blockRequest"; state?: null; birth?: null; welcome?: null; announce?: null; want?: null; manifest?: null; blockRequest: stemma.v1.BlockRequest.$Shape; block?: null; receipt?: null; refusal?: null; activated?: null; offer?: null; fetch?: null; command?: null; commandResult?: null; transferDone?: null; parked?: null; event?: null; ownerTime?: null; releasePart?: null; activationReceipt?: null }|{ body?: "block"; state?: null; birth?: null; welcome?: null; announce?: null; want?: null; manifest?: null; blockRequest?: null; block: stemma.v1.Block.$Shape; receipt?: null; refusal?: null; activated?: null; offer?: null; fetch?: null; command?: null; commandResult?: null; transferDone?: null; parked?: null; event?: null; ownerTime?: null; releasePart?: null; activationReceipt?: null }|{ body?: "receipt"; state?: null; birth?: null; welcome?: null; announce?: null; want?: null; manifest?: null; blockRequest?: null; block?: null; receipt: stemma.v1.Receipt.$Shape; refusal?: null; activated?: null; offer?: null; fetch?: null; command?: null; commandResult?: null; transferDone?: null; parked?: null; event?: null; ownerTime?: null; releasePart?: null; activationReceipt?: null }|{ body?: "refusal"; state?: null; birth?: null; welcome?: null; announce?: null; want?: null; manifest?: null; blockRequest?: null; block?: null; receipt?: null; refusal: stemma.v1.Refusal.$Shape; activated?: null; offer?: null; fetch?: null; command?: null; commandResult?: null; transferDone?: null; parked?: null; event?: null; ownerTime?: null; releasePart?: null; activationReceipt?: null }|{ body?: "activated"; state?: null; birth?: null; welcome?: null; announce?: null; want?: null; manifest?: null; blockRequest?: null; block?: null; receipt?: null; refusal?: null; activated: stemma.v1.Activated.$Shape; offer?: null; fetch?: null; command?: null; commandResult?: null; transferDone?: null; parked?: null; event?: null; ownerTime?: null; releasePart?: null; activationReceipt?: null }|{ body?: "offer"; state?: null; birth?: null; welcome?: null; announce?: null; want?: null; manifest?: null; blockRequest?: null; block?: null; receipt?: null; refusal?: null; activated?: null; offer: stemma.v1.Offer.$Shape; fetch?: null; command?: null; commandResult?: null; transferDone?: null; parked?: null; event?: null; ownerTime?: null; releasePart?: null; activationReceipt?: null }|{ body?: "fetch"; state?: null; birth?: null; welcome?: null; announce?: null; want?: null; manifest?: null; blockRequest?: null; block?: null; receipt?: null; refusal?: null; activated?: null; offer?: null; fetch: stemma.v1.Fetch.$Shape; command?: null; commandResult?: null; transferDone?: null; parked?: null; event?: null; ownerTime?: null; releasePart?: null; activationReceipt?: null }|{ body?: "command"; state?: null; birth?: null; welcome?: null; announce?: null; want?: null; manifest?: null; blockRequest?: null; block?: null; receipt?: null; refusal?: null; activated?: null; offer?: null; fetch?: null; command: stemma.v1.Command.$Shape; commandResult?: null; transferDone?: null; parked?: null; event?: null; ownerTime?: null; releasePart?: null; activationReceipt?: null }|{ body?: "commandResult"; state?: null; birth?: null; welcome?: null; announce?: null; want?: null; manifest?: null; blockRequest?: null; block?: null; receipt?: null; refusal?: null; activated?: null; offer?: null; fetch?: null; command?: null; commandResult: stemma.v1.CommandResult.$Shape; transferDone?: null; parked?: null; event?: null; ownerTime?: null; releasePart?: null; activationReceipt?: null }|{ body?: "transferDone"; state?: null; birth?: null; welcome?: null; announce?: null; want?: null; manifest?: null; blockRequest?: null; block?: null; receipt?: null; refusal?: null; activated?: null; offer?: null; fetch?: null; command?: null; commandResult?: null; transferDone: stemma.v1.TransferDone.$Shape; parked?: null; event?: null; ownerTime?: null; releasePart?: null; activationReceipt?: null }|{ body?: "parked"; state?: null; birth?: null; welcome?: null; announce?: null; want?: null; manifest?: null; blockRequest?: null; block?: null; receipt?: null; refusal?: null; activated?: null; offer?: null; fetch?: null; command?: null; commandResult?: null; transferDone?: null; parked: stemma.v1.Parked.$Shape; event?: null; ownerTime?: null; releasePart?: null; activationReceipt?: null }|{ body?: "event"; state?: null; birth?: null; welcome?: null; announce?: null; want?: null; manifest?: null; blockRequest?: null; block?: null; receipt?: null; refusal?: null; activated?: null; offer?: null; fetch?: null; command?: null; commandResult?: null; transferDone?: null; parked?: null; event: stemma.v1.Event.$Shape; ownerTime?: null; releasePart?: null; activationReceipt?: null }|{ body?: "ownerTime"; state?: null; birth?: null; welcome?: null; announce?: null; want?: null; manifest?: null; blockRequest?: null; block?: null; receipt?: null; refusal?: null; activated?: null; offer?: null; fetch?: null; command?: null; commandResult?: null; transferDone?: null; parked?: null; event?: null; ownerTime: stemma.v1.OwnerTime.$Shape; releasePart?: null; activationReceipt?: null }|{ body?: "releasePart"; state?: null; birth?: null; welcome?: null; announce?: null; want?: null; manifest?: null; blockRequest?: null; block?: null; receipt?: null; refusal?: null; activated?: null; offer?: null; fetch?: null; command?: null; commandResult?: null; transferDone?: null; parked?: null; event?: null; ownerTime?: null; releasePart: stemma.v1.ReleasePart.$Shape; activationReceipt?: null }|{ body?: "activationReceipt"; state?: null; birth?: null; welcome?: null; announce?: null; want?: null; manifest?: null; blockRequest?: null; block?: null; receipt?: null; refusal?: null; activated?: null; offer?: null; fetch?: null; command?: null; commandResult?: null; transferDone?: null; parked?: null; event?: null; ownerTime?: null; releasePart?: null; activationReceipt: stemma.v1.ActivationReceipt.$Shape })
            );
        }

        /**
         * Properties of a State.
         * @deprecated Use stemma.v1.State.$Properties instead.
         */
        interface IState extends stemma.v1.State.$Properties {
        }

        /** Represents a State. */
        class State {

            /**
             * Constructs a new State.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.State.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** State online. */
            online: boolean;

            /** State previousSession. */
            previousSession: number;

            /** State generation. */
            generation: number;

            /** State signature. */
            signature: Uint8Array;

            /**
             * Creates a new State instance using the specified properties.
             * @param [properties] Properties to set
             * @returns State instance
             */
            static create(properties: stemma.v1.State.$Shape): stemma.v1.State & stemma.v1.State.$Shape;
            static create(properties?: stemma.v1.State.$Properties): stemma.v1.State;

            /**
             * Encodes the specified State message. Does not implicitly {@link stemma.v1.State.verify|verify} messages.
             * @param message State message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.State.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes a State message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.State & stemma.v1.State.$Shape} State
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.State & stemma.v1.State.$Shape;
        }

        namespace State {

            /** Properties of a State. */
            interface $Properties {

                /** State online */
                online?: (boolean|null);

                /** State previousSession */
                previousSession?: (number|null);

                /** State generation */
                generation?: (number|null);

                /** State signature */
                signature?: (Uint8Array|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of a State. */
            type $Shape = stemma.v1.State.$Properties;
        }

        /**
         * Properties of a Birth.
         * @deprecated Use stemma.v1.Birth.$Properties instead.
         */
        interface IBirth extends stemma.v1.Birth.$Properties {
        }

        /** Represents a Birth. */
        class Birth {

            /**
             * Constructs a new Birth.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.Birth.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** Birth agentVersion. */
            agentVersion: string;

            /** Birth profile. */
            profile: string;

            /** Birth runtime. */
            runtime: string;

            /** Birth oldestProtocol. */
            oldestProtocol: number;

            /** Birth heads. */
            heads: stemma.v1.LineHead.$Properties[];

            /** Birth seenJournalLength. */
            seenJournalLength: number;

            /** Birth seenJournalChain. */
            seenJournalChain: Uint8Array;

            /** Birth unreleased. */
            unreleased: number;

            /** Birth clockMs. */
            clockMs: number;

            /** Birth clockErrorMs. */
            clockErrorMs: number;

            /** Birth generation. */
            generation: number;

            /** Birth seenJournalRoot. */
            seenJournalRoot: Uint8Array;

            /** Birth releaseSet. */
            releaseSet: Uint8Array;

            /** Birth releasePolicy. */
            releasePolicy: string;

            /** Birth restoresFrom. */
            restoresFrom: number;

            /**
             * Creates a new Birth instance using the specified properties.
             * @param [properties] Properties to set
             * @returns Birth instance
             */
            static create(properties: stemma.v1.Birth.$Shape): stemma.v1.Birth & stemma.v1.Birth.$Shape;
            static create(properties?: stemma.v1.Birth.$Properties): stemma.v1.Birth;

            /**
             * Encodes the specified Birth message. Does not implicitly {@link stemma.v1.Birth.verify|verify} messages.
             * @param message Birth message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.Birth.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes a Birth message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.Birth & stemma.v1.Birth.$Shape} Birth
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.Birth & stemma.v1.Birth.$Shape;
        }

        namespace Birth {

            /** Properties of a Birth. */
            interface $Properties {

                /** Birth agentVersion */
                agentVersion?: (string|null);

                /** Birth profile */
                profile?: (string|null);

                /** Birth runtime */
                runtime?: (string|null);

                /** Birth oldestProtocol */
                oldestProtocol?: (number|null);

                /** Birth heads */
                heads?: (stemma.v1.LineHead.$Properties[]|null);

                /** Birth seenJournalLength */
                seenJournalLength?: (number|null);

                /** Birth seenJournalChain */
                seenJournalChain?: (Uint8Array|null);

                /** Birth unreleased */
                unreleased?: (number|null);

                /** Birth clockMs */
                clockMs?: (number|null);

                /** Birth clockErrorMs */
                clockErrorMs?: (number|null);

                /** Birth generation */
                generation?: (number|null);

                /** Birth seenJournalRoot */
                seenJournalRoot?: (Uint8Array|null);

                /** Birth releaseSet */
                releaseSet?: (Uint8Array|null);

                /** Birth releasePolicy */
                releasePolicy?: (string|null);

                /** Birth restoresFrom */
                restoresFrom?: (number|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of a Birth. */
            type $Shape = stemma.v1.Birth.$Properties;
        }

        /**
         * Properties of a LineHead.
         * @deprecated Use stemma.v1.LineHead.$Properties instead.
         */
        interface ILineHead extends stemma.v1.LineHead.$Properties {
        }

        /** Represents a LineHead. */
        class LineHead {

            /**
             * Constructs a new LineHead.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.LineHead.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** LineHead line. */
            line: string;

            /** LineHead sequence. */
            sequence: number;

            /** LineHead versionId. */
            versionId: Uint8Array;

            /** LineHead activeVersionId. */
            activeVersionId: Uint8Array;

            /** LineHead activeNumber. */
            activeNumber: number;

            /**
             * Creates a new LineHead instance using the specified properties.
             * @param [properties] Properties to set
             * @returns LineHead instance
             */
            static create(properties: stemma.v1.LineHead.$Shape): stemma.v1.LineHead & stemma.v1.LineHead.$Shape;
            static create(properties?: stemma.v1.LineHead.$Properties): stemma.v1.LineHead;

            /**
             * Encodes the specified LineHead message. Does not implicitly {@link stemma.v1.LineHead.verify|verify} messages.
             * @param message LineHead message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.LineHead.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes a LineHead message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.LineHead & stemma.v1.LineHead.$Shape} LineHead
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.LineHead & stemma.v1.LineHead.$Shape;
        }

        namespace LineHead {

            /** Properties of a LineHead. */
            interface $Properties {

                /** LineHead line */
                line?: (string|null);

                /** LineHead sequence */
                sequence?: (number|null);

                /** LineHead versionId */
                versionId?: (Uint8Array|null);

                /** LineHead activeVersionId */
                activeVersionId?: (Uint8Array|null);

                /** LineHead activeNumber */
                activeNumber?: (number|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of a LineHead. */
            type $Shape = stemma.v1.LineHead.$Properties;
        }

        /**
         * Properties of a Welcome.
         * @deprecated Use stemma.v1.Welcome.$Properties instead.
         */
        interface IWelcome extends stemma.v1.Welcome.$Properties {
        }

        /** Represents a Welcome. */
        class Welcome {

            /**
             * Constructs a new Welcome.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.Welcome.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** Welcome serverVersion. */
            serverVersion: string;

            /** Welcome protocol. */
            protocol: number;

            /** Welcome head. */
            head?: (stemma.v1.SignedHead.$Properties|null);

            /** Welcome clockMs. */
            clockMs: number;

            /** Welcome restored. */
            restored: boolean;

            /** Welcome restoredPosition. */
            restoredPosition: number;

            /** Welcome known. */
            known: stemma.v1.LineHead.$Properties[];

            /** Welcome blockBytes. */
            blockBytes: number;

            /** Welcome window. */
            window: number;

            /** Welcome start. */
            start?: (stemma.v1.StartProof.$Properties|null);

            /** Welcome restores. */
            restores: stemma.v1.ProvenFact.$Properties[];

            /** Welcome restoresFrom. */
            restoresFrom: number;

            /** Welcome moreRestores. */
            moreRestores: boolean;

            /**
             * Creates a new Welcome instance using the specified properties.
             * @param [properties] Properties to set
             * @returns Welcome instance
             */
            static create(properties: stemma.v1.Welcome.$Shape): stemma.v1.Welcome & stemma.v1.Welcome.$Shape;
            static create(properties?: stemma.v1.Welcome.$Properties): stemma.v1.Welcome;

            /**
             * Encodes the specified Welcome message. Does not implicitly {@link stemma.v1.Welcome.verify|verify} messages.
             * @param message Welcome message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.Welcome.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes a Welcome message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.Welcome & stemma.v1.Welcome.$Shape} Welcome
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.Welcome & stemma.v1.Welcome.$Shape;
        }

        namespace Welcome {

            /** Properties of a Welcome. */
            interface $Properties {

                /** Welcome serverVersion */
                serverVersion?: (string|null);

                /** Welcome protocol */
                protocol?: (number|null);

                /** Welcome head */
                head?: (stemma.v1.SignedHead.$Properties|null);

                /** Welcome clockMs */
                clockMs?: (number|null);

                /** Welcome restored */
                restored?: (boolean|null);

                /** Welcome restoredPosition */
                restoredPosition?: (number|null);

                /** Welcome known */
                known?: (stemma.v1.LineHead.$Properties[]|null);

                /** Welcome blockBytes */
                blockBytes?: (number|null);

                /** Welcome window */
                window?: (number|null);

                /** Welcome start */
                start?: (stemma.v1.StartProof.$Properties|null);

                /** Welcome restores */
                restores?: (stemma.v1.ProvenFact.$Properties[]|null);

                /** Welcome restoresFrom */
                restoresFrom?: (number|null);

                /** Welcome moreRestores */
                moreRestores?: (boolean|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of a Welcome. */
            type $Shape = stemma.v1.Welcome.$Properties;
        }

        /**
         * Properties of a StartProof.
         * @deprecated Use stemma.v1.StartProof.$Properties instead.
         */
        interface IStartProof extends stemma.v1.StartProof.$Properties {
        }

        /** Represents a StartProof. */
        class StartProof {

            /**
             * Constructs a new StartProof.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.StartProof.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** StartProof length. */
            length: number;

            /** StartProof hashes. */
            hashes: Uint8Array;

            /**
             * Creates a new StartProof instance using the specified properties.
             * @param [properties] Properties to set
             * @returns StartProof instance
             */
            static create(properties: stemma.v1.StartProof.$Shape): stemma.v1.StartProof & stemma.v1.StartProof.$Shape;
            static create(properties?: stemma.v1.StartProof.$Properties): stemma.v1.StartProof;

            /**
             * Encodes the specified StartProof message. Does not implicitly {@link stemma.v1.StartProof.verify|verify} messages.
             * @param message StartProof message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.StartProof.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes a StartProof message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.StartProof & stemma.v1.StartProof.$Shape} StartProof
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.StartProof & stemma.v1.StartProof.$Shape;
        }

        namespace StartProof {

            /** Properties of a StartProof. */
            interface $Properties {

                /** StartProof length */
                length?: (number|null);

                /** StartProof hashes */
                hashes?: (Uint8Array|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of a StartProof. */
            type $Shape = stemma.v1.StartProof.$Properties;
        }

        /**
         * Properties of a ProvenFact.
         * @deprecated Use stemma.v1.ProvenFact.$Properties instead.
         */
        interface IProvenFact extends stemma.v1.ProvenFact.$Properties {
        }

        /** Represents a ProvenFact. */
        class ProvenFact {

            /**
             * Constructs a new ProvenFact.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.ProvenFact.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** ProvenFact position. */
            position: number;

            /** ProvenFact entry. */
            entry: Uint8Array;

            /** ProvenFact hashes. */
            hashes: Uint8Array;

            /** ProvenFact approval. */
            approval?: (stemma.v1.RestoreApproval.$Properties|null);

            /**
             * Creates a new ProvenFact instance using the specified properties.
             * @param [properties] Properties to set
             * @returns ProvenFact instance
             */
            static create(properties: stemma.v1.ProvenFact.$Shape): stemma.v1.ProvenFact & stemma.v1.ProvenFact.$Shape;
            static create(properties?: stemma.v1.ProvenFact.$Properties): stemma.v1.ProvenFact;

            /**
             * Encodes the specified ProvenFact message. Does not implicitly {@link stemma.v1.ProvenFact.verify|verify} messages.
             * @param message ProvenFact message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.ProvenFact.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes a ProvenFact message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.ProvenFact & stemma.v1.ProvenFact.$Shape} ProvenFact
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.ProvenFact & stemma.v1.ProvenFact.$Shape;
        }

        namespace ProvenFact {

            /** Properties of a ProvenFact. */
            interface $Properties {

                /** ProvenFact position */
                position?: (number|null);

                /** ProvenFact entry */
                entry?: (Uint8Array|null);

                /** ProvenFact hashes */
                hashes?: (Uint8Array|null);

                /** ProvenFact approval */
                approval?: (stemma.v1.RestoreApproval.$Properties|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of a ProvenFact. */
            type $Shape = stemma.v1.ProvenFact.$Properties;
        }

        /**
         * Properties of a RestoreApproval.
         * @deprecated Use stemma.v1.RestoreApproval.$Properties instead.
         */
        interface IRestoreApproval extends stemma.v1.RestoreApproval.$Properties {
        }

        /** Represents a RestoreApproval. */
        class RestoreApproval {

            /**
             * Constructs a new RestoreApproval.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.RestoreApproval.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** RestoreApproval text. */
            text: string;

            /** RestoreApproval hashes. */
            hashes: Uint8Array;

            /**
             * Creates a new RestoreApproval instance using the specified properties.
             * @param [properties] Properties to set
             * @returns RestoreApproval instance
             */
            static create(properties: stemma.v1.RestoreApproval.$Shape): stemma.v1.RestoreApproval & stemma.v1.RestoreApproval.$Shape;
            static create(properties?: stemma.v1.RestoreApproval.$Properties): stemma.v1.RestoreApproval;

            /**
             * Encodes the specified RestoreApproval message. Does not implicitly {@link stemma.v1.RestoreApproval.verify|verify} messages.
             * @param message RestoreApproval message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.RestoreApproval.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes a RestoreApproval message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.RestoreApproval & stemma.v1.RestoreApproval.$Shape} RestoreApproval
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.RestoreApproval & stemma.v1.RestoreApproval.$Shape;
        }

        namespace RestoreApproval {

            /** Properties of a RestoreApproval. */
            interface $Properties {

                /** RestoreApproval text */
                text?: (string|null);

                /** RestoreApproval hashes */
                hashes?: (Uint8Array|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of a RestoreApproval. */
            type $Shape = stemma.v1.RestoreApproval.$Properties;
        }

        /**
         * Properties of a SignedHead.
         * @deprecated Use stemma.v1.SignedHead.$Properties instead.
         */
        interface ISignedHead extends stemma.v1.SignedHead.$Properties {
        }

        /** Represents a SignedHead. */
        class SignedHead {

            /**
             * Constructs a new SignedHead.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.SignedHead.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** SignedHead length. */
            length: number;

            /** SignedHead chain. */
            chain: Uint8Array;

            /** SignedHead root. */
            root: Uint8Array;

            /** SignedHead publicKey. */
            publicKey: Uint8Array;

            /** SignedHead signature. */
            signature: Uint8Array;

            /**
             * Creates a new SignedHead instance using the specified properties.
             * @param [properties] Properties to set
             * @returns SignedHead instance
             */
            static create(properties: stemma.v1.SignedHead.$Shape): stemma.v1.SignedHead & stemma.v1.SignedHead.$Shape;
            static create(properties?: stemma.v1.SignedHead.$Properties): stemma.v1.SignedHead;

            /**
             * Encodes the specified SignedHead message. Does not implicitly {@link stemma.v1.SignedHead.verify|verify} messages.
             * @param message SignedHead message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.SignedHead.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes a SignedHead message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.SignedHead & stemma.v1.SignedHead.$Shape} SignedHead
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.SignedHead & stemma.v1.SignedHead.$Shape;
        }

        namespace SignedHead {

            /** Properties of a SignedHead. */
            interface $Properties {

                /** SignedHead length */
                length?: (number|null);

                /** SignedHead chain */
                chain?: (Uint8Array|null);

                /** SignedHead root */
                root?: (Uint8Array|null);

                /** SignedHead publicKey */
                publicKey?: (Uint8Array|null);

                /** SignedHead signature */
                signature?: (Uint8Array|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of a SignedHead. */
            type $Shape = stemma.v1.SignedHead.$Properties;
        }

        /**
         * Properties of an Announce.
         * @deprecated Use stemma.v1.Announce.$Properties instead.
         */
        interface IAnnounce extends stemma.v1.Announce.$Properties {
        }

        /** Represents an Announce. */
        class Announce {

            /**
             * Constructs a new Announce.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.Announce.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** Announce record. */
            record: Uint8Array;

            /** Announce signature. */
            signature: Uint8Array;

            /** Announce objects. */
            objects: stemma.v1.SmallObject.$Properties[];

            /** Announce tensorBytes. */
            tensorBytes: number;

            /** Announce streamedBytes. */
            streamedBytes: number[];

            /** Announce usesTensorBytes. */
            usesTensorBytes: number;

            /** Announce claim. */
            claim: boolean;

            /**
             * Creates a new Announce instance using the specified properties.
             * @param [properties] Properties to set
             * @returns Announce instance
             */
            static create(properties: stemma.v1.Announce.$Shape): stemma.v1.Announce & stemma.v1.Announce.$Shape;
            static create(properties?: stemma.v1.Announce.$Properties): stemma.v1.Announce;

            /**
             * Encodes the specified Announce message. Does not implicitly {@link stemma.v1.Announce.verify|verify} messages.
             * @param message Announce message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.Announce.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes an Announce message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.Announce & stemma.v1.Announce.$Shape} Announce
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.Announce & stemma.v1.Announce.$Shape;
        }

        namespace Announce {

            /** Properties of an Announce. */
            interface $Properties {

                /** Announce record */
                record?: (Uint8Array|null);

                /** Announce signature */
                signature?: (Uint8Array|null);

                /** Announce objects */
                objects?: (stemma.v1.SmallObject.$Properties[]|null);

                /** Announce tensorBytes */
                tensorBytes?: (number|null);

                /** Announce streamedBytes */
                streamedBytes?: (number[]|null);

                /** Announce usesTensorBytes */
                usesTensorBytes?: (number|null);

                /** Announce claim */
                claim?: (boolean|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of an Announce. */
            type $Shape = stemma.v1.Announce.$Properties;
        }

        /**
         * Properties of a SmallObject.
         * @deprecated Use stemma.v1.SmallObject.$Properties instead.
         */
        interface ISmallObject extends stemma.v1.SmallObject.$Properties {
        }

        /** Represents a SmallObject. */
        class SmallObject {

            /**
             * Constructs a new SmallObject.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.SmallObject.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** SmallObject kind. */
            kind: string;

            /** SmallObject data. */
            data: Uint8Array;

            /**
             * Creates a new SmallObject instance using the specified properties.
             * @param [properties] Properties to set
             * @returns SmallObject instance
             */
            static create(properties: stemma.v1.SmallObject.$Shape): stemma.v1.SmallObject & stemma.v1.SmallObject.$Shape;
            static create(properties?: stemma.v1.SmallObject.$Properties): stemma.v1.SmallObject;

            /**
             * Encodes the specified SmallObject message. Does not implicitly {@link stemma.v1.SmallObject.verify|verify} messages.
             * @param message SmallObject message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.SmallObject.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes a SmallObject message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.SmallObject & stemma.v1.SmallObject.$Shape} SmallObject
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.SmallObject & stemma.v1.SmallObject.$Shape;
        }

        namespace SmallObject {

            /** Properties of a SmallObject. */
            interface $Properties {

                /** SmallObject kind */
                kind?: (string|null);

                /** SmallObject data */
                data?: (Uint8Array|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of a SmallObject. */
            type $Shape = stemma.v1.SmallObject.$Properties;
        }

        /**
         * Properties of an ObjectRef.
         * @deprecated Use stemma.v1.ObjectRef.$Properties instead.
         */
        interface IObjectRef extends stemma.v1.ObjectRef.$Properties {
        }

        /** Represents an ObjectRef. */
        class ObjectRef {

            /**
             * Constructs a new ObjectRef.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.ObjectRef.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** ObjectRef kind. */
            kind: string;

            /** ObjectRef id. */
            id: Uint8Array;

            /** ObjectRef byteLength. */
            byteLength: number;

            /**
             * Creates a new ObjectRef instance using the specified properties.
             * @param [properties] Properties to set
             * @returns ObjectRef instance
             */
            static create(properties: stemma.v1.ObjectRef.$Shape): stemma.v1.ObjectRef & stemma.v1.ObjectRef.$Shape;
            static create(properties?: stemma.v1.ObjectRef.$Properties): stemma.v1.ObjectRef;

            /**
             * Encodes the specified ObjectRef message. Does not implicitly {@link stemma.v1.ObjectRef.verify|verify} messages.
             * @param message ObjectRef message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.ObjectRef.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes an ObjectRef message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.ObjectRef & stemma.v1.ObjectRef.$Shape} ObjectRef
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.ObjectRef & stemma.v1.ObjectRef.$Shape;
        }

        namespace ObjectRef {

            /** Properties of an ObjectRef. */
            interface $Properties {

                /** ObjectRef kind */
                kind?: (string|null);

                /** ObjectRef id */
                id?: (Uint8Array|null);

                /** ObjectRef byteLength */
                byteLength?: (number|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of an ObjectRef. */
            type $Shape = stemma.v1.ObjectRef.$Properties;
        }

        /**
         * Properties of a Want.
         * @deprecated Use stemma.v1.Want.$Properties instead.
         */
        interface IWant extends stemma.v1.Want.$Properties {
        }

        /** Represents a Want. */
        class Want {

            /**
             * Constructs a new Want.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.Want.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** Want reason. */
            reason: stemma.v1.Want.Reason;

            /** Want versionId. */
            versionId: Uint8Array;

            /** Want transfer. */
            transfer: string;

            /** Want objects. */
            objects: stemma.v1.ObjectRef.$Properties[];

            /** Want bases. */
            bases: Uint8Array[];

            /** Want blockBytes. */
            blockBytes: number;

            /** Want more. */
            more: boolean;

            /** Want part. */
            part: number;

            /** Want parts. */
            parts: number;

            /** Want tensorIndices. */
            tensorIndices: number[];

            /** Want codec. */
            codec: number;

            /** Want references. */
            references: Uint8Array[];

            /** Want streamBytes. */
            streamBytes: number;

            /** Want ownReferences. */
            ownReferences: boolean;

            /** Want optimizerReference. */
            optimizerReference: Uint8Array;

            /**
             * Creates a new Want instance using the specified properties.
             * @param [properties] Properties to set
             * @returns Want instance
             */
            static create(properties: stemma.v1.Want.$Shape): stemma.v1.Want & stemma.v1.Want.$Shape;
            static create(properties?: stemma.v1.Want.$Properties): stemma.v1.Want;

            /**
             * Encodes the specified Want message. Does not implicitly {@link stemma.v1.Want.verify|verify} messages.
             * @param message Want message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.Want.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes a Want message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.Want & stemma.v1.Want.$Shape} Want
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.Want & stemma.v1.Want.$Shape;
        }

        namespace Want {

            /** Properties of a Want. */
            interface $Properties {

                /** Want reason */
                reason?: (stemma.v1.Want.Reason|null);

                /** Want versionId */
                versionId?: (Uint8Array|null);

                /** Want transfer */
                transfer?: (string|null);

                /** Want objects */
                objects?: (stemma.v1.ObjectRef.$Properties[]|null);

                /** Want bases */
                bases?: (Uint8Array[]|null);

                /** Want blockBytes */
                blockBytes?: (number|null);

                /** Want more */
                more?: (boolean|null);

                /** Want part */
                part?: (number|null);

                /** Want parts */
                parts?: (number|null);

                /** Want tensorIndices */
                tensorIndices?: (number[]|null);

                /** Want codec */
                codec?: (number|null);

                /** Want references */
                references?: (Uint8Array[]|null);

                /** Want streamBytes */
                streamBytes?: (number|null);

                /** Want ownReferences */
                ownReferences?: (boolean|null);

                /** Want optimizerReference */
                optimizerReference?: (Uint8Array|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of a Want. */
            type $Shape = stemma.v1.Want.$Properties;

            /** Reason enum. */
            enum Reason {

                /** TENSORS value */
                TENSORS = 0,

                /** OBJECTS value */
                OBJECTS = 1,

                /** BASE value */
                BASE = 2,

                /** RAW value */
                RAW = 3
            }
        }

        /**
         * Properties of a ManifestPart.
         * @deprecated Use stemma.v1.ManifestPart.$Properties instead.
         */
        interface IManifestPart extends stemma.v1.ManifestPart.$Properties {
        }

        /** Represents a ManifestPart. */
        class ManifestPart {

            /**
             * Constructs a new ManifestPart.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.ManifestPart.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** ManifestPart transfer. */
            transfer: string;

            /** ManifestPart part. */
            part: number;

            /** ManifestPart parts. */
            parts: number;

            /** ManifestPart byteLength. */
            byteLength: number;

            /** ManifestPart blockBytes. */
            blockBytes: number;

            /** ManifestPart blockHashes. */
            blockHashes: Uint8Array;

            /** ManifestPart encodings. */
            encodings: stemma.v1.Encoding.$Properties[];

            /**
             * Creates a new ManifestPart instance using the specified properties.
             * @param [properties] Properties to set
             * @returns ManifestPart instance
             */
            static create(properties: stemma.v1.ManifestPart.$Shape): stemma.v1.ManifestPart & stemma.v1.ManifestPart.$Shape;
            static create(properties?: stemma.v1.ManifestPart.$Properties): stemma.v1.ManifestPart;

            /**
             * Encodes the specified ManifestPart message. Does not implicitly {@link stemma.v1.ManifestPart.verify|verify} messages.
             * @param message ManifestPart message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.ManifestPart.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes a ManifestPart message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.ManifestPart & stemma.v1.ManifestPart.$Shape} ManifestPart
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.ManifestPart & stemma.v1.ManifestPart.$Shape;
        }

        namespace ManifestPart {

            /** Properties of a ManifestPart. */
            interface $Properties {

                /** ManifestPart transfer */
                transfer?: (string|null);

                /** ManifestPart part */
                part?: (number|null);

                /** ManifestPart parts */
                parts?: (number|null);

                /** ManifestPart byteLength */
                byteLength?: (number|null);

                /** ManifestPart blockBytes */
                blockBytes?: (number|null);

                /** ManifestPart blockHashes */
                blockHashes?: (Uint8Array|null);

                /** ManifestPart encodings */
                encodings?: (stemma.v1.Encoding.$Properties[]|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of a ManifestPart. */
            type $Shape = stemma.v1.ManifestPart.$Properties;
        }

        /**
         * Properties of an Encoding.
         * @deprecated Use stemma.v1.Encoding.$Properties instead.
         */
        interface IEncoding extends stemma.v1.Encoding.$Properties {
        }

        /** Represents an Encoding. */
        class Encoding {

            /**
             * Constructs a new Encoding.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.Encoding.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** Encoding code. */
            code: number;

            /** Encoding byteLength. */
            byteLength: number;

            /** Encoding against. */
            against: Uint8Array;

            /** Encoding previous. */
            previous: Uint8Array;

            /** Encoding references. */
            references: Uint8Array[];

            /**
             * Creates a new Encoding instance using the specified properties.
             * @param [properties] Properties to set
             * @returns Encoding instance
             */
            static create(properties: stemma.v1.Encoding.$Shape): stemma.v1.Encoding & stemma.v1.Encoding.$Shape;
            static create(properties?: stemma.v1.Encoding.$Properties): stemma.v1.Encoding;

            /**
             * Encodes the specified Encoding message. Does not implicitly {@link stemma.v1.Encoding.verify|verify} messages.
             * @param message Encoding message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.Encoding.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes an Encoding message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.Encoding & stemma.v1.Encoding.$Shape} Encoding
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.Encoding & stemma.v1.Encoding.$Shape;
        }

        namespace Encoding {

            /** Properties of an Encoding. */
            interface $Properties {

                /** Encoding code */
                code?: (number|null);

                /** Encoding byteLength */
                byteLength?: (number|null);

                /** Encoding against */
                against?: (Uint8Array|null);

                /** Encoding previous */
                previous?: (Uint8Array|null);

                /** Encoding references */
                references?: (Uint8Array[]|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of an Encoding. */
            type $Shape = stemma.v1.Encoding.$Properties;
        }

        /**
         * Properties of a BlockRequest.
         * @deprecated Use stemma.v1.BlockRequest.$Properties instead.
         */
        interface IBlockRequest extends stemma.v1.BlockRequest.$Properties {
        }

        /** Represents a BlockRequest. */
        class BlockRequest {

            /**
             * Constructs a new BlockRequest.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.BlockRequest.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** BlockRequest transfer. */
            transfer: string;

            /** BlockRequest blocks. */
            blocks: number[];

            /** BlockRequest manifestParts. */
            manifestParts: number[];

            /**
             * Creates a new BlockRequest instance using the specified properties.
             * @param [properties] Properties to set
             * @returns BlockRequest instance
             */
            static create(properties: stemma.v1.BlockRequest.$Shape): stemma.v1.BlockRequest & stemma.v1.BlockRequest.$Shape;
            static create(properties?: stemma.v1.BlockRequest.$Properties): stemma.v1.BlockRequest;

            /**
             * Encodes the specified BlockRequest message. Does not implicitly {@link stemma.v1.BlockRequest.verify|verify} messages.
             * @param message BlockRequest message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.BlockRequest.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes a BlockRequest message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.BlockRequest & stemma.v1.BlockRequest.$Shape} BlockRequest
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.BlockRequest & stemma.v1.BlockRequest.$Shape;
        }

        namespace BlockRequest {

            /** Properties of a BlockRequest. */
            interface $Properties {

                /** BlockRequest transfer */
                transfer?: (string|null);

                /** BlockRequest blocks */
                blocks?: (number[]|null);

                /** BlockRequest manifestParts */
                manifestParts?: (number[]|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of a BlockRequest. */
            type $Shape = stemma.v1.BlockRequest.$Properties;
        }

        /**
         * Properties of a Block.
         * @deprecated Use stemma.v1.Block.$Properties instead.
         */
        interface IBlock extends stemma.v1.Block.$Properties {
        }

        /** Represents a Block. */
        class Block {

            /**
             * Constructs a new Block.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.Block.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** Block index. */
            index: number;

            /** Block data. */
            data: Uint8Array;

            /**
             * Creates a new Block instance using the specified properties.
             * @param [properties] Properties to set
             * @returns Block instance
             */
            static create(properties: stemma.v1.Block.$Shape): stemma.v1.Block & stemma.v1.Block.$Shape;
            static create(properties?: stemma.v1.Block.$Properties): stemma.v1.Block;

            /**
             * Encodes the specified Block message. Does not implicitly {@link stemma.v1.Block.verify|verify} messages.
             * @param message Block message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.Block.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes a Block message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.Block & stemma.v1.Block.$Shape} Block
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.Block & stemma.v1.Block.$Shape;
        }

        namespace Block {

            /** Properties of a Block. */
            interface $Properties {

                /** Block index */
                index?: (number|null);

                /** Block data */
                data?: (Uint8Array|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of a Block. */
            type $Shape = stemma.v1.Block.$Properties;
        }

        /**
         * Properties of a TransferDone.
         * @deprecated Use stemma.v1.TransferDone.$Properties instead.
         */
        interface ITransferDone extends stemma.v1.TransferDone.$Properties {
        }

        /** Represents a TransferDone. */
        class TransferDone {

            /**
             * Constructs a new TransferDone.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.TransferDone.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** TransferDone transfer. */
            transfer: string;

            /**
             * Creates a new TransferDone instance using the specified properties.
             * @param [properties] Properties to set
             * @returns TransferDone instance
             */
            static create(properties: stemma.v1.TransferDone.$Shape): stemma.v1.TransferDone & stemma.v1.TransferDone.$Shape;
            static create(properties?: stemma.v1.TransferDone.$Properties): stemma.v1.TransferDone;

            /**
             * Encodes the specified TransferDone message. Does not implicitly {@link stemma.v1.TransferDone.verify|verify} messages.
             * @param message TransferDone message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.TransferDone.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes a TransferDone message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.TransferDone & stemma.v1.TransferDone.$Shape} TransferDone
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.TransferDone & stemma.v1.TransferDone.$Shape;
        }

        namespace TransferDone {

            /** Properties of a TransferDone. */
            interface $Properties {

                /** TransferDone transfer */
                transfer?: (string|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of a TransferDone. */
            type $Shape = stemma.v1.TransferDone.$Properties;
        }

        /**
         * Properties of a Receipt.
         * @deprecated Use stemma.v1.Receipt.$Properties instead.
         */
        interface IReceipt extends stemma.v1.Receipt.$Properties {
        }

        /** Represents a Receipt. */
        class Receipt {

            /**
             * Constructs a new Receipt.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.Receipt.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** Receipt kind. */
            kind: stemma.v1.Receipt.Kind;

            /** Receipt versionId. */
            versionId: Uint8Array;

            /** Receipt fleet. */
            fleet: string;

            /** Receipt device. */
            device: string;

            /** Receipt session. */
            session: number;

            /** Receipt position. */
            position: number;

            /** Receipt head. */
            head?: (stemma.v1.SignedHead.$Properties|null);

            /** Receipt backedUpTo. */
            backedUpTo: number;

            /** Receipt name. */
            name: string;

            /** Receipt version. */
            version: number;

            /** Receipt publicKey. */
            publicKey: Uint8Array;

            /** Receipt signature. */
            signature: Uint8Array;

            /** Receipt generation. */
            generation: number;

            /** Receipt start. */
            start?: (stemma.v1.StartProof.$Properties|null);

            /** Receipt fact. */
            fact?: (stemma.v1.ProvenFact.$Properties|null);

            /**
             * Creates a new Receipt instance using the specified properties.
             * @param [properties] Properties to set
             * @returns Receipt instance
             */
            static create(properties: stemma.v1.Receipt.$Shape): stemma.v1.Receipt & stemma.v1.Receipt.$Shape;
            static create(properties?: stemma.v1.Receipt.$Properties): stemma.v1.Receipt;

            /**
             * Encodes the specified Receipt message. Does not implicitly {@link stemma.v1.Receipt.verify|verify} messages.
             * @param message Receipt message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.Receipt.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes a Receipt message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.Receipt & stemma.v1.Receipt.$Shape} Receipt
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.Receipt & stemma.v1.Receipt.$Shape;
        }

        namespace Receipt {

            /** Properties of a Receipt. */
            interface $Properties {

                /** Receipt kind */
                kind?: (stemma.v1.Receipt.Kind|null);

                /** Receipt versionId */
                versionId?: (Uint8Array|null);

                /** Receipt fleet */
                fleet?: (string|null);

                /** Receipt device */
                device?: (string|null);

                /** Receipt session */
                session?: (number|null);

                /** Receipt position */
                position?: (number|null);

                /** Receipt head */
                head?: (stemma.v1.SignedHead.$Properties|null);

                /** Receipt backedUpTo */
                backedUpTo?: (number|null);

                /** Receipt name */
                name?: (string|null);

                /** Receipt version */
                version?: (number|null);

                /** Receipt publicKey */
                publicKey?: (Uint8Array|null);

                /** Receipt signature */
                signature?: (Uint8Array|null);

                /** Receipt generation */
                generation?: (number|null);

                /** Receipt start */
                start?: (stemma.v1.StartProof.$Properties|null);

                /** Receipt fact */
                fact?: (stemma.v1.ProvenFact.$Properties|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of a Receipt. */
            type $Shape = stemma.v1.Receipt.$Properties;

            /** Kind enum. */
            enum Kind {

                /** RECORDED value */
                RECORDED = 0,

                /** STORED value */
                STORED = 1,

                /** RELEASED value */
                RELEASED = 2
            }
        }

        /**
         * Properties of a Refusal.
         * @deprecated Use stemma.v1.Refusal.$Properties instead.
         */
        interface IRefusal extends stemma.v1.Refusal.$Properties {
        }

        /** Represents a Refusal. */
        class Refusal {

            /**
             * Constructs a new Refusal.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.Refusal.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** Refusal code. */
            code: string;

            /** Refusal message. */
            message: string;

            /** Refusal versionId. */
            versionId: Uint8Array;

            /** Refusal transfer. */
            transfer: string;

            /** Refusal retry. */
            retry: boolean;

            /** Refusal retryAfterMs. */
            retryAfterMs: number;

            /**
             * Creates a new Refusal instance using the specified properties.
             * @param [properties] Properties to set
             * @returns Refusal instance
             */
            static create(properties: stemma.v1.Refusal.$Shape): stemma.v1.Refusal & stemma.v1.Refusal.$Shape;
            static create(properties?: stemma.v1.Refusal.$Properties): stemma.v1.Refusal;

            /**
             * Encodes the specified Refusal message. Does not implicitly {@link stemma.v1.Refusal.verify|verify} messages.
             * @param message Refusal message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.Refusal.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes a Refusal message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.Refusal & stemma.v1.Refusal.$Shape} Refusal
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.Refusal & stemma.v1.Refusal.$Shape;
        }

        namespace Refusal {

            /** Properties of a Refusal. */
            interface $Properties {

                /** Refusal code */
                code?: (string|null);

                /** Refusal message */
                message?: (string|null);

                /** Refusal versionId */
                versionId?: (Uint8Array|null);

                /** Refusal transfer */
                transfer?: (string|null);

                /** Refusal retry */
                retry?: (boolean|null);

                /** Refusal retryAfterMs */
                retryAfterMs?: (number|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of a Refusal. */
            type $Shape = stemma.v1.Refusal.$Properties;
        }

        /**
         * Properties of a Parked.
         * @deprecated Use stemma.v1.Parked.$Properties instead.
         */
        interface IParked extends stemma.v1.Parked.$Properties {
        }

        /** Represents a Parked. */
        class Parked {

            /**
             * Constructs a new Parked.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.Parked.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** Parked versionId. */
            versionId: Uint8Array;

            /** Parked expiresMs. */
            expiresMs: number;

            /**
             * Creates a new Parked instance using the specified properties.
             * @param [properties] Properties to set
             * @returns Parked instance
             */
            static create(properties: stemma.v1.Parked.$Shape): stemma.v1.Parked & stemma.v1.Parked.$Shape;
            static create(properties?: stemma.v1.Parked.$Properties): stemma.v1.Parked;

            /**
             * Encodes the specified Parked message. Does not implicitly {@link stemma.v1.Parked.verify|verify} messages.
             * @param message Parked message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.Parked.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes a Parked message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.Parked & stemma.v1.Parked.$Shape} Parked
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.Parked & stemma.v1.Parked.$Shape;
        }

        namespace Parked {

            /** Properties of a Parked. */
            interface $Properties {

                /** Parked versionId */
                versionId?: (Uint8Array|null);

                /** Parked expiresMs */
                expiresMs?: (number|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of a Parked. */
            type $Shape = stemma.v1.Parked.$Properties;
        }

        /**
         * Properties of an Activated.
         * @deprecated Use stemma.v1.Activated.$Properties instead.
         */
        interface IActivated extends stemma.v1.Activated.$Properties {
        }

        /** Represents an Activated. */
        class Activated {

            /**
             * Constructs a new Activated.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.Activated.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** Activated versionId. */
            versionId: Uint8Array;

            /** Activated line. */
            line: string;

            /** Activated atMs. */
            atMs: number;

            /** Activated clockErrorMs. */
            clockErrorMs: number;

            /** Activated number. */
            number: number;

            /**
             * Creates a new Activated instance using the specified properties.
             * @param [properties] Properties to set
             * @returns Activated instance
             */
            static create(properties: stemma.v1.Activated.$Shape): stemma.v1.Activated & stemma.v1.Activated.$Shape;
            static create(properties?: stemma.v1.Activated.$Properties): stemma.v1.Activated;

            /**
             * Encodes the specified Activated message. Does not implicitly {@link stemma.v1.Activated.verify|verify} messages.
             * @param message Activated message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.Activated.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes an Activated message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.Activated & stemma.v1.Activated.$Shape} Activated
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.Activated & stemma.v1.Activated.$Shape;
        }

        namespace Activated {

            /** Properties of an Activated. */
            interface $Properties {

                /** Activated versionId */
                versionId?: (Uint8Array|null);

                /** Activated line */
                line?: (string|null);

                /** Activated atMs */
                atMs?: (number|null);

                /** Activated clockErrorMs */
                clockErrorMs?: (number|null);

                /** Activated number */
                number?: (number|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of an Activated. */
            type $Shape = stemma.v1.Activated.$Properties;
        }

        /**
         * Properties of an ActivationReceipt.
         * @deprecated Use stemma.v1.ActivationReceipt.$Properties instead.
         */
        interface IActivationReceipt extends stemma.v1.ActivationReceipt.$Properties {
        }

        /** Represents an ActivationReceipt. */
        class ActivationReceipt {

            /**
             * Constructs a new ActivationReceipt.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.ActivationReceipt.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** ActivationReceipt line. */
            line: string;

            /** ActivationReceipt number. */
            number: number;

            /**
             * Creates a new ActivationReceipt instance using the specified properties.
             * @param [properties] Properties to set
             * @returns ActivationReceipt instance
             */
            static create(properties: stemma.v1.ActivationReceipt.$Shape): stemma.v1.ActivationReceipt & stemma.v1.ActivationReceipt.$Shape;
            static create(properties?: stemma.v1.ActivationReceipt.$Properties): stemma.v1.ActivationReceipt;

            /**
             * Encodes the specified ActivationReceipt message. Does not implicitly {@link stemma.v1.ActivationReceipt.verify|verify} messages.
             * @param message ActivationReceipt message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.ActivationReceipt.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes an ActivationReceipt message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.ActivationReceipt & stemma.v1.ActivationReceipt.$Shape} ActivationReceipt
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.ActivationReceipt & stemma.v1.ActivationReceipt.$Shape;
        }

        namespace ActivationReceipt {

            /** Properties of an ActivationReceipt. */
            interface $Properties {

                /** ActivationReceipt line */
                line?: (string|null);

                /** ActivationReceipt number */
                number?: (number|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of an ActivationReceipt. */
            type $Shape = stemma.v1.ActivationReceipt.$Properties;
        }

        /**
         * Properties of an Event.
         * @deprecated Use stemma.v1.Event.$Properties instead.
         */
        interface IEvent extends stemma.v1.Event.$Properties {
        }

        /** Represents an Event. */
        class Event {

            /**
             * Constructs a new Event.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.Event.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** Event name. */
            name: string;

            /** Event text. */
            text: string;

            /** Event line. */
            line: string;

            /** Event versionId. */
            versionId: Uint8Array;

            /**
             * Creates a new Event instance using the specified properties.
             * @param [properties] Properties to set
             * @returns Event instance
             */
            static create(properties: stemma.v1.Event.$Shape): stemma.v1.Event & stemma.v1.Event.$Shape;
            static create(properties?: stemma.v1.Event.$Properties): stemma.v1.Event;

            /**
             * Encodes the specified Event message. Does not implicitly {@link stemma.v1.Event.verify|verify} messages.
             * @param message Event message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.Event.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes an Event message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.Event & stemma.v1.Event.$Shape} Event
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.Event & stemma.v1.Event.$Shape;
        }

        namespace Event {

            /** Properties of an Event. */
            interface $Properties {

                /** Event name */
                name?: (string|null);

                /** Event text */
                text?: (string|null);

                /** Event line */
                line?: (string|null);

                /** Event versionId */
                versionId?: (Uint8Array|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of an Event. */
            type $Shape = stemma.v1.Event.$Properties;
        }

        /**
         * Properties of an Offer.
         * @deprecated Use stemma.v1.Offer.$Properties instead.
         */
        interface IOffer extends stemma.v1.Offer.$Properties {
        }

        /** Represents an Offer. */
        class Offer {

            /**
             * Constructs a new Offer.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.Offer.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** Offer line. */
            line: string;

            /** Offer versionId. */
            versionId: Uint8Array;

            /** Offer record. */
            record: Uint8Array;

            /** Offer objects. */
            objects: stemma.v1.SmallObject.$Properties[];

            /** Offer signature. */
            signature: Uint8Array;

            /** Offer name. */
            name: string;

            /** Offer version. */
            version: number;

            /** Offer generation. */
            generation: number;

            /** Offer staged. */
            staged: boolean;

            /** Offer release. */
            release?: (stemma.v1.OfferedRelease.$Properties|null);

            /** Offer pipeline. */
            pipeline?: (stemma.v1.OfferedPipeline.$Properties|null);

            /** Offer logged. */
            logged?: (stemma.v1.LoggedVersion.$Properties|null);

            /**
             * Creates a new Offer instance using the specified properties.
             * @param [properties] Properties to set
             * @returns Offer instance
             */
            static create(properties: stemma.v1.Offer.$Shape): stemma.v1.Offer & stemma.v1.Offer.$Shape;
            static create(properties?: stemma.v1.Offer.$Properties): stemma.v1.Offer;

            /**
             * Encodes the specified Offer message. Does not implicitly {@link stemma.v1.Offer.verify|verify} messages.
             * @param message Offer message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.Offer.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes an Offer message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.Offer & stemma.v1.Offer.$Shape} Offer
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.Offer & stemma.v1.Offer.$Shape;
        }

        namespace Offer {

            /** Properties of an Offer. */
            interface $Properties {

                /** Offer line */
                line?: (string|null);

                /** Offer versionId */
                versionId?: (Uint8Array|null);

                /** Offer record */
                record?: (Uint8Array|null);

                /** Offer objects */
                objects?: (stemma.v1.SmallObject.$Properties[]|null);

                /** Offer signature */
                signature?: (Uint8Array|null);

                /** Offer name */
                name?: (string|null);

                /** Offer version */
                version?: (number|null);

                /** Offer generation */
                generation?: (number|null);

                /** Offer staged */
                staged?: (boolean|null);

                /** Offer release */
                release?: (stemma.v1.OfferedRelease.$Properties|null);

                /** Offer pipeline */
                pipeline?: (stemma.v1.OfferedPipeline.$Properties|null);

                /** Offer logged */
                logged?: (stemma.v1.LoggedVersion.$Properties|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of an Offer. */
            type $Shape = stemma.v1.Offer.$Properties;
        }

        /**
         * Properties of an OfferedRelease.
         * @deprecated Use stemma.v1.OfferedRelease.$Properties instead.
         */
        interface IOfferedRelease extends stemma.v1.OfferedRelease.$Properties {
        }

        /** Represents an OfferedRelease. */
        class OfferedRelease {

            /**
             * Constructs a new OfferedRelease.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.OfferedRelease.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** OfferedRelease name. */
            name: string;

            /** OfferedRelease manifest. */
            manifest: Uint8Array;

            /**
             * Creates a new OfferedRelease instance using the specified properties.
             * @param [properties] Properties to set
             * @returns OfferedRelease instance
             */
            static create(properties: stemma.v1.OfferedRelease.$Shape): stemma.v1.OfferedRelease & stemma.v1.OfferedRelease.$Shape;
            static create(properties?: stemma.v1.OfferedRelease.$Properties): stemma.v1.OfferedRelease;

            /**
             * Encodes the specified OfferedRelease message. Does not implicitly {@link stemma.v1.OfferedRelease.verify|verify} messages.
             * @param message OfferedRelease message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.OfferedRelease.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes an OfferedRelease message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.OfferedRelease & stemma.v1.OfferedRelease.$Shape} OfferedRelease
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.OfferedRelease & stemma.v1.OfferedRelease.$Shape;
        }

        namespace OfferedRelease {

            /** Properties of an OfferedRelease. */
            interface $Properties {

                /** OfferedRelease name */
                name?: (string|null);

                /** OfferedRelease manifest */
                manifest?: (Uint8Array|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of an OfferedRelease. */
            type $Shape = stemma.v1.OfferedRelease.$Properties;
        }

        /**
         * Properties of an OfferedPipeline.
         * @deprecated Use stemma.v1.OfferedPipeline.$Properties instead.
         */
        interface IOfferedPipeline extends stemma.v1.OfferedPipeline.$Properties {
        }

        /** Represents an OfferedPipeline. */
        class OfferedPipeline {

            /**
             * Constructs a new OfferedPipeline.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.OfferedPipeline.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** OfferedPipeline id. */
            id: Uint8Array;

            /** OfferedPipeline data. */
            data: Uint8Array;

            /**
             * Creates a new OfferedPipeline instance using the specified properties.
             * @param [properties] Properties to set
             * @returns OfferedPipeline instance
             */
            static create(properties: stemma.v1.OfferedPipeline.$Shape): stemma.v1.OfferedPipeline & stemma.v1.OfferedPipeline.$Shape;
            static create(properties?: stemma.v1.OfferedPipeline.$Properties): stemma.v1.OfferedPipeline;

            /**
             * Encodes the specified OfferedPipeline message. Does not implicitly {@link stemma.v1.OfferedPipeline.verify|verify} messages.
             * @param message OfferedPipeline message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.OfferedPipeline.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes an OfferedPipeline message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.OfferedPipeline & stemma.v1.OfferedPipeline.$Shape} OfferedPipeline
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.OfferedPipeline & stemma.v1.OfferedPipeline.$Shape;
        }

        namespace OfferedPipeline {

            /** Properties of an OfferedPipeline. */
            interface $Properties {

                /** OfferedPipeline id */
                id?: (Uint8Array|null);

                /** OfferedPipeline data */
                data?: (Uint8Array|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of an OfferedPipeline. */
            type $Shape = stemma.v1.OfferedPipeline.$Properties;
        }

        /**
         * Properties of a LoggedVersion.
         * @deprecated Use stemma.v1.LoggedVersion.$Properties instead.
         */
        interface ILoggedVersion extends stemma.v1.LoggedVersion.$Properties {
        }

        /** Represents a LoggedVersion. */
        class LoggedVersion {

            /**
             * Constructs a new LoggedVersion.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.LoggedVersion.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** LoggedVersion checkpoint. */
            checkpoint: string;

            /** LoggedVersion fact. */
            fact?: (stemma.v1.ProvenFact.$Properties|null);

            /** LoggedVersion start. */
            start?: (stemma.v1.StartProof.$Properties|null);

            /**
             * Creates a new LoggedVersion instance using the specified properties.
             * @param [properties] Properties to set
             * @returns LoggedVersion instance
             */
            static create(properties: stemma.v1.LoggedVersion.$Shape): stemma.v1.LoggedVersion & stemma.v1.LoggedVersion.$Shape;
            static create(properties?: stemma.v1.LoggedVersion.$Properties): stemma.v1.LoggedVersion;

            /**
             * Encodes the specified LoggedVersion message. Does not implicitly {@link stemma.v1.LoggedVersion.verify|verify} messages.
             * @param message LoggedVersion message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.LoggedVersion.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes a LoggedVersion message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.LoggedVersion & stemma.v1.LoggedVersion.$Shape} LoggedVersion
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.LoggedVersion & stemma.v1.LoggedVersion.$Shape;
        }

        namespace LoggedVersion {

            /** Properties of a LoggedVersion. */
            interface $Properties {

                /** LoggedVersion checkpoint */
                checkpoint?: (string|null);

                /** LoggedVersion fact */
                fact?: (stemma.v1.ProvenFact.$Properties|null);

                /** LoggedVersion start */
                start?: (stemma.v1.StartProof.$Properties|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of a LoggedVersion. */
            type $Shape = stemma.v1.LoggedVersion.$Properties;
        }

        /**
         * Properties of a ReleasePart.
         * @deprecated Use stemma.v1.ReleasePart.$Properties instead.
         */
        interface IReleasePart extends stemma.v1.ReleasePart.$Properties {
        }

        /** Represents a ReleasePart. */
        class ReleasePart {

            /**
             * Constructs a new ReleasePart.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.ReleasePart.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** ReleasePart set. */
            set: Uint8Array;

            /** ReleasePart part. */
            part: number;

            /** ReleasePart parts. */
            parts: number;

            /** ReleasePart data. */
            data: Uint8Array;

            /**
             * Creates a new ReleasePart instance using the specified properties.
             * @param [properties] Properties to set
             * @returns ReleasePart instance
             */
            static create(properties: stemma.v1.ReleasePart.$Shape): stemma.v1.ReleasePart & stemma.v1.ReleasePart.$Shape;
            static create(properties?: stemma.v1.ReleasePart.$Properties): stemma.v1.ReleasePart;

            /**
             * Encodes the specified ReleasePart message. Does not implicitly {@link stemma.v1.ReleasePart.verify|verify} messages.
             * @param message ReleasePart message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.ReleasePart.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes a ReleasePart message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.ReleasePart & stemma.v1.ReleasePart.$Shape} ReleasePart
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.ReleasePart & stemma.v1.ReleasePart.$Shape;
        }

        namespace ReleasePart {

            /** Properties of a ReleasePart. */
            interface $Properties {

                /** ReleasePart set */
                set?: (Uint8Array|null);

                /** ReleasePart part */
                part?: (number|null);

                /** ReleasePart parts */
                parts?: (number|null);

                /** ReleasePart data */
                data?: (Uint8Array|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of a ReleasePart. */
            type $Shape = stemma.v1.ReleasePart.$Properties;
        }

        /**
         * Properties of an OwnerTime.
         * @deprecated Use stemma.v1.OwnerTime.$Properties instead.
         */
        interface IOwnerTime extends stemma.v1.OwnerTime.$Properties {
        }

        /** Represents an OwnerTime. */
        class OwnerTime {

            /**
             * Constructs a new OwnerTime.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.OwnerTime.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** OwnerTime statement. */
            statement: string;

            /**
             * Creates a new OwnerTime instance using the specified properties.
             * @param [properties] Properties to set
             * @returns OwnerTime instance
             */
            static create(properties: stemma.v1.OwnerTime.$Shape): stemma.v1.OwnerTime & stemma.v1.OwnerTime.$Shape;
            static create(properties?: stemma.v1.OwnerTime.$Properties): stemma.v1.OwnerTime;

            /**
             * Encodes the specified OwnerTime message. Does not implicitly {@link stemma.v1.OwnerTime.verify|verify} messages.
             * @param message OwnerTime message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.OwnerTime.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes an OwnerTime message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.OwnerTime & stemma.v1.OwnerTime.$Shape} OwnerTime
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.OwnerTime & stemma.v1.OwnerTime.$Shape;
        }

        namespace OwnerTime {

            /** Properties of an OwnerTime. */
            interface $Properties {

                /** OwnerTime statement */
                statement?: (string|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of an OwnerTime. */
            type $Shape = stemma.v1.OwnerTime.$Properties;
        }

        /**
         * Properties of a Fetch.
         * @deprecated Use stemma.v1.Fetch.$Properties instead.
         */
        interface IFetch extends stemma.v1.Fetch.$Properties {
        }

        /** Represents a Fetch. */
        class Fetch {

            /**
             * Constructs a new Fetch.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.Fetch.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** Fetch versionId. */
            versionId: Uint8Array;

            /** Fetch transfer. */
            transfer: string;

            /** Fetch objects. */
            objects: stemma.v1.ObjectRef.$Properties[];

            /** Fetch blockBytes. */
            blockBytes: number;

            /** Fetch part. */
            part: number;

            /** Fetch parts. */
            parts: number;

            /** Fetch codec. */
            codec: number;

            /** Fetch references. */
            references: Uint8Array[];

            /** Fetch streamBytes. */
            streamBytes: number;

            /**
             * Creates a new Fetch instance using the specified properties.
             * @param [properties] Properties to set
             * @returns Fetch instance
             */
            static create(properties: stemma.v1.Fetch.$Shape): stemma.v1.Fetch & stemma.v1.Fetch.$Shape;
            static create(properties?: stemma.v1.Fetch.$Properties): stemma.v1.Fetch;

            /**
             * Encodes the specified Fetch message. Does not implicitly {@link stemma.v1.Fetch.verify|verify} messages.
             * @param message Fetch message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.Fetch.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes a Fetch message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.Fetch & stemma.v1.Fetch.$Shape} Fetch
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.Fetch & stemma.v1.Fetch.$Shape;
        }

        namespace Fetch {

            /** Properties of a Fetch. */
            interface $Properties {

                /** Fetch versionId */
                versionId?: (Uint8Array|null);

                /** Fetch transfer */
                transfer?: (string|null);

                /** Fetch objects */
                objects?: (stemma.v1.ObjectRef.$Properties[]|null);

                /** Fetch blockBytes */
                blockBytes?: (number|null);

                /** Fetch part */
                part?: (number|null);

                /** Fetch parts */
                parts?: (number|null);

                /** Fetch codec */
                codec?: (number|null);

                /** Fetch references */
                references?: (Uint8Array[]|null);

                /** Fetch streamBytes */
                streamBytes?: (number|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of a Fetch. */
            type $Shape = stemma.v1.Fetch.$Properties;
        }

        /**
         * Properties of a Command.
         * @deprecated Use stemma.v1.Command.$Properties instead.
         */
        interface ICommand extends stemma.v1.Command.$Properties {
        }

        /** Represents a Command. */
        class Command {

            /**
             * Constructs a new Command.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.Command.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** Command name. */
            name: string;

            /** Command json. */
            json: string;

            /**
             * Creates a new Command instance using the specified properties.
             * @param [properties] Properties to set
             * @returns Command instance
             */
            static create(properties: stemma.v1.Command.$Shape): stemma.v1.Command & stemma.v1.Command.$Shape;
            static create(properties?: stemma.v1.Command.$Properties): stemma.v1.Command;

            /**
             * Encodes the specified Command message. Does not implicitly {@link stemma.v1.Command.verify|verify} messages.
             * @param message Command message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.Command.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes a Command message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.Command & stemma.v1.Command.$Shape} Command
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.Command & stemma.v1.Command.$Shape;
        }

        namespace Command {

            /** Properties of a Command. */
            interface $Properties {

                /** Command name */
                name?: (string|null);

                /** Command json */
                json?: (string|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of a Command. */
            type $Shape = stemma.v1.Command.$Properties;
        }

        /**
         * Properties of a CommandResult.
         * @deprecated Use stemma.v1.CommandResult.$Properties instead.
         */
        interface ICommandResult extends stemma.v1.CommandResult.$Properties {
        }

        /** Represents a CommandResult. */
        class CommandResult {

            /**
             * Constructs a new CommandResult.
             * @param [properties] Properties to set
             */
            constructor(properties?: stemma.v1.CommandResult.$Properties);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];

            /** CommandResult code. */
            code: string;

            /** CommandResult json. */
            json: string;

            /**
             * Creates a new CommandResult instance using the specified properties.
             * @param [properties] Properties to set
             * @returns CommandResult instance
             */
            static create(properties: stemma.v1.CommandResult.$Shape): stemma.v1.CommandResult & stemma.v1.CommandResult.$Shape;
            static create(properties?: stemma.v1.CommandResult.$Properties): stemma.v1.CommandResult;

            /**
             * Encodes the specified CommandResult message. Does not implicitly {@link stemma.v1.CommandResult.verify|verify} messages.
             * @param message CommandResult message or plain object to encode
             * @param [writer] Writer to encode to
             * @returns Writer
             */
            static encode(message: stemma.v1.CommandResult.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

            /**
             * Decodes a CommandResult message from the specified reader or buffer.
             * @param reader Reader or buffer to decode from
             * @param [length] Message length if known beforehand
             * @returns {stemma.v1.CommandResult & stemma.v1.CommandResult.$Shape} CommandResult
             * @throws {Error} If the payload is not a reader or valid buffer
             * @throws {$protobuf.util.ProtocolError} If required fields are missing
             */
            static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): stemma.v1.CommandResult & stemma.v1.CommandResult.$Shape;
        }

        namespace CommandResult {

            /** Properties of a CommandResult. */
            interface $Properties {

                /** CommandResult code */
                code?: (string|null);

                /** CommandResult json */
                json?: (string|null);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];
            }

            /** Shape of a CommandResult. */
            type $Shape = stemma.v1.CommandResult.$Properties;
        }
    }
}
