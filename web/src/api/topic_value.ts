// The value of a topic as the server's news make it: whole once, then what has changed (docs/dashboard.md, "The
// stream"). Pure.

export type TopicValue = { [member: string]: unknown };

export type TopicEvent = { topic: string } & (
  | { kind: "snapshot"; value: TopicValue }
  | { kind: "delta"; set: TopicValue; removed: string[] }
);

function isObject(value: unknown): value is TopicValue {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What an event's data says; null for what no server of ours sends. */
export function topicEvent(kind: "snapshot" | "delta", data: string): TopicEvent | null {
  let json: unknown;
  try {
    json = JSON.parse(data);
  } catch {
    return null;
  }
  if (!isObject(json)) return null;
  const { topic, value, set = {}, removed = [] } = json;
  if (typeof topic !== "string") return null;
  if (kind === "snapshot") return isObject(value) ? { topic, kind, value } : null;
  if (!isObject(set) || !Array.isArray(removed)) return null;
  return { topic, kind, set, removed: removed.filter((name) => typeof name === "string") };
}

/** The value after an event. A delta of what was never seen whole says nothing: undefined. */
export function applied(before: TopicValue | undefined, event: TopicEvent): TopicValue | undefined {
  if (event.kind === "snapshot") return event.value;
  if (before === undefined) return undefined;
  const after = { ...before, ...event.set };
  for (const name of event.removed) delete after[name];
  return after;
}
