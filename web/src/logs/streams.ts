// What the logs of a run are called. Pure.
import type { LogStream } from "../api/views.ts";

export function isController(stream: LogStream): boolean {
  return stream.kind === "controller";
}

/** "rank 3", with its attempt where there are several; "controller", "data 1". */
export function streamTitle({ stream, rank, attempt }: LogStream, tellsAttempt = false): string {
  const [name = stream, piece] = stream.split(".");
  const title = rank === null ? name.replace(/_/g, " ") : `rank ${rank}`;
  const which = rank !== null && tellsAttempt && attempt !== null ? `, attempt ${attempt}` : "";
  return title + which + (piece ? `, ${piece} before` : "");
}

export function hasSeveralAttempts(streams: LogStream[]): boolean {
  return new Set(streams.flatMap(({ attempt }) => attempt ?? [])).size > 1;
}

/** The log that most readers are after: of the first rank that has written anything, in its last attempt. */
export function preferredStream(streams: LogStream[]): string {
  const written = streams.filter(({ kind, rank, size }) => kind === "worker" && rank !== null && size > 0);
  const last = Math.max(...written.map(({ attempt }) => attempt ?? 0));
  return (written.find(({ attempt }) => (attempt ?? 0) === last) ?? streams[0])?.stream ?? "";
}
