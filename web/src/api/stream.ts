// The server's news: server-sent events of a topic, on one connection a page. It connects again by itself, and then
// gets what it has missed, or the whole. A page that nobody sees has no connection: a browser allows six to a server,
// and with six pages in the background nothing else would be answered.
import { fetchSession } from "./api.ts";
import { connection } from "./connection.ts";
import { type TopicValue, applied, topicEvent } from "./topic_value.ts";

export interface Listener {
  /** The topic's value, now that it is known or has changed. */
  onValue(value: TopicValue): void;
  /** News were lost; the next value is whole, but what was asked for beside it may be out of date. */
  onGap?(): void;
}

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 10_000;

/** Listens until the function that it gives back is called. */
export function listen(topic: string, listener: Listener): () => void {
  const address = "api/v1/stream?topics=" + encodeURIComponent(topic);
  let source: EventSource | null = null;
  let value: TopicValue | undefined;
  let timer = 0;
  let pause = FIRST_PAUSE_MS;

  const take = (kind: "snapshot" | "delta") => (message: Event) => {
    connection.hear();
    const event = topicEvent(kind, (message as MessageEvent<string>).data);
    if (event?.topic !== topic) return;
    value = applied(value, event);
    if (value !== undefined) listener.onValue(value);
  };
  const connect = () => {
    source?.close();
    source = new EventSource(address);
    source.addEventListener("open", () => {
      pause = FIRST_PAUSE_MS;
      connection.open();
    });
    source.addEventListener("snapshot", take("snapshot"));
    source.addEventListener("delta", take("delta"));
    source.addEventListener("gap", () => listener.onGap?.());
    source.addEventListener("bye", () => connection.lose());
    source.addEventListener("error", () => {
      connection.lose();
      // The browser connects again by itself, unless it was refused: an error's status ends it for good.
      if (source?.readyState !== EventSource.CLOSED) return;
      void fetchSession().catch(() => {}); // a server that was started anew knows no session: the page says so
      timer = window.setTimeout(connectAgain, pause);
      pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
    });
  };
  const connectAgain = () => {
    connect();
    listener.onGap?.();
  };
  const disconnect = () => {
    window.clearTimeout(timer);
    source?.close();
    connection.close();
  };
  const onVisibility = () => (document.hidden ? disconnect() : connectAgain());
  document.addEventListener("visibilitychange", onVisibility);
  if (!document.hidden) connect();
  return () => {
    document.removeEventListener("visibilitychange", onVisibility);
    disconnect();
  };
}
