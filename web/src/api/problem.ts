// Problem: an answer of the server that is an error, as RFC 9457 has them.

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail = "",
    /** What to do next. */
    readonly hint = "",
  ) {
    super(detail || title);
  }

  /** The server wants a session that this browser does not have. */
  get needsSession(): boolean {
    return this.status === 401;
  }
}

/** What a response that is an error says; also where no server of ours has answered, but a proxy. */
export async function problemOf(response: Response): Promise<Problem> {
  const json: unknown = await response.json().catch(() => null);
  const members = (typeof json === "object" && json !== null ? json : {}) as { [name: string]: unknown };
  const text = (name: string) => (typeof members[name] === "string" ? (members[name] as string) : "");
  return new Problem(
    response.status,
    text("title") || `The server answered ${response.status}`,
    text("detail"),
    text("hint"),
  );
}

/** The same for what fetch() throws: nobody has answered. */
export function problemOfFailure(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem(0, "The dashboard does not answer", "", "Is `paceline dashboard` still running?");
}
