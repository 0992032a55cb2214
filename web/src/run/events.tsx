// The journal of a run: what happened, the latest first.
import { useEffect, useMemo, useState } from "preact/hooks";
import { fetchEvents } from "../api/api.ts";
import { useResource } from "../api/resource.ts";
import type { RunEvent, RunView } from "../api/views.ts";
import { countText } from "../format/number.ts";
import { clockText } from "../format/time.ts";
import { Empty, Loading, ProblemNotice } from "../shell/notices.tsx";
import { Time } from "../shell/time.tsx";
import { printable } from "../text/printable.ts";
import { detailsText } from "./event_details.ts";

function toneOf(event: string): string {
  return /fail|lost|hang|died|killed|broken/.test(event) ? "bad-text" : "";
}

function Row({ event }: { event: RunEvent }) {
  return (
    <tr>
      <td class="number">{event.sequence}</td>
      <td class="number">
        <Time time={event.time} text={clockText(event.time, true)} />
      </td>
      <td class={toneOf(event.event)}>{printable(event.event.replace(/_/g, " "))}</td>
      <td class="details">{printable(detailsText(event.details))}</td>
    </tr>
  );
}

export function Events({ id, run }: { id: string; run: RunView }) {
  const { data, problem, reload } = useResource(id, () => fetchEvents(id));
  const [text, setText] = useState("");
  useEffect(() => reload(), [run.state, run.attempts.length, run.checkpoints.length, reload]);
  const shown = useMemo(() => {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const all = [...(data ?? [])].reverse();
    if (words.length === 0) return all;
    return all.filter((event) => {
      const line = `${event.event.replace(/_/g, " ")} ${detailsText(event.details)}`.toLowerCase();
      return words.every((word) => line.includes(word));
    });
  }, [data, text]);

  if (problem && !data) return <ProblemNotice problem={problem} onRetry={reload} />;
  if (!data) return <Loading />;
  if (data.length === 0) return <Empty title="Nothing has happened yet" />;
  return (
    <>
      <div class="toolbar">
        <label class="search small">
          <span class="for-screen-readers">Filter</span>
          <input
            type="search"
            data-filter
            placeholder="Filter events"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <span class="quiet number">
          {countText(shown.length)} of {countText(data.length)} events
        </span>
      </div>
      <div class="scrolls" tabIndex={0} role="group" aria-label="Events">
        <table class="events">
          <thead>
            <tr>
              <th class="number">No.</th>
              <th class="number">Time</th>
              <th>Event</th>
              <th>Details</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((event) => (
              <Row key={event.sequence} event={event} />
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
