/** What the contract suite needs of a device: a program in a process of its own, which can be killed. */

/** A device's certificate as its server would have issued it at another time. */
export interface OtherCertificate {
  /** PEM, for this connection key (PEM). */
  readonly issue: (connectionKey: string) => Promise<string>;
  readonly issuedAtMs: number;
  /** False: the device does not know the server's address of HTTPS. */
  readonly hasHttps: boolean;
}

/** Paths. */
export interface OwnedFiles {
  readonly file: string;
  readonly key: string;
}

/** A kind of device: an implementation of docs/protocol.md. */
export interface DeviceKind {
  /**
   * Enrols a home with the file of an invitation; rejects with an error that has a `code`.
   * @param owned the files of a certificate of the owner's authority and of its key
   */
  enrol(home: string, invitation: string, owned?: OwnedFiles): Promise<void>;
  /** Replaces the certificate of an enrolled home. */
  replaceCertificate(home: string, other: OtherCertificate): Promise<void>;
  /** Starts a device on its home; it connects, and connects again, by itself. */
  start(home: string): Promise<RunningDevice>;
}

export interface RunningDevice {
  /** Saves the model in a safetensors file, and resolves with its version id when it is durable. */
  save(line: string, file: string): Promise<string>;
  /** How far a version of its own is: pending, recorded, stored, released. */
  standing(versionId: string): Promise<string | undefined>;
  /** The versions of a line that it has. */
  versions(line: string): Promise<readonly string[]>;
  /** What went wrong so far, oldest first; with a code in it where there is one. */
  problems(): Promise<readonly string[]>;
  /** Ends in order. */
  stop(): Promise<void>;
  /** Ends with SIGKILL. */
  kill(): Promise<void>;
}
